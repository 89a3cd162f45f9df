"""Tags: what nodes have, and what the placement of streams asks for. No I/O.

As with nats-server, a placement that names `!ssd` asks for nodes without the tag `ssd`. The streams
of a lease group have one leader, so it is to suit them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.model.tags import clean_tag

if TYPE_CHECKING:
    from core.model.cluster import Placement

NO_TAGS: frozenset[str] = frozenset()
NOT = "!"


def tags_of(placement: Placement | None) -> frozenset[str]:
    """Return the tags that a placement names, as it names them."""
    return NO_TAGS if placement is None else frozenset(placement.tags or ())


def unsuited(has: Set[str], wanted: Iterable[str]) -> str | None:
    """Return the first tag of a placement because of which a node with some does not suit it."""
    for tag in wanted:
        if tag.startswith(NOT):
            is_suited = clean_tag(tag.removeprefix(NOT)) not in has
        else:
            is_suited = clean_tag(tag) in has
        if not is_suited:
            return tag
    return None


@dataclass(frozen=True, slots=True)
class Tags:
    """Which nodes suit which lease groups.

    Attributes:
        nodes: the tags of each node; it has none where it is left out.
        groups: the tags that the streams of a lease group ask for; none where it is left out.
    """

    nodes: Mapping[str, Set[str]] = field(default_factory=dict)
    groups: Mapping[int, Set[str]] = field(default_factory=dict)

    def suits(self, node: str, group: int) -> bool:
        """Whether a node is as all streams of a group ask for."""
        return unsuited(self.nodes.get(node, NO_TAGS), self.groups.get(group, NO_TAGS)) is None

    def suited(self, nodes: Iterable[str], group: int) -> list[str]:
        """Return those of some nodes that may lead a group: who suits it, else anybody."""
        among = list(nodes)
        if not self.groups.get(group):
            return among
        return [node for node in among if self.suits(node, group)] or among
