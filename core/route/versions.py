"""Which version of the stream directory every linked node has read, as it says in its INFO.

A node says so when what it has read rises, once per turn of the loop. Who reads a higher version
than its own reads what is new, and says so in turn: so who has changed something learns when all
others know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from core.runtime.subscribers import Subscribers

if TYPE_CHECKING:
    from core.route.link import RouteLink


WITHIN_S = 0.25
"""How long a client waits at most for other nodes to know what it has changed."""


class Versions:
    """The versions of one mesh.

    Args:
        peers: the links that are there.
        announce: tells all of them what this node says of itself.

    Attributes:
        own: what this node has read; 0: nothing, or nothing has been changed yet.
        heard: called with a version that a peer has read.
    """

    def __init__(self, peers: Mapping[str, RouteLink], announce: Callable[[], None]) -> None:
        self.own = 0
        self.heard: Subscribers[[int]] = Subscribers()
        self._peers = peers
        self._announce = announce
        self._is_due = False
        self._changed = asyncio.Event()

    def read(self, version: int) -> None:
        """This node has read a version, which may be an old one where the database went back."""
        if version != self.own:
            self.own = version
            if self._peers and not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._say)

    def _say(self) -> None:
        self._is_due = False
        self._announce()

    def hear(self, link: RouteLink) -> None:
        """Take what a peer has read."""
        self.look()
        if link.info.directory_version > self.own:
            self.heard(link.info.directory_version)

    def look(self) -> None:
        """Have those who wait look again: a peer has read more, or is gone."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def read_by_all(self, version: int) -> None:
        """Return when all nodes of the database have read a version, or that takes too long."""
        if self._is_read_by_all(version):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WITHIN_S):
                while not self._is_read_by_all(version):
                    await self._changed.wait()

    def _is_read_by_all(self, version: int) -> bool:
        nodes = (link for link in self._peers.values() if link.is_proved)
        return all(link.info.directory_version >= version for link in nodes)
