"""Tags: what nodes have, and what the placement of streams asks for. No I/O.

The streams of a lease group have one leader, so it is to have the tags that any of them asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.model.tags import clean_tag

if TYPE_CHECKING:
    from core.model.cluster import Placement

NO_TAGS: frozenset[str] = frozenset()


def tags_of(placement: Placement | None) -> frozenset[str]:
    """Return the tags that a placement names; an empty one, which no node has, among them."""
    return NO_TAGS if placement is None else frozenset(map(clean_tag, placement.tags or ()))


@dataclass(frozen=True, slots=True)
class Tags:
    """Which nodes suit which lease groups.

    Attributes:
        nodes: the tags of each node; it has none where it is left out.
        groups: the tags that the leader of a lease group is to have; none where it is left out.
    """

    nodes: Mapping[str, Set[str]] = field(default_factory=dict)
    groups: Mapping[int, Set[str]] = field(default_factory=dict)

    def has_all(self, node: str, group: int) -> bool:
        """Whether a node has all the tags that a group asks for."""
        wanted = self.groups.get(group, NO_TAGS)
        return not wanted or wanted <= self.nodes.get(node, NO_TAGS)

    def suited(self, nodes: Iterable[str], group: int) -> list[str]:
        """Return those of some nodes that may lead a group: who has all its tags, else anybody."""
        among = list(nodes)
        if not self.groups.get(group):
            return among
        return [node for node in among if self.has_all(node, group)] or among
