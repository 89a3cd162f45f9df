"""The embedded PostgreSQL of a server, in its store directory."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from core.runtime.tasks import spawn, stop
from core.runtime.threads import imported
from core.storage.directory_lock import lock_directory
from dropin.store_directory import use_directory

if TYPE_CHECKING:
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.embedded import EmbeddedPostgres

log = logging.getLogger(__name__)

# Modules that are imported while PostgreSQL starts.
_REST = ("core.storage.postgres.migrate", "core.node.campaign", "core.node.runtime")
# Many such servers share one machine, so each uses little of its memory.
_SETTINGS = {"shared_buffers": "64MB", "wal_buffers": "16MB", "min_wal_size": "80MB"}


class Embedded:
    """The embedded PostgreSQL of a server. Life cycle: `open`, `start`, `stop`.

    Args:
        directory: Store directory, which contains the database.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = -1
        self._postgres: EmbeddedPostgres | None = None

    def open(self) -> None:
        """Create and lock the store directory.

        Raises OperatorError if it is not writable, or another server uses it.
        """
        log.info('  Store Directory: "%s"', self._directory)
        use_directory(self._directory)
        self._lock = lock_directory(Path(os.path.abspath(self._directory)))

    async def start(self) -> Connector:
        """Start PostgreSQL, migrate its schema to this release, and return a connector to it.

        Raises OperatorError if PostgreSQL does not start.
        """
        embedded = await imported("core.storage.postgres.embedded")
        self._postgres = postgres = embedded.EmbeddedPostgres(
            self._directory, settings=_SETTINGS, lock=self._lock
        )
        rest = spawn(imported(*_REST), name="import of JetStream")
        try:
            await postgres.start()
            await rest
        finally:
            await stop(rest)
        from core.storage.postgres.migrate import migrate  # imported before, in a thread

        connector: Connector = postgres.connector
        await migrate(connector)
        return connector

    async def stop(self) -> None:
        """Stop PostgreSQL, if it was started."""
        if self._postgres is not None:
            await self._postgres.stop()
