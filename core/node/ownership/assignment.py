"""The assignment of lease groups to nodes: a pure function of nodes, streams, tags and owners.

Every node computes the same result from the same input. A group stays with its owner while the
loads of the nodes are even. A free group goes to the node with the fewest streams; a free group
without streams to the node with the fewest groups. A group whose streams require placement tags
goes only to nodes with these tags; if there is no such node, the tags are ignored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from core.cluster.tags import Tags
from core.units import LeaseGroup

_DIRECTORY = LeaseGroup(0)
"""Group of the stream directory. Requests wait while it moves, so it moves last."""
_UNEVEN = 0.1
"""Tolerated difference of two nodes' streams, as a fraction of the average per node."""
_GROUPS_UNEVEN = 16
"""Tolerated difference of two nodes' numbers of groups."""


class _Loads:
    """The groups and the number of streams of each node, during the computation."""

    def __init__(
        self, nodes: Collection[str], streams: Mapping[LeaseGroup, int], tags: Tags
    ) -> None:
        self.groups: dict[str, set[LeaseGroup]] = {node: set() for node in sorted(nodes)}
        self.streams = dict.fromkeys(self.groups, 0)
        self._of = streams
        self._tags = tags

    def suited(self, group: LeaseGroup) -> list[str]:
        """Return the nodes whose tags allow them to own a group."""
        return self._tags.suited(self.groups, group)

    def add(self, group: LeaseGroup, node: str) -> None:
        self.groups[node].add(group)
        self.streams[node] += self._of.get(group, 0)

    def remove(self, group: LeaseGroup, node: str) -> None:
        self.groups[node].remove(group)
        self.streams[node] -= self._of.get(group, 0)

    def least(self, nodes: Iterable[str]) -> str:
        """Return the node with the fewest streams; among equals, the one with the fewest groups."""
        return min(nodes, key=lambda node: (self.streams[node], len(self.groups[node])))

    def fewest(self, nodes: Iterable[str]) -> str:
        """Return the node with the fewest groups; among equals, the one with the fewest streams."""
        return min(nodes, key=lambda node: (len(self.groups[node]), self.streams[node]))

    def even_streams(self) -> bool:
        """Move one group with streams to a node with fewer streams; return whether one moved."""
        share = sum(self.streams.values()) / len(self.streams)
        counts = {node: (load, len(self.groups[node])) for node, load in self.streams.items()}
        for most, least in self._pairs(counts):
            apart = self.streams[most] - self.streams[least]
            if apart <= max(1, int(_UNEVEN * share)):
                continue
            # A node with one big group can give none; the next node may have small ones.
            fit = [
                group
                for group in self.groups[most]
                if 0 < 2 * self._of.get(group, 0) <= apart and least in self.suited(group)
            ]
            if fit:
                chosen = max(fit, key=lambda g: (self._of[g], g != _DIRECTORY, -g))
                self._move(chosen, most, least)
                return True
        return False

    def even_groups(self) -> bool:
        """Move one group without streams to a node with fewer groups; return whether one moved."""
        counts = {node: (len(own), self.streams[node]) for node, own in self.groups.items()}
        for most, least in self._pairs(counts):
            if counts[most][0] - counts[least][0] <= _GROUPS_UNEVEN:
                continue
            empty = [group for group in self.groups[most] if not self._of.get(group, 0)]
            if fit := [group for group in empty if least in self.suited(group)]:
                self._move(min(fit, key=lambda g: (g == _DIRECTORY, g)), most, least)
                return True
        return False

    @staticmethod
    def _pairs(loads: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, str]]:
        """Yield pairs (node that may give, node that may take), the greatest differences first.

        All pairs are yielded, since the least loaded node may lack the tags of a group.
        """
        givers = sorted(loads, key=lambda node: -loads[node][0])
        takers = sorted(loads, key=lambda node: loads[node])
        for most in givers:
            for least in takers:
                yield most, least

    def _move(self, group: LeaseGroup, most: str, least: str) -> None:
        self.remove(group, most)
        self.add(group, least)


def assign(
    nodes: Collection[str],
    groups: Collection[LeaseGroup],
    streams: Mapping[LeaseGroup, int],
    led: Mapping[LeaseGroup, str],
    *,
    tags: Tags | None = None,
    rebalance: bool = True,
) -> dict[LeaseGroup, str]:
    """Return the node that is to own each group in `groups`; empty without nodes.

    Args:
        nodes: Names of the nodes that can own groups.
        groups: The lease groups to assign.
        streams: Number of streams of each group; 0 for a group that is missing.
        led: Name of the present owner of each group; an owner that is not in `nodes` is ignored.
        tags: Tags of nodes, and tags that groups require; None: no tags.
        rebalance: False: a group with a present owner in `nodes` stays there. True: such a group
            moves if its owner lacks the required tags, or to even the loads.
    """
    if not nodes:
        return {}
    loads = _Loads(nodes, streams, tags or Tags())
    free = []
    for group in groups:
        if led.get(group, "") in (loads.suited(group) if rebalance else loads.groups):
            loads.add(group, led[group])
        else:
            free.append(group)
    for group in sorted(free, key=lambda g: (-streams.get(g, 0), g)):
        suited = loads.suited(group)
        loads.add(group, loads.least(suited) if streams.get(group, 0) else loads.fewest(suited))
    while rebalance and (loads.even_streams() or loads.even_groups()):
        pass
    return {group: node for node, own in loads.groups.items() for group in own}
