"""A substitute for the links of a node to its peers: a test sets the lease groups of the peers."""

from collections.abc import Collection
from typing import Any

from core.node.ownership.dispatch import Dispatch
from core.runtime.subscribers import Subscribers
from core.units import LeaseGroup


class Mesh:
    """A mesh (the links of a node to its peers) without connections."""

    is_beginning, stood_still, nodes = False, 0, ()

    def __init__(self, dispatch: Dispatch[Any]) -> None:
        self.reached: Subscribers[[]] = Subscribers()
        self._dispatch = dispatch
        self._peers: set[str] = set()

    def led(self, **peers: Collection[LeaseGroup]) -> None:
        """Announce that each of these peers owns some lease groups, and all other peers none."""
        for name in self._peers - peers.keys():
            self._dispatch.peer_announced(name, {})
        self._peers = set(peers)
        for name, groups in peers.items():
            self._dispatch.peer_announced(name, dict.fromkeys(groups, 1))
        self.reached()
