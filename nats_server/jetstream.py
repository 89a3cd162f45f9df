"""JetStream in `jetgate-nats-server`, over an embedded PostgreSQL in the store directory.

Clients are accepted before it is there. What serves JetStream is imported beside that, while
PostgreSQL starts.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import OperatorError
from core.life import Candidacy
from core.remote.settings import Remote
from core.runtime.tasks import spawn, stop
from core.runtime.threads import imported
from core.server import Server
from core.storage.claims import claim
from nats_server.config.options import JetStreamOptions
from nats_server.store_directory import use_directory

if TYPE_CHECKING:
    from core.cluster.leadership import Leadership
    from core.storage.health import StorageHealth
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.embedded import EmbeddedPostgres
    from core.term import Term, TermOptions

log = logging.getLogger("jetgate.server")

# What is imported while PostgreSQL starts.
_REST = ("core.storage.postgres.migrate", "core.campaign", "core.term")
# Many such servers share one machine; each has a small share of its memory.
_SETTINGS = {"shared_buffers": "64MB", "wal_buffers": "16MB", "min_wal_size": "80MB"}


class JetStream:
    """Life cycle: `open`, `start`, `serve` in each term, `stop`."""

    def __init__(
        self, server: Server, options: JetStreamOptions, remotes: tuple[Remote, ...]
    ) -> None:
        self._server = server
        self._clock = server.clock
        self._directory = options.directory()
        self._lock = -1
        self._postgres: EmbeddedPostgres | None = None
        self._connector: Connector
        self._term: Term | None = None
        self._health: StorageHealth | None = None
        self._told: dict[str, Any] = {
            "strict": options.strict,
            "max_memory": max(options.max_memory, 0),
            "max_file": max(options.max_file, 0),
            "limits": options.limits,
            "remotes": remotes,
        }
        self._began = 0

    def open(self) -> bool:
        """Claim the store directory; clients may be accepted then. Raises OperatorError."""
        self._began = self._clock.monotonic()
        log.info("Starting JetStream")
        log.info('  Store Directory: "%s"', self._directory)
        try:
            use_directory(self._directory)
            self._lock = claim(Path(os.path.abspath(self._directory)))
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        return True

    async def start(self) -> Candidacy:
        """Start PostgreSQL. Raises OperatorError."""
        try:
            self._connector = await self._start()
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        return Candidacy(self._campaign, self._load)

    async def _start(self) -> Connector:
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
        from core.storage.postgres.migrate import migrate  # imported by now

        connector: Connector = postgres.connector
        await migrate(connector)
        return connector

    async def _campaign(self) -> Leadership:
        from core.campaign import campaign  # imported by `start`
        from core.storage.health import StorageHealth, waits

        if self._health is None:
            self._health = StorageHealth(self._clock)
            waits.addFilter(self._health.may_log)
        return await campaign(self._connector, self._clock, health=self._health)

    async def _load(self, leadership: Leadership) -> Term:
        from core.term import load  # imported by `start`

        return await load(self._server, self._connector, leadership, self._options())

    def _options(self) -> TermOptions:
        from core.term import TermOptions  # imported by `start`

        return TermOptions(**self._told)

    def serve(self, term: Term | None) -> None:
        """JetStream is served from now on."""
        if self._term is None:
            taken = (self._clock.monotonic() - self._began) // 1_000_000
            log.info("Took %d ms to start JetStream", taken)
        self._term = term

    def reconfigure(self, limits: dict[str, int], remotes: tuple[Remote, ...]) -> None:
        """Hold configurations to these limits, and use these remotes, from now on."""
        self._told |= {"limits": limits, "remotes": remotes}
        if self._term is not None:
            self._term.reconfigure(self._options())

    async def retire(self) -> None:
        """Nothing here ends before PostgreSQL does."""

    async def stop(self) -> None:
        """Stop PostgreSQL."""
        if self._health is not None:
            self._health.close()
        if self._postgres is not None:
            await self._postgres.stop()
