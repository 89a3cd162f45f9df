"""Two and three nodes over one lock table, in any order of events, losses and delays.

The nodes dispatch from the table that runs in production. Links are queues in both directions;
PostgreSQL is a table of locks and epochs. What a client publishes is stored, refused or lost with a
node or a link, never two of these; without faults it is stored, once.
"""

# Subject: lease groups

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.node.ownership.dispatch import Dispatch
from core.node.ownership.pending_steps import PendingSteps
from core.node.ownership.state import (
    TRANSITIONS,
    Command,
    Drained,
    HoldTimeExceeded,
    ImpossibleTransitionError,
    LeasesAcquired,
    LeasesLost,
    LeasesRenewed,
    Loaded,
    LoadFailed,
    Ownership,
    PeerReleased,
    Released,
    Row,
    State,
    Step,
    TransferRequested,
    Wanted,
)
from core.units import LeaseGroup, Nanos
from tests.support.lease_groups import by_group, lease_groups

GROUPS = (LeaseGroup(0), LeaseGroup(1))
HERE = frozenset({State.OWNED, State.TRANSFERRING})

Action = Callable[[], None]


@dataclass
class Lock:
    """A lock of PostgreSQL, and the epoch of its streams."""

    holder: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class Published:
    """A message for a group."""

    number: int
    group: LeaseGroup


@dataclass
class World:
    """The lock table, the links, and the fate of each message."""

    size: int
    locks: dict[LeaseGroup, Lock] = field(
        default_factory=lambda: {group: Lock() for group in GROUPS}
    )
    stored: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    links: dict[tuple[str, str], deque[object]] = field(default_factory=dict)
    nodes: dict[str, "Node"] = field(default_factory=dict)
    published: int = 0

    def __post_init__(self) -> None:
        names = "abc"[: self.size]
        self.nodes = {name: Node(name, self) for name in names}
        for one in names:
            for other in names:
                if one != other:
                    self.links[one, other] = deque()

    def commit(self, by: "Node", message: Published) -> None:
        """Store a message, unless the epoch check refuses it."""
        if by.ownership.leases.get(message.group) == self.locks[message.group].epoch:
            self.stored.append(message.number)
        else:
            self.dropped.append(message.number)

    # -- what may happen ---------------------------------------------------------------------

    def actions(self, *, faults: bool) -> list[Action]:
        """Return everything that may happen next."""
        found: list[Action] = []
        for (one, other), queue in self.links.items():
            if queue:
                found.append(partial(self.deliver, one, other))
        for node in self.nodes.values():
            found += [partial(job, node) for job in node.jobs()]
            found += [partial(node.publish, group) for group in GROUPS]
            wanted = [group for group in GROUPS if node.may_want(group)]
            found += [partial(node.want, group) for group in wanted]
            found += [partial(node.want, *wanted)] if len(wanted) > 1 else []
            for group in sorted(node.ownership.owned):
                found += [
                    partial(node.ask_transfer, TransferRequested({name: [group]}))
                    for name in ("", *sorted(self.nodes.keys() - {node.name}))
                ]
        return found + (self.faults() if faults else [])

    def faults(self) -> list[Action]:
        """Return what may go wrong next."""
        found: list[Action] = []
        for node in self.nodes.values():
            found += [partial(self.end_session, node), node.notice, node.exceed_time_limit]
            found += [node.fail_load] if node.is_next(Command.LOAD) else []
            found += [node.fail_acquire] if node.is_next(Command.ACQUIRE) else []
            found += [node.fail_release] if node.is_next(Command.RELEASE) else []
        names = sorted(self.nodes)
        return found + [
            partial(self.break_link, one, other) for one in names for other in names if one < other
        ]

    def deliver(self, one: str, other: str) -> None:
        """Let the first thing on a link arrive."""
        self.nodes[other].receive(one, self.links[one, other].popleft())

    def end_session(self, node: "Node") -> None:
        """Free the locks of a node, which does not know."""
        for lock in self.locks.values():
            if lock.holder == node.name:
                lock.holder = ""

    def break_link(self, one: str, other: str) -> None:
        """Lose a link with all that is on its way, and have it again."""
        for here, there in ((one, other), (other, one)):
            queue = self.links[here, there]
            self.dropped += [each.number for each in queue if isinstance(each, Published)]
            queue.clear()
        for here, there in ((one, other), (other, one)):
            node = self.nodes[here]
            node.dispatch.peer_gone(there)
            node.answered(there)
        for here, there in ((one, other), (other, one)):
            self.links[here, there].append(("claims", self.nodes[here].dispatch.fencing_tokens()))

    def run_until_idle(self) -> None:
        """Let everything that has begun come to its end, and every group have an owner."""
        for _ in range(10_000):
            for node in self.nodes.values():
                node.notice()
            begun = [
                partial(self.deliver, *ends) for ends, queue in self.links.items() if queue
            ] + [partial(job, node) for node in self.nodes.values() for job in node.jobs()]
            if not begun:
                free = [g for g in GROUPS if not self.locks[g].holder]
                if not free:
                    return
                begun = [partial(self.nodes["a"].want, free[0])]
            begun[0]()
        raise AssertionError("it never ends")


class Node:
    """One node: its table of ownership, and a model of what executes the commands."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world = name, world
        self.dispatch: Dispatch[str] = Dispatch()
        self.ownership: Ownership[str] = self.dispatch.ownership
        self.held: list[Published] = []
        self.steps = PendingSteps(self.dispatch)
        self.is_busy = False  # a request executes the steps, until none is left or it fails
        self.asked: TransferRequested | None = None  # the transfer that is drained
        self.unread: set[str] = set()  # the peers that may still send messages for it
        self.dispatch.subscribe(
            {
                Command.ANNOUNCE: self._announce,
                Command.PASS: lambda _step: self._pass(),
                Command.REFUSE: self._refuse,
                Command.PLACE: self._place,
            }
        )

    # -- the commands ------------------------------------------------------------------------

    def _announce(self, step: Step) -> None:
        self._send(("claims", self.dispatch.fencing_tokens()))
        if isinstance(step.event, Released):
            self._send(("offer", step.event.transfer))

    def _send(self, what: object) -> None:
        for other in self.world.nodes:
            if other != self.name:
                self.world.links[self.name, other].append(what)

    def _pass(self) -> None:
        held, self.held = self.held, []
        for message in held:
            self._route(message)

    def _refuse(self, step: Step) -> None:
        refused = [message for message in self.held if message.group in step.groups]
        self.held = [message for message in self.held if message not in refused]
        self.world.refused += [message.number for message in refused]

    def _place(self, step: Step) -> None:
        if isinstance(step.event, PeerReleased) and step.event.to == self.name:
            for group in sorted(step.groups):
                self.want(group)

    # -- what the node does ------------------------------------------------------------------

    def publish(self, group: LeaseGroup) -> None:
        """Take a message of a client."""
        self.world.published += 1
        self._route(Published(self.world.published, group))

    def _route(self, message: Published) -> None:
        state = self.ownership.state(message.group)
        if state is State.OWNED:
            self.world.commit(self, message)
        elif state is State.PEER:
            owner = self.ownership.owners[message.group]
            self.world.links[self.name, owner].append(message)
        else:
            self.held.append(message)

    def may_want(self, group: LeaseGroup) -> bool:
        """Whether the placement could find a lock free that this node does not have."""
        return self.ownership.state(group) in (State.FREE, State.PEER)

    def want(self, *groups: LeaseGroup) -> None:
        """Follow the placement."""
        if all(map(self.may_want, groups)) and not self.is_busy:
            self.is_busy = True
            self.dispatch.post(Wanted(frozenset(groups)))

    def ask_transfer(self, event: TransferRequested) -> None:
        """Transfer a group to a peer."""
        if not self.is_busy:
            self.is_busy = True
            self.dispatch.post(event)

    def jobs(self) -> list[Callable[["Node"], None]]:
        """Return what this node has begun and may end now."""
        return [Node._execute] if self.is_busy else []

    def _execute(self) -> None:
        """Execute the first command, or go on with it."""
        if self.asked is not None:
            if not self.unread:
                asked, self.asked = self.asked, None
                self.dispatch.post(Drained(asked))
            return
        if not self.steps:
            self.is_busy = False
            return
        step = self.steps.next()
        if step.command is Command.ACQUIRE:
            self._acquire(step.groups)
        elif step.command is Command.LOAD:
            self.dispatch.post(Loaded(step.groups & self.ownership.within(State.LOADING), Nanos(1)))
        elif step.command is Command.DRAIN:
            assert isinstance(step.event, TransferRequested)
            self.asked, self.unread = step.event, set(self.world.nodes) - {self.name}
            self._send(("ping", None))
        else:
            self._release(step)

    def _acquire(self, groups: frozenset[LeaseGroup]) -> None:
        taken = {}
        for group in sorted(groups):
            lock = self.world.locks[group]
            if lock.holder in ("", self.name):  # a session may acquire its lock once more
                lock.holder, lock.epoch = self.name, lock.epoch + 1
                taken[group] = lock.epoch
        self.dispatch.post(LeasesAcquired(taken))

    def is_next(self, command: Command) -> bool:
        """Return whether this command is executed next."""
        return self.is_busy and bool(self.steps) and self.steps.peek().command is command

    def fail_load(self) -> None:
        """Fail to read the streams of some groups."""
        self.dispatch.post(LoadFailed(self.steps.next().groups))
        self.steps.fail()

    def fail_acquire(self) -> None:
        """Fail to acquire the locks of some groups: storage is away."""
        self.steps.next()
        self.steps.fail()

    def fail_release(self) -> None:
        """Fail to release the locks of some groups: they end with the session."""
        self.steps.next()
        self.steps.fail()
        self.world.end_session(self)

    def _release(self, step: Step) -> None:
        for group in step.groups:
            if self.world.locks[group].holder == self.name:
                self.world.locks[group].holder = ""
        if isinstance(step.event, Drained):
            self.dispatch.post(Released(step.event.transfer))

    def receive(self, peer: str, what: object) -> None:
        """Take what came over a link."""
        if isinstance(what, Published):
            if self.ownership.state(what.group) in HERE:
                self.world.commit(self, what)
            else:
                self.world.dropped.append(what.number)
            return
        assert isinstance(what, tuple)
        kind, told = what
        if kind == "claims":
            self.dispatch.peer_announced(peer, told)
        elif kind == "offer":
            for name, groups in told.to.items():
                self.dispatch.peer_released(frozenset(groups), name, is_requested=told.is_requested)
        elif kind == "ping":
            self.world.links[self.name, peer].append(("pong", None))
        else:
            self.answered(peer)

    def answered(self, peer: str) -> None:
        """A peer has read what it was sent, or is gone: it sends nothing more of before."""
        self.unread.discard(peer)

    def notice(self) -> None:
        """Look whether the locks are still had: acquire them again, or lose them."""
        lost = []
        for group, claim in list(self.ownership.leases.items()):
            lock = self.world.locks[group]
            if lock.epoch == claim and lock.holder in ("", self.name):
                if not lock.holder:
                    lock.holder, lock.epoch = self.name, lock.epoch + 1
                    self.dispatch.post(LeasesRenewed({group: lock.epoch}))
            else:
                lost.append(group)
        self.dispatch.post(LeasesLost(frozenset(lost), "another node has owned them since"))

    def exceed_time_limit(self) -> None:
        """Hold publishes no longer."""
        groups = frozenset(message.group for message in self.held)
        missing = self.ownership.unreachable(groups)
        self.dispatch.post(HoldTimeExceeded(missing))


def check(world: World) -> None:
    """See that no two nodes could commit to one group, and each message has one fate."""
    for group, lock in world.locks.items():
        able = [n for n in world.nodes.values() if n.ownership.leases.get(group) == lock.epoch]
        assert len(able) <= 1
    fates = world.stored + world.refused
    assert len(fates) == len(set(fates))


def play(world: World, seed: int, steps: int, *, faults: bool) -> None:
    """Let anything happen, some steps long; then let everything come to its end."""
    chance = Random(seed)
    for _ in range(steps):
        chance.choice(world.actions(faults=faults))()
        check(world)
    world.run_until_idle()
    check(world)


ANY = {"size": st.integers(2, 3), "seed": st.integers(0, 1 << 32), "steps": st.integers(0, 300)}


@settings(max_examples=200)
@given(**ANY)
def test_at_most_one_node_commits_and_every_transfer_ends(size: int, seed: int, steps: int) -> None:
    world = World(size)
    play(world, seed, steps, faults=True)

    for group, lock in world.locks.items():
        states = {node.name: node.ownership.state(group) for node in world.nodes.values()}
        assert states.pop(lock.holder) is State.OWNED
        assert set(states.values()) <= {State.PEER}
    for (one, other), queue in world.links.items():
        assert not queue
        claims = world.nodes[one].dispatch.fencing_tokens()
        assert world.nodes[other].ownership._announced.get(one, {}) == claims
    held = [message.number for node in world.nodes.values() for message in node.held]
    fates = world.stored + world.refused + world.dropped + held
    assert sorted(fates) == list(range(1, world.published + 1))


@settings(max_examples=200)
@given(**ANY)
def test_without_faults_every_publish_is_stored_once(size: int, seed: int, steps: int) -> None:
    world = World(size)
    play(world, seed, steps, faults=False)

    assert sorted(world.stored) == list(range(1, world.published + 1))


def test_a_pair_without_a_row_fails_by_name() -> None:
    dispatch: Dispatch[str] = Dispatch()
    with pytest.raises(ImpossibleTransitionError, match=r"lease group 7 is free: no Loaded there"):
        dispatch.post(Loaded(lease_groups(7), Nanos(1)))


@pytest.mark.parametrize("acts", [True, False])
def test_the_node_acts_as_in_the_table(acts: bool) -> None:
    """Without its command a transfer does not hold publishes."""
    row = TRANSITIONS[State.OWNED, TransferRequested]
    fewer = tuple(each for each in row.commands if acts or each is not Command.HOLD)
    dispatch: Dispatch[str] = Dispatch(
        {**TRANSITIONS, (State.OWNED, TransferRequested): Row(row.to, fewer)}
    )
    held: list[Step] = []
    dispatch.subscribe({Command.HOLD: held.append})
    dispatch.post(LeasesAcquired(by_group({7: 1})))
    dispatch.post(Loaded(lease_groups(7), Nanos(1)))
    dispatch.post(TransferRequested({"": lease_groups(7)}))
    assert bool(held) == acts
