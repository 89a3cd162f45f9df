"""Following the stream directory: what other nodes have changed is known here soon.

A node hears of a version (by a link, with a heartbeat) and reads what is new, once however many
have asked meanwhile. It tells the others which version it has read; who has changed something
answers its client when all that are linked have read it, or after a quarter of a second.
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

log = logging.getLogger("jetgate.cluster")


class Sharing(Protocol):
    """The other nodes that change the stream directory (`core.node.peers.Peers`)."""

    @property
    def has_others(self) -> bool:
        """Whether other nodes could have changed something."""
        ...

    async def shared(self, version: int) -> None:
        """Return when the linked nodes have read a version, or 0.25 s on."""
        ...


class Unshared:
    """Stands for the other nodes where there are none."""

    has_others = False

    async def shared(self, version: int) -> None:
        """Return at once."""


class DirectoryFollower:
    """What one process knows of the stream directory, and how it learns more.

    Args:
        source: reads the stream directory.
        sharing: the other nodes; None: there are none.

    Attributes:
        directory: what is known.
        sharing: the other nodes.
        damage: why what storage has cannot be read; None: it can.
    """

    def __init__(self, source: DirectorySource, sharing: Sharing | None = None) -> None:
        self.directory = StreamDirectory()
        self.sharing: Sharing = sharing or Unshared()
        self._source = source
        self._turn = asyncio.Lock()
        self._asked = self._read = 0
        self._error: StorageError | None = None
        self.damage: OperatorError | None = None
        self._reading: asyncio.Task[None] | None = None
        self._heard = 0

    def heard(self, version: int) -> None:
        """Hear that a version is there; it is read if it is new."""
        self._heard = version
        is_reading = self._reading is not None and not self._reading.done()
        if version > self.directory.version and not is_reading:
            self._reading = spawn(self._follow(), name="directory")

    async def _follow(self) -> None:
        """Read until what was heard of is known; a database that went back never has it."""
        before = None
        while before != (before := self.directory.version) < self._heard:
            try:
                await self.look()
            except StorageError as error:
                log.debug("the stream directory cannot be read: %s", error)
                return

    async def look(self) -> None:
        """Know whatever was committed before this call; several share one reading.

        Raises:
            Unavailable: storage does not answer.
        """
        self._asked += 1
        asked = self._asked
        async with self._turn:
            if self._read < asked:
                await self._look(self._asked)
            if self._error is not None:
                raise self._error

    async def _look(self, asked: int) -> None:
        """Read once for all who have asked by now, and keep how that ended for them."""
        updates = self.directory.updates
        self._error = self.damage = None
        try:
            self.directory.apply(await self._source.news(self.directory.version), updates)
        except StorageError as error:
            self._error = error
        except OperatorError as error:  # who would lead ends with it
            log.error("%s", error)
            self.damage, self._error = error, Unavailable(str(error))
        self._read = asked

    async def close(self) -> None:
        """Follow no more."""
        await stop(self._reading)
        await self._source.close()
