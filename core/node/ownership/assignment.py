"""Which node leads which lease group: one pure function of nodes, streams, tags and who leads now.

Every node computes the same from the same. Groups stay where they are while that is even enough;
those that nobody leads go to who has the fewest streams, or, without any, to who has the fewest
groups. A group whose streams ask for tags is only led by nodes that suit them, as long as there is
one; when there is none, by any, as if it asked for nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from core.cluster.tags import Tags

_DIRECTORY = 0
"""The group of the stream directory: requests wait while it moves, so it goes last."""
_UNEVEN = 0.1
"""The part of a node's share of streams by which two nodes may differ."""
_GROUPS_UNEVEN = 16
"""The number of groups by which they may."""


class _Loads:
    """What each node leads."""

    def __init__(self, nodes: Collection[str], streams: Mapping[int, int], tags: Tags) -> None:
        self.groups: dict[str, set[int]] = {node: set() for node in sorted(nodes)}
        self.streams = dict.fromkeys(self.groups, 0)
        self._of = streams
        self._tags = tags

    def suited(self, group: int) -> list[str]:
        """The nodes that may lead a group."""
        return self._tags.suited(self.groups, group)

    def give(self, group: int, node: str) -> None:
        self.groups[node].add(group)
        self.streams[node] += self._of.get(group, 0)

    def take(self, group: int, node: str) -> None:
        self.groups[node].remove(group)
        self.streams[node] -= self._of.get(group, 0)

    def least(self, nodes: Iterable[str]) -> str:
        """The node with the fewest streams; of several that with the fewest groups."""
        return min(nodes, key=lambda node: (self.streams[node], len(self.groups[node])))

    def fewest(self, nodes: Iterable[str]) -> str:
        """The node with the fewest groups; of several that with the fewest streams."""
        return min(nodes, key=lambda node: (len(self.groups[node]), self.streams[node]))

    def level_streams(self) -> bool:
        """Move a group with streams to where there are fewer; whether there was one to move."""
        share = sum(self.streams.values()) / len(self.streams)
        counts = {node: (load, len(self.groups[node])) for node, load in self.streams.items()}
        for most, least in self._pairs(counts):
            apart = self.streams[most] - self.streams[least]
            if apart <= max(1, int(_UNEVEN * share)):
                continue
            # Of who has one big group nothing can move; the next one may have small ones.
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

    def level_groups(self) -> bool:
        """Move a group without streams to where there are fewer groups."""
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
        """Yield nodes that may give with nodes that may take, the greatest differences first.

        What the least loaded node may not lead for want of tags, the next one may.
        """
        givers = sorted(loads, key=lambda node: -loads[node][0])
        takers = sorted(loads, key=lambda node: loads[node])
        for most in givers:
            for least in takers:
                yield most, least

    def _move(self, group: int, most: str, least: str) -> None:
        self.take(group, most)
        self.give(group, least)


def assign(
    nodes: Collection[str],
    groups: Collection[int],
    streams: Mapping[int, int],
    led: Mapping[int, str],
    *,
    tags: Tags | None = None,
    level: bool = True,
) -> dict[int, str]:
    """Return who is to lead each of some groups; nothing without nodes.

    Args:
        nodes: the names of those that can lead.
        groups: what is to be led.
        streams: how many streams a group has; none where it is left out.
        led: who leads a group now; somebody else than `nodes` is as good as nobody.
        tags: those of nodes, and those that groups ask for; None: there are none.
        level: whether groups move away from who can lead on: to who has their tags, and so that
            all have about the same.
    """
    if not nodes:
        return {}
    loads = _Loads(nodes, streams, tags or Tags())
    free = []
    for group in groups:
        if led.get(group, "") in (loads.suited(group) if level else loads.groups):
            loads.give(group, led[group])
        else:
            free.append(group)
    for group in sorted(free, key=lambda g: (-streams.get(g, 0), g)):
        suited = loads.suited(group)
        loads.give(group, loads.least(suited) if streams.get(group, 0) else loads.fewest(suited))
    while level and (loads.level_streams() or loads.level_groups()):
        pass
    return {group: node for node, own in loads.groups.items() for group in own}
