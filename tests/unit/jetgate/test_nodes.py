"""Which links are missing, of the nodes that commands show."""

from core.storage.postgres.status import Node
from jetgate.nodes import leader_of, missing_links, node_table


def node(name: str, state: str, *links: str) -> Node:
    return Node(
        node=name,
        state=state,
        since="2026-11-23T18:39:15Z",
        silent_seconds=0.4,
        clock_ahead=None,
        nats="nats://127.0.0.1:4222",
        http="http://127.0.0.1:8080",
        route="127.0.0.1:6222",
        version="0.1.0",
        links=list(links),
    )


def test_who_is_gone_need_not_be_reached() -> None:
    nodes = [
        node("a", "leads", "b"),
        node("b", "follows", "a", "c"),
        node("c", "gone"),
    ]

    assert leader_of(nodes) == "a"
    assert missing_links(nodes) == []
    assert [line.split()[-1] for line in node_table(nodes).splitlines()] == [
        *("LINKS", "1", "1"),
        "127.0.0.1:6222",
    ]


def test_each_side_has_to_reach_the_other() -> None:
    nodes = [node("a", "follows", "b"), node("b", "follows", "a", "c"), node("c", "follows", "a")]

    assert leader_of(nodes) is None
    assert missing_links(nodes) == [("a", "c"), ("c", "b")]


def test_a_node_alone_is_whole() -> None:
    assert missing_links([node("a", "leads")]) == []
