"""Who could lead a stream, as the rows and links of nodes tell."""

# Subject: cluster members, several nodes

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from core.cluster.membership import SILENT
from core.cluster.replica_groups import Group, consumer_group, stream_group
from core.cluster.view import ClusterView, peer_id
from core.errors import ApiError
from core.model.cluster import Placement
from core.model.consumer import ConsumerConfig
from core.model.stream import Retention, Storage, StreamConfig
from core.storage.leases import PeerRow
from core.units import LeaseGroup, Nanos
from tests.support.lease_groups import by_group, lease_groups
from tests.support.sessions import ManualClock

SECOND = 1_000_000_000
NAMES = ("a", "b", "c", "d")
THREE = Group(7, 3)


def row(name: str, silence: int = 0, *tags: str) -> PeerRow:
    return PeerRow(name, name.upper(), "h", 1, Nanos(silence), Nanos(SECOND), tags=tags)


class Nodes:
    """The links of a node, and the groups that nodes own."""

    cluster_name = "C"

    def __init__(
        self, own: str, owner: str, linked: str, since: Mapping[LeaseGroup, Nanos] | None = None
    ) -> None:
        self.own, self._owner, self._linked = own, owner, linked
        self._since = since or {}
        self.asked: list[tuple[list[LeaseGroup], str]] = []

    def owner_name(self, _group: LeaseGroup) -> str:
        return self._owner

    def owned_since(self) -> Mapping[LeaseGroup, Nanos]:
        return self._since

    def linked(self) -> Collection[str]:
        return set(self._linked)

    def evacuated(self) -> Collection[str]:
        return ()

    def announce_evacuated(self, is_evacuated: bool) -> None:
        raise AssertionError(is_evacuated)

    def step_down(self, groups: Collection[LeaseGroup], successor: str) -> None:
        self.asked.append((sorted(groups), successor))

    async def delete(self, node: str) -> None:
        raise AssertionError(node)


def cluster_of(*rows: PeerRow, own: str = "a", linked: str = "BCD") -> ClusterView:
    """A cluster as its leader sees it."""
    return led_by(Nodes(own, own, linked), *rows)


def led_by(nodes: Nodes, *rows: PeerRow) -> ClusterView:
    """A cluster of some nodes."""
    cluster = ClusterView(nodes, ManualClock())
    cluster.met(rows)
    return cluster


def replicas(cluster: ClusterView, group: Group = THREE) -> list[str]:
    return [peer.name for peer in cluster.info(group).replicas]


def test_peers_are_named_as_nats_server_names_them() -> None:
    assert [peer_id(f"n{number}") for number in range(3)] == ["6DVFpukC", "fjFyEjc1", "44jzkV9D"]


def test_every_leader_shows_the_same_nodes_whatever_the_order_of_rows() -> None:
    rows = [row(name) for name in NAMES]
    chosen = {frozenset(("a", *replicas(cluster_of(*rows))))}
    chosen |= {frozenset(("a", *replicas(cluster_of(*reversed(rows)))))}
    assert len(chosen) == 1
    of_streams = {tuple(replicas(cluster_of(*rows), Group(n, 2))) for n in range(40)}
    assert of_streams == {("b",), ("c",), ("d",)}


def test_a_consumer_has_replicas_of_its_stream() -> None:
    cluster = cluster_of(*map(row, NAMES))
    assert {*replicas(cluster, Group(7, 2, "c"))} < {*replicas(cluster)}


def test_fewer_nodes_than_replicas_are_shown_as_they_are() -> None:
    assert replicas(cluster_of(row("a"))) == []
    assert replicas(cluster_of(row("a"), row("b")), Group(1, 5)) == ["b"]


def test_a_node_is_offline_without_heartbeats_and_not_current_without_a_link() -> None:
    cluster = cluster_of(row("a"), row("b", 5 * SECOND), row("c", SECOND), linked="B")
    silent, unlinked = cluster.info(THREE).replicas
    assert (silent.offline, silent.current, silent.active) == (True, False, 5 * SECOND)
    assert (unlinked.offline, unlinked.current, unlinked.active) == (False, False, SECOND)


def test_a_node_that_is_gone_is_no_replica_but_counts_until_it_is_removed() -> None:
    cluster = cluster_of(row("a"), row("b", 60 * SECOND), row("c"))
    assert replicas(cluster) == ["c"]
    meta = cluster.meta()
    assert [(peer.name, peer.offline) for peer in meta.replicas] == [("b", True), ("c", False)]
    assert (meta.leader, meta.cluster_size) == ("a", 3)
    assert not cluster.lives("b")
    assert [cluster.member("b", ""), cluster.member("x", peer_id("b"))] == ["b", "b"]
    assert cluster.member("b", "x") == ""


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        (Placement(), "no replacement peer connected"),
        (Placement(cluster="D"), "no replacement peer connected"),
        (Placement(tags=("x",)), "no replacement peer connected"),
        (Placement(preferred="a"), 'preferred server "a" is already leader'),
        (Placement(preferred="b"), 'preferred server "b" not known'),
    ],
)
def test_no_node_that_this_node_does_not_reach_can_lead(placement: Placement, text: str) -> None:
    nodes = Nodes("a", "a", linked="")
    cluster = led_by(nodes, row("a"), row("b"))
    with pytest.raises(ApiError, match=text):
        cluster.successor(placement)
    cluster.transfer(lease_groups(0, 3), cluster.successor(None))
    assert nodes.asked == []


def test_a_node_in_reach_is_asked_to_lead_these_groups_alone() -> None:
    nodes = Nodes("a", "a", linked="B")
    cluster = led_by(nodes, row("a"), row("b"), row("c"))
    cluster.transfer(lease_groups(0, 3), cluster.successor(Placement(preferred="b")))
    cluster.transfer(lease_groups(2), cluster.successor(None))
    assert nodes.asked == [([0, 3], "b"), ([2], "")]
    assert cluster.able() == {"b"}
    with pytest.raises(ApiError, match='preferred server "c" not known'):
        cluster.successor(Placement(preferred="c"))


def test_of_a_stream_only_a_replica_may_be_named_to_lead_next() -> None:
    cluster = cluster_of(*map(row, NAMES))
    two = Group(7, 2)
    [replica] = replicas(cluster, two)
    assert cluster.successor(Placement(preferred=replica), two) == replica
    other = next(name for name in NAMES if name not in ("a", replica))
    with pytest.raises(ApiError, match=f'preferred server "{other}" not known'):
        cluster.successor(Placement(preferred=other), two)
    assert cluster.successor(Placement(preferred=other), Group(7, 1)) == other


def test_the_next_leader_has_the_requested_tags_and_is_a_replica() -> None:
    rows = row("a", 0, "x"), row("b", 0, "y"), row("c", 0, "x", "y"), row("d", 0, "x")
    cluster = cluster_of(*rows)
    assert cluster.successor(Placement(tags=("X ", "y"))) == "c"
    assert cluster.successor(Placement(tags=("x",), cluster="C"), Group(7, 1)) in ("c", "d")
    for refused in (Placement(tags=("x", "z")), Placement(tags=("x",), cluster="D")):
        with pytest.raises(ApiError, match="no replacement peer connected"):
            cluster.successor(refused)
    two = Group(7, 2)
    [replica] = replicas(cluster, two)
    for tags in (("x",), ("y",)):
        if {*tags} <= {*next(each.tags for each in rows if each.node == replica)}:
            assert cluster.successor(Placement(tags=tags), two) == replica
        else:
            with pytest.raises(ApiError, match="no replacement peer connected"):
                cluster.successor(Placement(tags=tags), two)


@pytest.mark.parametrize(
    ("tags", "lacked"),
    [
        (("x",), ""),
        (("x", "y"), ""),
        ((), ""),
        (("z",), "'z'"),
        (("x", "y", "z"), "'x', 'y', 'z'"),
        (("y", "x", "z"), "'y', 'x', 'z'"),
        ((" X", "Y "), ""),
        ((" Z",), "' Z'"),
        (("",), "''"),
        ((" !x",), "' !x'"),
        (("!z",), ""),
        (("y", "!X"), ""),
    ],
)
def test_tags_that_no_node_has_together_are_refused(tags: tuple[str, ...], lacked: str) -> None:
    cluster = cluster_of(row("a"), row("b", 0, "x"), row("c", 0, "x", "y"), row("d", 0, "y"))
    if not lacked:
        cluster.check(Placement(tags=tags))
    else:
        with pytest.raises(ApiError) as refusal:
            cluster.check(Placement(tags=tags))
        text = f"no suitable peers for placement, tags not matched [{lacked}]"
        assert (refusal.value.err_code, refusal.value.description) == (10005, text)


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (("!x",), "tags excluded ['x']"),
        (("! X", "!y"), "tags excluded [' X']"),
        (("!x", "no"), "tags not matched ['no'], tags excluded ['x']"),
    ],
)
def test_tags_that_all_nodes_have_may_not_be_excluded(tags: tuple[str, ...], text: str) -> None:
    rows = row("b", 0, "x"), row("c", 0, "x", "y")
    cluster = cluster_of(row("a", 0, *(() if "no" in tags else ("x",))), *rows)
    with pytest.raises(ApiError) as refusal:
        cluster.check(Placement(tags=tags))
    assert refusal.value.description == f"no suitable peers for placement, {text}"


def test_tags_of_nodes_that_are_gone_do_not_count_and_a_single_node_takes_any() -> None:
    cluster = cluster_of(row("a"), row("b"), row("c", 60 * SECOND, "x"))
    with pytest.raises(ApiError, match="no suitable peers"):
        cluster.check(Placement(tags=("x",)))
    for placement in (None, Placement(), Placement(cluster="C")):
        cluster.check(placement)
    alone = cluster_of(row("a"), row("c", 60 * SECOND, "x"))
    for placement in (Placement(tags=("x",)), Placement(cluster="D")):
        alone.check(placement)


def test_another_cluster_is_refused_whatever_the_tags() -> None:
    cluster = cluster_of(row("a"), row("b", 0, "x"))
    for tags in (None, ("x",), ("no",)):
        with pytest.raises(ApiError) as refusal:
            cluster.check(Placement(cluster="D", tags=tags))
        text = "no suitable peers for placement"
        assert (refusal.value.err_code, refusal.value.description) == (10005, text)


def test_replicas_are_nodes_with_the_tags_of_the_stream_as_long_as_there_are_any() -> None:
    cluster = cluster_of(row("a", 0, "x"), row("b"), row("c", 0, "x"), row("d"))
    asking = Group(7, 3, tags=frozenset("x"))
    assert replicas(cluster, asking) == ["c"]
    assert replicas(cluster, Group(7, 3, tags=frozenset({"!x"}))) == ["b", "d"]
    with pytest.raises(ApiError, match="peer remap failed"):
        cluster.leave(asking, "c")
    assert len(replicas(cluster, Group(7, 3, tags=frozenset("z")))) == 2


def test_a_silent_node_stops_leading_long_before_it_is_no_replica() -> None:
    clock = ManualClock()
    cluster = ClusterView(Nodes("a", "b", linked="B"), clock)
    cluster.met([row("a"), row("b", 4 * SECOND - 1)])
    assert cluster.responsive() == {"a", "b"}
    clock.advance(1)
    assert cluster.responsive() == {"a"}
    assert cluster.able() == {"b"}
    clock.advance(SILENT / SECOND)
    assert cluster.able() == set()
    assert replicas(cluster) == []


def test_the_time_shown_of_a_group_is_the_start_of_its_leadership() -> None:
    nodes = Nodes("a", "a", "BCD", since=by_group({3: Nanos(33), 4: Nanos(44)}))
    cluster = led_by(nodes, *map(row, NAMES))
    assert cluster.info(Group(7, 3, lease_group=LeaseGroup(4))).leader_since == 44
    assert cluster.info(Group(7, 3, lease_group=LeaseGroup(5))).leader_since == 0


def test_a_peer_that_is_removed_gives_its_place_to_another() -> None:
    nodes = Nodes("a", "a", "BCD")
    cluster = led_by(nodes, *map(row, NAMES))
    first, second = replicas(cluster)
    cluster.leave(THREE, peer_id(first))
    assert first not in replicas(cluster)
    assert second in replicas(cluster)
    cluster.leave(Group(7, 3, lease_group=LeaseGroup(5)), "a")
    assert nodes.asked == [([5], "")]
    with pytest.raises(ApiError, match="peer remap failed"):
        cluster.leave(Group(7, 4), "b")
    with pytest.raises(ApiError, match="peer not a member"):
        cluster.leave(THREE, "x")


def test_the_nodes_of_a_consumer_are_among_those_of_its_stream() -> None:
    cluster = cluster_of(*map(row, NAMES))
    before = replicas(cluster)
    consumer = Group(7, 2, "C", within=3)
    [one] = replicas(cluster, consumer)
    cluster.leave(consumer, one)
    [other] = replicas(cluster, consumer)
    assert {one, other} == {*before}
    assert replicas(cluster) == before
    with pytest.raises(ApiError, match="peer remap failed"):
        cluster.leave(Group(7, 3, "D", within=3), one)


@pytest.mark.parametrize(
    ("stream", "consumer", "replicas"),
    [
        ({}, {}, 1),
        ({}, {"durable_name": "C"}, 3),
        ({}, {"durable_name": "C", "num_replicas": 2}, 2),
        ({"retention": Retention.WORKQUEUE}, {}, 3),
        ({"num_replicas": 2}, {"num_replicas": 3}, 2),
    ],
)
def test_how_many_replicas_a_consumer_has(
    stream: dict[str, Any], consumer: dict[str, Any], replicas: int
) -> None:
    known: dict[str, Any] = {"name": "S", "num_replicas": 3} | stream
    config = StreamConfig(**known)
    group = consumer_group(
        stream_group(7, LeaseGroup(5), config), config, "C", 1, ConsumerConfig(**consumer)
    )
    assert group.replicas == replicas
    assert (group.stream, group.lease_group) == (7, 5)
    assert group.name.startswith(f"C-R{replicas}F-")


def test_groups_are_named_by_kind_replicas_and_storage() -> None:
    config = StreamConfig(name="S", num_replicas=3, storage=Storage.MEMORY)
    assert stream_group(7, LeaseGroup(5), config).name.startswith("S-R3M-")
