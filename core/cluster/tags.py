"""Tags of nodes, and tags that the placement of streams asks for. No I/O.

As with nats-server, a placement with `!ssd` asks for nodes without the tag `ssd`. The streams of a
lease group share a leader, which should have the tags that all of them ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.model.tags import clean_tag
from core.units import LeaseGroup

if TYPE_CHECKING:
    from core.model.cluster import Placement

NO_TAGS: frozenset[str] = frozenset()
NOT = "!"


def tags_of(placement: Placement | None) -> frozenset[str]:
    """Return the tags of a placement, unchanged."""
    return NO_TAGS if placement is None else frozenset(placement.tags or ())


def unsuited(has: Set[str], wanted: Iterable[str]) -> str | None:
    """Return the first wanted tag that a node's tags do not satisfy; None: they satisfy all."""
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
    """The tags of nodes and of lease groups.

    Attributes:
        nodes: The tags of each node; none if left out.
        groups: The tags that the streams of a lease group ask for; none if left out.
    """

    nodes: Mapping[str, Set[str]] = field(default_factory=dict)
    groups: Mapping[LeaseGroup, Set[str]] = field(default_factory=dict)

    def suits(self, node: str, group: LeaseGroup) -> bool:
        """Return whether a node satisfies the tags that all streams of a group ask for."""
        return unsuited(self.nodes.get(node, NO_TAGS), self.groups.get(group, NO_TAGS)) is None

    def suited(self, nodes: Iterable[str], group: LeaseGroup) -> list[str]:
        """Return those of some nodes that satisfy the tags of a group; all, if none does."""
        among = list(nodes)
        if not self.groups.get(group):
            return among
        return [node for node in among if self.suits(node, group)] or among
