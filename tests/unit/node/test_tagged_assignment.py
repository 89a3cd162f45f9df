"""Who is to lead what asks for tags: the rules, said naively, for any nodes, streams and tags."""

# Subject: placement

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from core.cluster.tags import Tags
from core.model.tags import clean_tags
from core.node.ownership.assignment import assign
from core.units import LeaseGroup
from tests.support.lease_groups import lease_groups

T = TypeVar("T")

NAMES = ("a", "b", "c", "d")
GROUPS = tuple(map(LeaseGroup, range(48)))
# By how many groups two nodes may differ where they differ in nothing else.
APART = 16
TAGS = st.frozensets(st.sampled_from("xyz"), max_size=2)
WANTED = st.frozensets(st.sampled_from(("x", "y", " Z", "!x", "!Y")), max_size=2)


@dataclass(frozen=True)
class Sight:
    """What a node sees when it computes who is to lead."""

    nodes: tuple[str, ...]
    streams: Mapping[LeaseGroup, int]
    led: Mapping[LeaseGroup, str]
    has: Mapping[str, frozenset[str]]
    wants: Mapping[LeaseGroup, frozenset[str]]

    def assigned(self, *, rebalance: bool = True) -> dict[LeaseGroup, str]:
        tags = Tags(self.has, self.wants)
        return assign(self.nodes, GROUPS, self.streams, self.led, tags=tags, rebalance=rebalance)

    def may_lead(self, group: LeaseGroup) -> set[str]:
        """Those that have all tags of a group, and none it excludes; all, where nobody is so."""

        def is_so(node: str, tag: str) -> bool:
            has = self.has.get(node, frozenset())
            return tag[1].lower() not in has if tag[0] == "!" else tag.strip().lower() in has

        wanted = self.wants.get(group, frozenset())
        return {n for n in self.nodes if all(is_so(n, tag) for tag in wanted)} or {*self.nodes}

    def better_elsewhere(
        self, assigned: Mapping[LeaseGroup, str]
    ) -> Iterator[tuple[LeaseGroup, str]]:
        """Yield each group that would make its leader and another one more even if it moved.

        Only where these two differ by more than they may, and only to who may lead it.
        """
        counts = Counter(assigned.values())
        loads = {
            node: sum(self.streams.get(g, 0) for g, by in assigned.items() if by == node)
            for node in self.nodes
        }
        may_differ = max(1, int(sum(loads.values()) / len(self.nodes) / 10))
        for group, node in assigned.items():
            size = self.streams.get(group, 0)
            for other in self.may_lead(group):
                apart = loads[node] - loads[other]
                if size and apart > may_differ and 2 * size <= apart:
                    yield group, other
                if not size and counts[node] - counts[other] > APART:
                    yield group, other

    def is_right(self, assigned: Mapping[LeaseGroup, str]) -> bool:
        """Whether who leads may, and nothing would be better elsewhere."""
        is_suited = all(node in self.may_lead(group) for group, node in assigned.items())
        return is_suited and not any(self.better_elsewhere(assigned))


@st.composite
def sights(draw: st.DrawFn) -> Sight:
    """Any sight; leaders may be nodes that are gone, and tags such as nobody has."""
    nodes = draw(st.permutations(NAMES))[: draw(st.integers(1, len(NAMES)))]
    return Sight(
        tuple(nodes),
        draw(of_groups(st.integers(0, 12))),
        draw(of_groups(st.sampled_from((*NAMES, "gone", "")))),
        draw(st.dictionaries(st.sampled_from((*NAMES, "gone")), TAGS)),
        draw(of_groups(WANTED)),
    )


def of_groups(values: st.SearchStrategy[T]) -> st.SearchStrategy[dict[LeaseGroup, T]]:
    """Values of some groups, or the same one of all but some."""
    some = st.dictionaries(st.sampled_from(GROUPS), values)
    return some | st.builds(lambda value, but: dict.fromkeys(GROUPS, value) | but, values, some)


@given(sights())
def test_the_leader_has_the_tags_if_any_node_has_and_no_move_would_be_better(
    sight: Sight,
) -> None:
    assigned = sight.assigned()
    assert assigned.keys() == set(GROUPS)
    assert sight.is_right(assigned)


@given(sights())
def test_free_groups_go_to_nodes_with_their_tags_and_others_stay_until_rebalanced(
    sight: Sight,
) -> None:
    for group, node in sight.assigned(rebalance=False).items():
        if (leader := sight.led.get(group)) in sight.nodes:
            assert node == leader
        else:
            assert node in sight.may_lead(group)


@given(sights())
def test_a_correct_assignment_stays(sight: Sight) -> None:
    settled = replace(sight, led=sight.assigned())
    assert settled.assigned() == settled.led
    free = sight.assigned(rebalance=False)
    if sight.is_right(free):
        assert sight.assigned() == free


@given(sights())
def test_every_node_computes_the_same_whatever_the_order(sight: Sight) -> None:
    turned = Sight(
        sight.nodes[::-1],
        dict(reversed(list(sight.streams.items()))),
        dict(reversed(list(sight.led.items()))),
        dict(reversed(list(sight.has.items()))),
        dict(reversed(list(sight.wants.items()))),
    )
    assert turned.assigned() == sight.assigned()


@given(sights(), st.booleans())
def test_tags_that_no_node_has_change_nothing(sight: Sight, rebalance: bool) -> None:
    unknown = replace(sight, wants=dict.fromkeys(GROUPS, frozenset({"unknown"})))
    expected = assign(sight.nodes, GROUPS, sight.streams, sight.led, rebalance=rebalance)
    assert unknown.assigned(rebalance=rebalance) == expected


def test_a_node_that_comes_gets_what_asks_for_its_tags_however_much_that_is() -> None:
    led = dict.fromkeys(GROUPS, "a")
    wants = dict.fromkeys(lease_groups(*range(20)), frozenset("x"))
    before = Sight(
        ("a", "b"), dict.fromkeys(lease_groups(*range(24)), 5), led, {"c": frozenset("xy")}, wants
    )
    assert {before.assigned()[LeaseGroup(group)] for group in range(20)} == {"a", "b"}
    after = replace(before, nodes=("a", "b", "c"), led=before.assigned())
    assert [group for group, node in after.assigned().items() if node == "c"][:20] == [*range(20)]
    gone = replace(after, nodes=("a", "b"), led=after.assigned())
    assert {gone.assigned(rebalance=False)[LeaseGroup(group)] for group in range(20)} == {"a", "b"}


def test_tags_are_compared_as_nats_server_takes_them() -> None:
    assert clean_tags([" SSD ", "eu", "", "ssd", " "]) == ("ssd", "eu")
