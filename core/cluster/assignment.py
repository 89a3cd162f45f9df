"""Which node leads which lease group: one pure function of nodes, streams and who leads now.

Every node computes the same from the same. Groups stay where they are while that is even enough;
those that nobody leads go to who has the fewest streams, or, without any, to who has the fewest
groups.
"""

from collections.abc import Collection, Mapping

_UNEVEN = 0.1
"""The part of a node's share of streams by which two nodes may differ."""
_GROUPS_UNEVEN = 16
"""The number of groups by which they may."""


class _Loads:
    """What each node leads."""

    def __init__(self, nodes: Collection[str], streams: Mapping[int, int]) -> None:
        self.groups: dict[str, set[int]] = {node: set() for node in sorted(nodes)}
        self.streams = dict.fromkeys(self.groups, 0)
        self._of = streams

    def give(self, group: int, node: str) -> None:
        self.groups[node].add(group)
        self.streams[node] += self._of.get(group, 0)

    def take(self, group: int, node: str) -> None:
        self.groups[node].remove(group)
        self.streams[node] -= self._of.get(group, 0)

    def least(self) -> str:
        """The node with the fewest streams; of several that with the fewest groups."""
        return min(self.groups, key=lambda node: (self.streams[node], len(self.groups[node])))

    def fewest(self) -> str:
        """The node with the fewest groups; of several that with the fewest streams."""
        return min(self.groups, key=lambda node: (len(self.groups[node]), self.streams[node]))

    def level_streams(self) -> bool:
        """Move a group with streams to where there are fewer; whether there was one to move."""
        least = self.least()
        share = sum(self.streams.values()) / len(self.streams)
        for most in self._by_load(self.streams):
            apart = self.streams[most] - self.streams[least]
            if apart <= max(1, int(_UNEVEN * share)):
                break
            # Of who has one big group nothing can move; the next one may have small ones.
            fit = [g for g in self.groups[most] if 0 < 2 * self._of.get(g, 0) <= apart]
            if fit:
                self._move(max(fit, key=lambda g: (self._of[g], -g)), most, least)
                return True
        return False

    def level_groups(self) -> bool:
        """Move a group without streams to where there are fewer groups."""
        counts = {node: len(own) for node, own in self.groups.items()}
        least = self.fewest()
        for most in self._by_load(counts):
            if counts[most] - counts[least] <= _GROUPS_UNEVEN:
                break
            if empty := [g for g in self.groups[most] if not self._of.get(g, 0)]:
                self._move(min(empty), most, least)
                return True
        return False

    @staticmethod
    def _by_load(loads: Mapping[str, int]) -> list[str]:
        return sorted(loads, key=lambda node: -loads[node])

    def _move(self, group: int, most: str, least: str) -> None:
        self.take(group, most)
        self.give(group, least)


def assign(
    nodes: Collection[str],
    groups: Collection[int],
    streams: Mapping[int, int],
    led: Mapping[int, str],
    *,
    level: bool = True,
) -> dict[int, str]:
    """Return who is to lead each of some groups; nothing without nodes.

    Args:
        nodes: the names of those that can lead.
        groups: what is to be led.
        streams: how many streams a group has; none where it is left out.
        led: who leads a group now; somebody else than `nodes` is as good as nobody.
        level: whether groups move away from who can lead on, so that all have about the same.
    """
    if not nodes:
        return {}
    loads = _Loads(nodes, streams)
    free = []
    for group in groups:
        if (node := led.get(group, "")) in loads.groups:
            loads.give(group, node)
        else:
            free.append(group)
    for group in sorted(free, key=lambda g: (-streams.get(g, 0), g)):
        loads.give(group, loads.least() if streams.get(group, 0) else loads.fewest())
    while level and (loads.level_streams() or loads.level_groups()):
        pass
    return {group: node for node, own in loads.groups.items() for group in own}
