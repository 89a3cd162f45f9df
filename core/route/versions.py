"""The directory version that each linked node has read, as its INFO announces it.

A node announces its version when the version changes, at most once per loop tick. A node that
receives a higher version than its own reads the new entries and then announces that version too. So
the node that changed the stream directory learns when all linked nodes have read the change.
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
"""Longest time, in seconds, for which a client waits until other nodes have read its change."""


class DirectoryVersions:
    """The directory versions of one mesh.

    Args:
        peers: The links of the mesh, by server id.
        announce: Sends the INFO of this node to all of them.

    Attributes:
        own: The version that this node has read; 0 if none, or if nothing was ever changed.
        `on_higher`: Called with the version of a peer that is higher than `own`.
    """

    def __init__(self, peers: Mapping[str, RouteLink], announce: Callable[[], None]) -> None:
        self.own = 0
        self.on_higher: Subscribers[[int]] = Subscribers()
        self._peers = peers
        self._announce = announce
        self._is_due = False
        self._changed = asyncio.Event()

    def read(self, version: int) -> None:
        """Record the directory version this node has read.

        It may be lower than before after a restore.
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
        """Apply the directory version in a peer's INFO."""
        self.wake()
        if link.info.directory_version > self.own:
            self.on_higher(link.info.directory_version)

    def wake(self) -> None:
        """Wake all waiters to compare again: a peer has read more, or is gone."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def read_by_all(self, version: int) -> None:
        """Wait until all linked nodes of the database have read a version, at most `WITHIN_S`."""
        if self._is_read_by_all(version):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WITHIN_S):
                while not self._is_read_by_all(version):
                    await self._changed.wait()

    def _is_read_by_all(self, version: int) -> bool:
        nodes = (link for link in self._peers.values() if link.is_proved)
        return all(link.info.directory_version >= version for link in nodes)
