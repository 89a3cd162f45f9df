"""The version of the stream directory that each node has read, as its INFO on routes announces it.

Each change of the stream directory, the list of all streams, increments its version. A node
announces its version when the version changes, at most once per loop tick. A node that receives a
higher version than its own reads the new entries from the database and then announces that version
too. So the node that changed the directory learns when all connected nodes have read the change.
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
"""Longest time that a client waits until other nodes have read its change, in seconds."""


class DirectoryVersions:
    """The versions of the stream directory that this node and the nodes with routes have read.

    Args:
        peers: The routes of this node, by server id.
        announce: Sends the INFO of this node to all other nodes.

    Attributes:
        own: The version that this node has read; 0 if none, or if nothing was ever changed.
        `on_higher`: Called with another node's version that is higher than `own`.
    """

    def __init__(self, peers: Mapping[str, RouteLink], announce: Callable[[], None]) -> None:
        self.own = 0
        self.on_higher: Subscribers[[int]] = Subscribers()
        self._peers = peers
        self._announce = announce
        self._is_due = False
        self._changed = asyncio.Event()

    def read(self, version: int) -> None:
        """Record and announce the directory version that this node has read.

        It may be lower than before after a restore of the database.
        """
        if version != self.own:
            self.own = version
            if self._peers and not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._announce_version)

    def _announce_version(self) -> None:
        self._is_due = False
        self._announce()

    def apply(self, link: RouteLink) -> None:
        """Apply the directory version in another node's INFO.

        Call `on_higher` if it is higher than `own`.
        """
        self.wake()
        if link.info.directory_version > self.own:
            self.on_higher(link.info.directory_version)

    def wake(self) -> None:
        """Let callers of `read_by_all` check again, after a node has read a version or left."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def read_by_all(self, version: int) -> None:
        """Wait at most 0.25 s until all connected nodes have read this version."""
        if self._is_read_by_all(version):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WITHIN_S):
                while not self._is_read_by_all(version):
                    await self._changed.wait()

    def _is_read_by_all(self, version: int) -> bool:
        nodes = (link for link in self._peers.values() if link.is_proved)
        return all(link.info.directory_version >= version for link in nodes)
