"""A mesh without links: peers say which groups they own."""

from typing import Any

from core.node.ownership.dispatch import Dispatch
from core.runtime.subscribers import Subscribers


class Mesh:
    """The links of a node, and the peers behind them."""

    is_beginning, stood_still, nodes = False, 0, ()

    def __init__(self, dispatch: Dispatch[Any]) -> None:
        self.reached: Subscribers[[]] = Subscribers()
        self._dispatch = dispatch
        self._peers: set[str] = set()

    def led(self, **peers: list[int]) -> None:
        """Let each of these peers own some groups, and the other peers none."""
        for name in self._peers - peers.keys():
            self._dispatch.peer_told(name, {})
        self._peers = set(peers)
        for name, groups in peers.items():
            self._dispatch.peer_told(name, dict.fromkeys(groups, 1))
        self.reached()
