"""Which groups a node takes and hands over, as nodes come, go and let go."""

# Subject: placement

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Set
from typing import Any

import pytest

from core.node.ownership.placement import GroupPlacement
from core.node.ownership.state import Command, PeerReleased, Step
from core.storage.health import StorageHealth
from core.storage.leases import Holder
from core.units import LeaseGroup, Nanos
from tests.support.eventually import observed
from tests.support.lease_groups import by_group, lease_groups
from tests.support.sessions import ManualClock

GROUPS = tuple(map(LeaseGroup, range(64)))


class World:
    """The nodes a, b and c as `a` sees them, and the locks that each holds."""

    own = "a"
    is_evacuated = False

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: dict[LeaseGroup, str] = {}
        self.locks: dict[LeaseGroup, str] = {}
        self.nodes = {"b", "c"}
        self.streams: dict[LeaseGroup, int] = {}
        self.tagged: dict[str, Set[str]] = {}
        self.wanted: dict[LeaseGroup, Set[str]] = {}
        self.is_settled = True
        self.takes_at_once = True
        self.moves: list[tuple[str, frozenset[LeaseGroup]]] = []
        self.asked: list[bool] = []
        self.placement = GroupPlacement(
            self,
            GROUPS,
            self,
            self,
            lambda: self.streams,
            self.clock,
            StorageHealth(self.clock),
            wanted=lambda: self.wanted,
        )

    # the nodes

    def responsive(self) -> Collection[str]:
        return {"a", *self.nodes}

    def able(self) -> Collection[str]:
        return self.nodes

    def leader(self, group: LeaseGroup) -> str:
        return self.told.get(group, "")

    def tags(self) -> Mapping[str, Set[str]]:
        return self.tagged

    # the locks

    def may_acquire(self) -> bool:
        return self.is_settled

    def trusted(self) -> bool:
        return self.is_settled

    async def survey(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]:
        return {g: Holder(1, Nanos(0), self.locks[g]) for g in groups if g in self.locks}

    # what is led

    @property
    def owned(self) -> Collection[LeaseGroup]:
        return frozenset(group for group, node in self.locks.items() if node == "a")

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        taken = frozenset(groups) - self.locks.keys()
        self.led_by("a", taken)
        return taken

    async def transfer(
        self, to: Mapping[str, Collection[LeaseGroup]], *, is_requested: bool = False
    ) -> None:
        self.asked.append(is_requested)
        for node, groups in to.items():
            self.moves.append((node, frozenset(groups)))
            if self.takes_at_once:
                self.led_by(node, groups)
            else:
                self.release(groups)

    # what happens

    def led_by(self, node: str, groups: Collection[LeaseGroup]) -> None:
        self.locks |= dict.fromkeys(groups, node)
        self.told |= dict.fromkeys(groups, node)

    def ended(self, node: str) -> None:
        self.nodes.discard(node)
        self.release([group for group, each in self.locks.items() if each == node])

    def release(self, groups: Collection[LeaseGroup]) -> None:
        for group in groups:
            del self.locks[group]
            del self.told[group]

    def offer(self, to: str, groups: Collection[LeaseGroup], *, is_requested: bool) -> None:
        event = PeerReleased(frozenset(groups), to, is_requested)
        self.placement.apply(Step(Command.PLACE, event.groups, event))

    async def leave(self) -> None:
        run = asyncio.create_task(self.placement.run())
        try:
            await self.placement.leave()
        finally:
            run.cancel()

    async def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.placement.place()


def played(play: Callable[[World], Coroutine[Any, Any, None]]) -> World:
    world = World()
    asyncio.run(play(world))
    return world


def test_a_node_acquires_its_share_of_free_groups_and_the_rest_if_no_other_node_does() -> None:
    async def play(world: World) -> None:
        await world.placement.place()
        assert 16 <= len(world.owned) <= 32
        await world.later(0.5)
        assert len(world.owned) <= 32
        await world.later(1)
        assert len(world.owned) == len(GROUPS)

    played(play)


def test_groups_that_another_node_owns_or_leads_are_not_acquired() -> None:
    async def play(world: World) -> None:
        world.locks = dict.fromkeys(lease_groups(*range(10)), "b")  # it is loading them
        world.led_by("c", lease_groups(*range(10, 20)))
        await world.later(0)
        await world.later(2)
        assert world.owned == frozenset(GROUPS) - frozenset(range(20))

    played(play)


def test_after_an_outage_nothing_is_taken_before_its_time() -> None:
    async def play(world: World) -> None:
        world.is_settled = False
        await world.later(0)
        await world.later(9)
        assert not world.owned
        world.is_settled = True
        await world.later(1)
        assert world.owned

    played(play)


def test_groups_of_a_node_that_left_are_shared_by_the_others() -> None:
    async def play(world: World) -> None:
        world.led_by("a", lease_groups(*range(20)))
        world.led_by("b", lease_groups(*range(20, 40)))
        world.led_by("c", lease_groups(*range(40, 64)))
        world.streams = dict.fromkeys(lease_groups(*range(40, 64)), 1)
        world.ended("c")
        await world.placement.place()
        assert len(world.owned) == 20 + 12

    played(play)


def test_groups_that_are_offered_are_taken_and_those_for_others_left_to_them() -> None:
    async def play(world: World) -> None:
        world.led_by("b", GROUPS)
        for group in lease_groups(1, 2):
            del world.locks[group], world.told[group]
        world.offer("a", lease_groups(1), is_requested=False)
        world.offer("c", lease_groups(2), is_requested=False)
        await world.placement.place()
        assert world.owned == {1}
        await world.later(1.5)
        await world.later(1.5)
        assert world.owned == {1, 2}

    played(play)


def test_a_group_just_left_to_another_node_is_acquired_as_soon_as_it_is_offered() -> None:
    async def play(world: World) -> None:
        world.led_by("b", GROUPS)
        world.release(lease_groups(1))
        world.offer("c", lease_groups(1), is_requested=False)
        world.led_by("c", lease_groups(1))
        await world.later(0)
        world.release(lease_groups(1))
        world.offer("a", lease_groups(1), is_requested=True)
        await world.later(0.1)
        assert world.owned == {1}

    played(play)


def test_streams_are_levelled_once_nothing_has_changed_for_a_while() -> None:
    async def play(world: World) -> None:
        world.led_by("a", GROUPS)
        world.streams = dict.fromkeys(lease_groups(*range(12)), 1)
        await world.later(0)
        await world.later(1)
        assert not world.moves
        await world.later(2)
        shares = [sum(world.streams.get(g, 0) for g in groups) for _, groups in world.moves]
        assert sum(shares) == 8
        assert sum(world.streams.get(g, 0) for g in world.owned) == 4
        assert not any(world.asked)
        before = list(world.moves)
        await world.later(10)
        assert world.moves == before

    played(play)


def test_many_streams_move_some_at_a_time() -> None:
    async def play(world: World) -> None:
        world.led_by("a", GROUPS)
        world.streams = dict.fromkeys(GROUPS, 10)
        await world.placement.step_down(GROUPS, "b")
        assert {node for node, _ in world.moves} == {"b"}
        assert all(world.asked)
        assert max(len(groups) for _, groups in world.moves) <= 6
        assert not world.owned

    played(play)


def test_stepping_down_leaves_groups_to_the_nodes_with_the_fewest() -> None:
    async def play(world: World) -> None:
        world.led_by("a", GROUPS)
        await world.placement.step_down(GROUPS)
        assert {node for node, _ in world.moves} == {"b", "c"}
        assert all(world.asked)
        assert not world.owned

        alone = World()
        alone.nodes = set()
        alone.led_by("a", GROUPS)
        await alone.placement.step_down(GROUPS)
        assert (alone.owned, alone.moves) == (frozenset(GROUPS), [])

    played(play)


def test_a_transferred_group_is_not_acquired_again_before_the_other_node_could() -> None:
    async def play(world: World) -> None:
        world.led_by("a", GROUPS[:2])
        world.led_by("b", GROUPS[2:32])
        world.led_by("c", GROUPS[32:])
        world.takes_at_once = False
        moves = asyncio.create_task(world.placement.step_down(lease_groups(1), "b"))
        await observed(lambda: world.moves)
        await world.placement.place()
        assert 1 not in world.owned
        await world.later(2)
        assert 1 in world.owned  # nobody else has taken it
        await moves

    played(play)


def test_two_nodes_that_hand_over_to_each_other_need_not_wait() -> None:
    async def play(world: World) -> None:
        world.led_by("a", lease_groups(1))
        world.led_by("b", [each for each in GROUPS if each != 1])
        world.takes_at_once = False
        moves = asyncio.create_task(world.placement.step_down(lease_groups(1), "b"))
        await observed(lambda: world.moves)
        world.release(lease_groups(2))
        world.offer("a", lease_groups(2), is_requested=False)
        await observed(lambda: world.owned == {2})
        world.led_by("b", lease_groups(1))
        await moves

    played(play)


@pytest.mark.parametrize("is_requested", [True, False])
def test_groups_that_a_client_moved_here_stay_for_a_while_and_no_others(is_requested: bool) -> None:
    async def play(world: World) -> None:
        world.nodes = {"b"}
        world.led_by("a", [group for group in GROUPS[:32] if group != 1])
        world.led_by("b", GROUPS[32:])
        world.streams = by_group({1: 2, 10: 1, 11: 1})
        world.offer("a", lease_groups(1), is_requested=is_requested)
        await world.later(0)
        assert 1 in world.owned
        moved = [("b", frozenset((1,)))]
        await world.later(3)
        assert world.moves == ([] if is_requested else moved)
        await world.later(10)
        assert world.moves == moved

    played(play)


def test_a_leaving_node_acquires_nothing_and_transfers_groups_that_may_move_again() -> None:
    async def play(world: World) -> None:
        world.led_by("a", GROUPS[:10])
        await world.leave()
        assert len(world.moves) == 2
        assert not any(world.asked)
        await world.later(0)
        await world.later(5)
        assert not world.owned

    played(play)


def test_a_leaving_node_waits_for_no_node_that_leaves_too() -> None:
    """The clock stands still, so nothing here ends because of the time."""

    async def play(world: World) -> None:
        world.led_by("a", GROUPS)
        world.streams = dict.fromkeys(GROUPS, 8)  # so they move eight at a time
        world.takes_at_once = False
        leaving = asyncio.create_task(world.leave())
        await observed(lambda: world.moves)
        [(first, gone)] = world.moves
        world.takes_at_once = True
        world.nodes.remove(first)
        await leaving
        [other] = world.nodes
        assert {node for node, _ in world.moves[1:]} == {other}
        assert len(gone) == 8
        assert world.locks == dict.fromkeys(frozenset(GROUPS) - gone, other)

    played(play)


def test_groups_without_another_node_stay_with_the_leaving_one() -> None:
    async def play(world: World) -> None:
        world.led_by("a", GROUPS)
        world.streams = dict.fromkeys(GROUPS, 8)
        world.takes_at_once = False
        leaving = asyncio.create_task(world.leave())
        await observed(lambda: world.moves)
        world.nodes.clear()
        await leaving
        assert len(world.owned) == len(GROUPS) - 8

    played(play)


def test_a_node_that_is_evacuated_hands_everything_over_and_takes_nothing() -> None:
    world = World()
    world.led_by("a", GROUPS[:32])
    world.led_by("b", GROUPS[32:])
    world.is_evacuated = True
    asyncio.run(world.placement.place())
    assert not world.owned
    assert not any(world.asked)
    del world.locks[LeaseGroup(40)]
    world.told.pop(LeaseGroup(40), None)
    world.offer("a", lease_groups(40), is_requested=False)
    for _ in range(3):
        asyncio.run(world.placement.place())
        world.clock.advance(2)
    assert not world.owned
    world.is_evacuated = False
    asyncio.run(world.placement.place())
    assert world.owned == {40}


def even(world: World) -> None:
    """Each of the three nodes leads about a third."""
    world.led_by("a", GROUPS[:22])
    world.led_by("b", GROUPS[22:43])
    world.led_by("c", GROUPS[43:])


def test_a_new_stream_whose_tags_another_node_has_is_handed_over_without_delay() -> None:
    async def play(world: World) -> None:
        even(world)
        world.tagged = {"c": {"x", "y"}}
        await world.later(0)
        await world.later(3)
        world.streams, world.wanted = by_group({1: 1, 2: 1}), by_group({1: {"x"}})
        await world.later(0)
        assert world.moves == [("c", frozenset({1}))]
        assert world.asked == [False]
        await world.later(10)
        assert len(world.moves) == 1

    played(play)


def test_a_node_that_has_just_come_is_given_time_before_it_gets_what_asks_for_its_tags() -> None:
    async def play(world: World) -> None:
        even(world)
        world.streams, world.wanted = by_group({1: 1}), by_group({1: {"x"}})
        await world.later(10)
        assert not world.moves  # nobody has them
        world.nodes = {"b", "c", "d"}
        world.tagged = {"d": {"x"}}
        await world.later(1)
        assert not world.moves
        await world.later(2)
        assert [node for node, groups in world.moves if 1 in groups] == ["d"]

    played(play)


def test_a_group_that_a_client_moved_to_a_node_without_its_tags_stays_for_a_while() -> None:
    async def play(world: World) -> None:
        even(world)
        world.release(lease_groups(30))
        world.tagged, world.streams, world.wanted = (
            {"b": {"x"}},
            by_group({30: 1}),
            by_group({30: {"x"}}),
        )
        world.offer("a", lease_groups(30), is_requested=True)
        await world.later(0)
        await world.later(5)
        assert 30 in world.owned
        await world.later(6)
        assert world.moves == [("b", frozenset({30}))]

    played(play)


def test_streams_with_tags_are_left_to_nodes_that_have_them_but_never_without_a_leader() -> None:
    async def play(world: World) -> None:
        world.tagged, world.wanted = {"b": {"x"}}, dict.fromkeys(GROUPS, frozenset("x"))
        await world.later(0)
        assert not world.owned
        await world.later(1)
        assert world.owned == frozenset(GROUPS)
        await world.later(3)
        assert {node for node, _ in world.moves} == {"b"}
        assert not world.owned

    played(play)
