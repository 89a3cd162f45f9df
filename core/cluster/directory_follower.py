"""Keeps a node's copy of the stream directory up to date with the changes of other nodes.

A node learns of a new version from a link or a heartbeat, and reads the changes from PostgreSQL;
concurrent callers share one read. It then announces to peers the version it has read. A node that
has changed the directory answers its client when all linked nodes have read the change, or after
0.25 s.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from core.cluster.directory import StreamDirectory
from core.errors import OperatorError, StorageError, Unavailable
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.storage.interface import DirectorySource

log = logging.getLogger(__name__)


class DirectoryPeers(Protocol):
    """The other nodes, which also change the stream directory and read its changes.

    Implemented by `core.node.peers.Peers`.
    """

    @property
    def has_peers(self) -> bool:
        """True if other nodes exist, which could have changed the directory."""
        ...

    async def shared(self, version: int) -> None:
        """Return when all linked nodes have read a version of the directory, or after 0.25 s."""
        ...


class NoDirectoryPeers:
    """The `DirectoryPeers` of a process without other nodes."""

    has_peers = False

    async def shared(self, version: int) -> None:
        """Return at once: no other node has to read the version."""


class DirectoryFollower:
    """Holds the stream directory of a process and reads its changes. Call `close` at the end.

    Args:
        source: Reads the stream directory from storage.
        sharing: The other nodes; None: there are none.

    Attributes:
        directory: The streams, as last read.
        sharing: The other nodes.
        damage: Error of a stored row that cannot be decoded; None if there is none.
    """

    def __init__(self, source: DirectorySource, sharing: DirectoryPeers | None = None) -> None:
        self.directory = StreamDirectory()
        self.sharing: DirectoryPeers = sharing or NoDirectoryPeers()
        self._source = source
        self._lock = asyncio.Lock()
        self._asked = self._read = 0
        self._error: StorageError | None = None
        self.damage: OperatorError | None = None
        self._reading: asyncio.Task[None] | None = None
        self._heard = 0

    def on_version(self, version: int) -> None:
        """Record that a version of the directory exists; read it in the background if it is new."""
        self._heard = version
        is_reading = self._reading is not None and not self._reading.done()
        if version > self.directory.version and not is_reading:
            self._reading = spawn(self._follow(), name="directory")

    async def _follow(self) -> None:
        """Read until the newest announced version is known; stop if a read makes no progress.

        A database that was restored never reaches that version.
        """
        before = None
        while before != (before := self.directory.version) < self._heard:
            try:
                await self.refresh()
            except StorageError as error:
                log.debug("the stream directory cannot be read: %s", error)
                return

    async def refresh(self) -> None:
        """Read and apply all changes committed before this call; concurrent calls share one read.

        Raises:
            Unavailable: Storage does not answer, or a row is damaged (see `damage`).
        """
        self._asked += 1
        asked = self._asked
        async with self._lock:
            if self._read < asked:
                await self._refresh(self._asked)
            if self._error is not None:
                raise self._error

    async def _refresh(self, asked: int) -> None:
        """Read once for all callers up to number `asked`, and keep the error for them."""
        updates = self.directory.updates
        self._error = self.damage = None
        try:
            self.directory.apply(await self._source.news(self.directory.version), updates)
        except StorageError as error:
            self._error = error
        except OperatorError as error:  # a node that tries to lead ends with it
            log.error("%s", error)
            self.damage, self._error = error, Unavailable(str(error))
        self._read = asked

    async def close(self) -> None:
        """Stop following the directory, and close the session with storage."""
        await stop(self._reading)
        await self._source.close()
