"""Who is to lead which lease group, for any nodes, streams and present leaders."""

# Subject: placement

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from core.node.ownership.assignment import assign
from core.units import LeaseGroup
from tests.support.lease_groups import by_group

NAMES = ("a", "b", "c", "d", "e")
GROUPS = tuple(map(LeaseGroup, range(64)))
# By how many groups two nodes may differ where they differ in nothing else.
APART = 16


@dataclass(frozen=True)
class Sight:
    """What a node sees when it computes who is to lead."""

    nodes: tuple[str, ...]
    streams: Mapping[LeaseGroup, int]
    led: Mapping[LeaseGroup, str]

    def assigned(self, *, rebalance: bool = True) -> dict[LeaseGroup, str]:
        return assign(self.nodes, GROUPS, self.streams, self.led, rebalance=rebalance)

    def streams_of(self, assigned: Mapping[LeaseGroup, str]) -> dict[str, int]:
        loads = dict.fromkeys(self.nodes, 0)
        for group, node in assigned.items():
            loads[node] += self.streams.get(group, 0)
        return loads

    @property
    def apart(self) -> int:
        """By how many streams two nodes may differ."""
        return max(1, int(sum(self.streams.values()) / len(self.nodes) / 10))

    def is_even(self, assigned: Mapping[LeaseGroup, str]) -> bool:
        """Whether no node has much more than another."""
        loads, counts = self.streams_of(assigned), groups_of(assigned, self.nodes)
        is_even = max(loads.values()) - min(loads.values()) <= self.apart
        return is_even and max(counts.values()) - min(counts.values()) <= APART


def groups_of(assigned: Mapping[LeaseGroup, str], nodes: tuple[str, ...]) -> dict[str, int]:
    counts = Counter(assigned.values())
    return {node: counts[node] for node in nodes}


@st.composite
def sights(
    draw: st.DrawFn, *, fewest: int = 1, most_streams: int = 40, has_leaders: bool = True
) -> Sight:
    """Any sight; leaders may be nodes that are gone."""
    nodes = draw(st.permutations(NAMES))[: draw(st.integers(fewest, len(NAMES)))]
    streams = draw(st.dictionaries(st.sampled_from(GROUPS), st.integers(0, most_streams)))
    leaders = st.sampled_from((*NAMES, "gone", ""))
    led = draw(st.dictionaries(st.sampled_from(GROUPS), leaders)) if has_leaders else {}
    return Sight(tuple(nodes), streams, led)


@given(sights(), st.booleans())
def test_every_group_is_assigned_to_a_node_that_is_there(sight: Sight, rebalance: bool) -> None:
    assigned = sight.assigned(rebalance=rebalance)
    assert assigned.keys() == set(GROUPS)
    assert set(assigned.values()) <= set(sight.nodes)


def test_without_nodes_nothing_is_assigned() -> None:
    assert assign((), GROUPS, by_group({0: 3}), by_group({0: "a"})) == {}


@given(sights(), st.randoms())
def test_every_node_computes_the_same_whatever_the_order(sight: Sight, random: object) -> None:
    turned = Sight(
        sight.nodes[::-1],
        dict(reversed(list(sight.streams.items()))),
        dict(reversed(list(sight.led.items()))),
    )
    expected = sight.assigned()
    assert turned.assigned() == expected
    assert assign(turned.nodes, GROUPS[::-1], turned.streams, turned.led) == expected


@given(sights())
def test_led_groups_stay_where_no_rebalancing_is_needed(sight: Sight) -> None:
    assigned = sight.assigned(rebalance=False)
    for group, node in sight.led.items():
        if node in sight.nodes:
            assert assigned[group] == node


@given(sights())
def test_an_even_placement_stays(sight: Sight) -> None:
    """So groups come to rest, whoever looks again."""
    settled = replace(sight, led=sight.assigned())
    assert settled.assigned() == settled.led


@given(sights())
def test_where_nothing_is_uneven_no_node_releases_a_group(sight: Sight) -> None:
    free = sight.assigned(rebalance=False)
    if sight.is_even(free):
        assert sight.assigned() == free


@given(sights(fewest=2))
def test_streams_are_spread_as_far_as_groups_allow(sight: Sight) -> None:
    """Nodes differ by a tenth of a share, or there is no group small enough to move."""
    assigned = sight.assigned()
    loads = sight.streams_of(assigned)
    most = max(loads.values())
    apart = most - min(loads.values())
    if apart > sight.apart:
        for group, node in assigned.items():
            if loads[node] == most and (size := sight.streams.get(group, 0)):
                assert 2 * size > apart


@given(sights(fewest=2, most_streams=1))
def test_small_groups_are_spread_evenly(sight: Sight) -> None:
    """One stream in each: then nothing stands in the way."""
    loads = sight.streams_of(sight.assigned())
    assert max(loads.values()) - min(loads.values()) <= 1


@given(sights(fewest=2))
def test_groups_without_streams_are_spread_too(sight: Sight) -> None:
    assigned = replace(sight, streams={}).assigned()
    counts = groups_of(assigned, sight.nodes)
    assert max(counts.values()) - min(counts.values()) <= APART


@given(sights(has_leaders=False, most_streams=1))
def test_groups_without_a_leader_are_spread_from_the_start(sight: Sight) -> None:
    """Groups without streams too: else they would be taken by one node and handed over again."""
    taken = sight.assigned(rebalance=False)
    counts = groups_of(taken, sight.nodes)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert replace(sight, led=taken).assigned() == taken


@given(sights(fewest=2))
def test_when_a_node_goes_only_its_groups_move(sight: Sight) -> None:
    before = sight.assigned()
    gone, *rest = sight.nodes
    after = replace(sight, nodes=tuple(rest), led=before).assigned(rebalance=False)
    for group, node in before.items():
        assert after[group] == node or node == gone


@given(sights(fewest=2, most_streams=1, has_leaders=False))
def test_levelling_moves_no_more_than_it_must(sight: Sight) -> None:
    """A node that comes gets its share, and the others give each other nothing."""
    new, *rest = sight.nodes
    before = replace(sight, nodes=tuple(rest)).assigned()
    after = replace(sight, led=before).assigned()
    assert {after[group] for group, node in before.items() if after[group] != node} <= {new}


def test_one_big_group_does_not_keep_the_others_from_being_spread() -> None:
    led = by_group({0: "a"} | dict.fromkeys(range(1, 21), "b"))
    sight = Sight(("a", "b", "c"), by_group({0: 100} | dict.fromkeys(range(1, 21), 1)), led)
    assert sight.streams_of(sight.assigned()) == {"a": 100, "b": 12, "c": 8}


def test_the_directory_stays_where_it_is_when_nodes_join() -> None:
    """It is led in group 0: while that moves, requests wait, and no node is ready."""
    for each in (0, 3):  # streams in a group
        before = dict.fromkeys(GROUPS, "a")
        streams = dict.fromkeys(GROUPS, each)
        for joined in (("a", "b"), ("a", "b", "c")):
            before = assign(joined, GROUPS, streams, before, rebalance=True)
            assert before[LeaseGroup(0)] == "a"
