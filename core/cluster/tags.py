"""Tags of nodes, and tags that the placement of streams requires. No I/O.

As in nats-server, the tag `!ssd` requires a node without the tag `ssd`. The streams of a lease
group have one leader, which should satisfy the tags of all of them.
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
    """Return the tags of a placement, as configured; empty without a placement."""
    return NO_TAGS if placement is None else frozenset(placement.tags or ())


def unsuited(has: Set[str], wanted: Iterable[str]) -> str | None:
    """Return the first required tag that the tags of a node do not satisfy; None: there is none."""
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
    """The tags of nodes, and those that lease groups (sets of streams with one leader) require.

    Attributes:
        nodes: The tags of each node; a node that is missing has none.
        groups: The tags that the streams of a lease group require; a missing group requires none.
    """

    nodes: Mapping[str, Set[str]] = field(default_factory=dict)
    groups: Mapping[LeaseGroup, Set[str]] = field(default_factory=dict)

    def suits(self, node: str, group: LeaseGroup) -> bool:
        """Return whether a node satisfies all tags that the streams of a lease group require."""
        return unsuited(self.nodes.get(node, NO_TAGS), self.groups.get(group, NO_TAGS)) is None

    def suited(self, nodes: Iterable[str], group: LeaseGroup) -> list[str]:
        """Return those of `nodes` with all tags that the streams of a lease group require.

        Returns all of `nodes` if none has these tags.
        """
        among = list(nodes)
        if not self.groups.get(group):
            return among
        return [node for node in among if self.suits(node, group)] or among
