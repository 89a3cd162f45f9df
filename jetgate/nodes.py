"""Views of a database's nodes that several commands show: leader, lease groups, links."""

from collections.abc import Sequence

from core.storage.postgres.status import Node
from jetgate.tables import table

_HEADINGS = (
    *("NODE", "STATE", "GROUPS", "STREAMS", "SINCE", "SEEN", "CLOCK", "VERSION"),
    *("TAGS", "NATS", "HTTP", "ROUTE", "LINKS"),
)


def leader_of(nodes: Sequence[Node]) -> str | None:
    """Return the name of the node that leads the stream directory; None if none does.

    It is the owner of the lease group 0.
    """
    return next((each.node for each in nodes if each.is_leader), None)


def groups_led(nodes: Sequence[Node]) -> int:
    """Return the number of lease groups that have an owner."""
    return sum(each.groups for each in nodes)


def missing_links(nodes: Sequence[Node]) -> list[tuple[str, str]]:
    """Return each missing link between two live nodes, as a pair (node, unlinked peer)."""
    there = [each for each in nodes if each.is_there]
    return [
        (each.node, other.node)
        for each in there
        for other in there
        if other is not each and other.node not in each.links
    ]


def node_table(nodes: Sequence[Node]) -> str:
    """Format nodes as a table for the terminal, one line for each.

    The column LINKS is the number of live peers that a node is linked to, of all live peers.
    """
    there = {each.node for each in nodes if each.is_there}
    return table(_HEADINGS, [_row(each, there) for each in nodes])


def _row(node: Node, there: set[str]) -> tuple[str, ...]:
    ahead, others = node.clock_ahead, there - {node.node}
    return (
        *(node.node, node.state, str(node.groups), str(node.streams)),
        *(node.since, f"{node.silent_seconds:.0f} s ago"),
        "" if ahead is None else f"{ahead:+.3f} s",
        *(node.version, ",".join(node.tags), node.nats, node.http, node.route),
        f"{len(others.intersection(node.links))} of {len(others)}" if node.is_there else "",
    )
