"""What each node leads, and which links are missing, of the nodes that commands show."""

# Subject: database connections, configuration

from collections.abc import Collection

from core.storage.postgres.status import Node
from jetgate.nodes import groups_led, leader_of, missing_links, node_table


def node(name: str, state: str, *links: str, leads: Collection[int] = (), streams: int = 0) -> Node:
    return Node(
        node=name,
        state=state,
        is_leader=0 in leads,
        groups=len(leads),
        streams=streams,
        since="2026-11-23T18:39:15Z",
        silent_seconds=0.4,
        clock_ahead=None,
        nats="nats://127.0.0.1:4222",
        http="http://127.0.0.1:8080",
        route="127.0.0.1:6222",
        version="0.1.0",
        tags=["ssd", "eu"],
        links=list(links),
    )


def test_a_node_that_is_gone_need_not_be_reached() -> None:
    nodes = [
        node("a", "leads", "b", leads=range(1, 256)),
        node("b", "leads", "a", "c", leads=(0,)),
        node("c", "gone"),
    ]

    assert leader_of(nodes) == "b"
    assert groups_led(nodes) == 256
    assert missing_links(nodes) == []
    assert [line.split()[-1] for line in node_table(nodes).splitlines()] == [
        *("LINKS", "1", "1"),
        "127.0.0.1:6222",
    ]


def test_each_side_has_to_reach_the_other() -> None:
    nodes = [node("a", "follows", "b"), node("b", "follows", "a", "c"), node("c", "follows", "a")]

    assert leader_of(nodes) is None
    assert groups_led(nodes) == 0
    assert missing_links(nodes) == [("a", "c"), ("c", "b")]


def test_a_node_alone_is_whole() -> None:
    assert missing_links([node("a", "leads")]) == []


def test_the_table_shows_the_groups_of_each_node() -> None:
    nodes = [
        node("a", "leads", "b", leads=range(100), streams=7),
        node("b", "follows", "a"),
    ]

    lines = [line.split()[:4] for line in node_table(nodes).splitlines()]

    assert lines == [
        ["NODE", "STATE", "GROUPS", "STREAMS"],
        ["a", "leads", "100", "7"],
        ["b", "follows", "0", "0"],
    ]
    assert "  0.1.0    ssd,eu  nats://" in node_table(nodes)
