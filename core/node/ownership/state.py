"""The ownership of lease groups as one node knows it: states, events, commands. No I/O, no clock.

Each lease group is in one `State`. An event moves groups along the rows of `TRANSITIONS`, and each
row names the commands that follow, in their order. The running node dispatches from this table
(`core.node.ownership.dispatch`), the property tests play it against a model of the lock table, and
`docs/architecture.md` draws it.

Two numbers fence a group. The *claim* is the number of the bump that acquired its lease: of two
nodes that say that they own a group, the one with the higher claim does. The epoch of each head
row, which the same bump raises, refuses the commits of the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Peer = TypeVar("Peer", bound=Hashable)
"""What stands for a peer: its link, in production."""

DIRECTORY = 0
"""The lease group of the stream directory: who owns it creates and deletes streams."""


class State(Enum):
    """Where a lease group is, as far as this node knows."""

    FREE = "free"
    """No node that is reached owns it: publishes are held, and refused when patience is over."""
    LOADING = "loading"
    """This node has the lease, and reads the streams."""
    OWNED = "owned"
    """This node serves the streams."""
    TRANSFERRING = "transferring"
    """This node has the lease, takes nothing new, and stores what reached it before."""
    PEER = "owned by a peer"
    """A peer says that it serves the streams; publishes go to it."""


class Command(Enum):
    """What follows upon a transition. The first four wait for storage, the others are immediate."""

    ACQUIRE = "acquire leases"
    LOAD = "load"
    DRAIN = "drain"
    RELEASE = "release"
    DEPOSE = "depose"
    ANNOUNCE = "announce"
    HOLD = "hold publishes"
    PASS = "pass publishes"
    REFUSE = "refuse publishes"
    VERIFY = "verify what is stored"
    PLACE = "look at the placement"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The placement says that this node is to own free groups."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class LeasesTaken:
    """This node has locks of groups and has raised their epochs; `claims`: by group."""

    claims: Mapping[int, int]

    @property
    def groups(self) -> frozenset[int]:
        """The groups."""
        return frozenset(self.claims)


@dataclass(frozen=True, slots=True)
class LeasesRenewed:
    """This node has raised the epochs of groups again, in a new session; `claims`: by group."""

    claims: Mapping[int, int]

    @property
    def groups(self) -> frozenset[int]:
        """The groups."""
        return frozenset(self.claims)


@dataclass(frozen=True, slots=True)
class LeasesLost:
    """Another node has raised the epochs of groups since, or this node has ended its session.

    `why`: for the log; empty: nothing that an operator has to know.
    """

    groups: frozenset[int]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The streams of groups are in memory; `at`: nanoseconds since the Unix epoch."""

    groups: frozenset[int]
    at: int


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The streams of groups could not be read."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class TransferAsked:
    """Groups are to go to other nodes.

    Attributes:
        to: groups by the name of the node that is to own them; "": any.
        is_asked: whether a client wanted that.
    """

    to: Mapping[str, Collection[int]]
    is_asked: bool = False

    @property
    def groups(self) -> frozenset[int]:
        """The groups."""
        return frozenset(group for some in self.to.values() for group in some)


@dataclass(frozen=True, slots=True)
class StepDownAsked:
    """A client has asked for another owner of groups.

    Attributes:
        groups: the groups.
        successor: the name of the node that is to own them; empty: any.
    """

    groups: frozenset[int]
    successor: str


@dataclass(frozen=True, slots=True)
class Drained:
    """All that had reached groups is stored; `transfer`: where the groups are to go."""

    transfer: TransferAsked

    @property
    def groups(self) -> frozenset[int]:
        """The groups."""
        return self.transfer.groups


@dataclass(frozen=True, slots=True)
class Released:
    """The locks of groups are free; `transfer`: where the groups are to go."""

    transfer: TransferAsked

    @property
    def groups(self) -> frozenset[int]:
        """The groups."""
        return self.transfer.groups


@dataclass(frozen=True, slots=True)
class PeerClaimed:
    """A peer is known to own groups from now on. `Ownership` finds out which these are."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The peer that owned groups owns them no more, and no other is known to."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class PeerReleased:
    """A peer has released groups.

    Attributes:
        groups: the groups.
        to: the name of the node that is to own them.
        is_asked: whether a client wanted that.
    """

    groups: frozenset[int]
    to: str
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class StorageAway:
    """The session that holds the locks is in doubt."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class StorageBack:
    """There is a session again which holds the locks."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class PatienceOver:
    """Groups have been without an owner for as long as publishes are held."""

    groups: frozenset[int]


Event = (
    Wanted
    | LeasesTaken
    | LeasesRenewed
    | LeasesLost
    | Loaded
    | LoadFailed
    | StepDownAsked
    | TransferAsked
    | Drained
    | Released
    | PeerClaimed
    | PeerGone
    | PeerReleased
    | StorageAway
    | StorageBack
    | PatienceOver
)


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of an event for a group: its state from then on, and the commands that follow."""

    to: State
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A command for groups, and the event from which it follows."""

    command: Command
    groups: frozenset[int]
    event: Event


_Rows = dict[tuple[State, type[Event]], Row]


def _stays(*events: type[Event], commands: tuple[Command, ...] = ()) -> _Rows:
    """Return rows of events that leave a group in its state, whichever that is."""
    return {(state, event): Row(state, commands) for event in events for state in State}


_FREE, _LOADING, _OWNED = State.FREE, State.LOADING, State.OWNED
_TRANSFERRING, _PEER = State.TRANSFERRING, State.PEER
_C = Command

TRANSITIONS: _Rows = {
    **_stays(StorageAway),
    **_stays(PeerReleased, commands=(_C.PLACE,)),
    # acquire
    (_FREE, Wanted): Row(_FREE, (_C.ACQUIRE,)),
    (_PEER, Wanted): Row(_PEER, (_C.ACQUIRE,)),  # its lock is free: the peer has not noticed yet
    (_FREE, LeasesTaken): Row(_LOADING, (_C.LOAD,)),
    (_PEER, LeasesTaken): Row(_LOADING, (_C.HOLD, _C.LOAD)),
    (_LOADING, Loaded): Row(_OWNED, (_C.ANNOUNCE, _C.PASS)),
    (_LOADING, LoadFailed): Row(_FREE, (_C.DEPOSE, _C.RELEASE)),
    (_FREE, LoadFailed): Row(_FREE),  # lost meanwhile
    (_PEER, LoadFailed): Row(_PEER),
    # own
    (_LOADING, LeasesRenewed): Row(_LOADING),
    (_OWNED, LeasesRenewed): Row(_OWNED, (_C.ANNOUNCE,)),
    (_TRANSFERRING, LeasesRenewed): Row(_TRANSFERRING),
    # transfer
    (_OWNED, StepDownAsked): Row(_OWNED, (_C.PLACE,)),
    (_OWNED, TransferAsked): Row(_TRANSFERRING, (_C.ANNOUNCE, _C.HOLD, _C.DRAIN)),
    (_TRANSFERRING, Drained): Row(_FREE, (_C.RELEASE,)),
    (_FREE, Drained): Row(_FREE),  # lost meanwhile
    (_PEER, Drained): Row(_PEER),
    (_FREE, Released): Row(_FREE, (_C.ANNOUNCE, _C.HOLD)),
    (_PEER, Released): Row(_PEER, (_C.ANNOUNCE,)),  # it was there before this node could say so
    # lose
    (_FREE, LeasesLost): Row(_FREE),  # lost before
    (_PEER, LeasesLost): Row(_PEER),
    (_LOADING, LeasesLost): Row(_FREE, (_C.DEPOSE, _C.HOLD, _C.PLACE)),
    (_OWNED, LeasesLost): Row(_FREE, (_C.DEPOSE, _C.ANNOUNCE, _C.HOLD, _C.PLACE)),
    (_TRANSFERRING, LeasesLost): Row(_FREE, (_C.DEPOSE, _C.ANNOUNCE, _C.HOLD, _C.PLACE)),
    (_LOADING, PeerClaimed): Row(_PEER, (_C.DEPOSE, _C.PASS, _C.PLACE)),
    (_OWNED, PeerClaimed): Row(_PEER, (_C.DEPOSE, _C.ANNOUNCE, _C.PASS, _C.PLACE)),
    (_TRANSFERRING, PeerClaimed): Row(_PEER, (_C.DEPOSE, _C.PASS, _C.PLACE)),
    # peers
    (_FREE, PeerClaimed): Row(_PEER, (_C.PASS,)),
    (_PEER, PeerClaimed): Row(_PEER, (_C.PASS,)),
    (_PEER, PeerGone): Row(_FREE, (_C.HOLD, _C.PLACE)),
    # storage and time
    (_FREE, StorageBack): Row(_FREE, (_C.VERIFY,)),  # group 0 stands for what is of no stream
    (_PEER, StorageBack): Row(_PEER, (_C.VERIFY,)),
    (_LOADING, StorageBack): Row(_LOADING, (_C.VERIFY,)),
    (_OWNED, StorageBack): Row(_OWNED, (_C.VERIFY,)),
    (_TRANSFERRING, StorageBack): Row(_TRANSFERRING, (_C.VERIFY,)),
    (_FREE, PatienceOver): Row(_FREE, (_C.REFUSE,)),
    (_LOADING, PatienceOver): Row(_LOADING, (_C.REFUSE,)),
    (_TRANSFERRING, PatienceOver): Row(_TRANSFERRING),  # what reached it may still be stored
    (_OWNED, PatienceOver): Row(_OWNED),  # an owner came meanwhile
    (_PEER, PatienceOver): Row(_PEER),
}
"""The row of each pair of state and event that may meet; any other pair is a fault."""

LEASED = frozenset({State.LOADING, State.OWNED, State.TRANSFERRING})
"""The states in which this node has the lease."""


class ImpossibleTransitionError(Exception):
    """An event met a lease group in a state for which `TRANSITIONS` has no row."""


class Ownership(Generic[Peer]):
    """The state of every lease group. All of its attributes are for reading.

    Args:
        transitions: the table.

    Attributes:
        owned: the groups that are served.
        owned_since: when each of them was loaded, nanoseconds since the Unix epoch.
        owners: the peers that own the other groups.
        leases: the groups whose lease this node has, with their claims.
    """

    def __init__(self, transitions: Mapping[tuple[State, type[Event]], Row] = TRANSITIONS) -> None:
        self.owned: frozenset[int] = frozenset()
        self.owned_since: dict[int, int] = {}
        self.owners: dict[int, Peer] = {}
        self.leases: dict[int, int] = {}
        self._transitions = transitions
        self._states: dict[int, State] = {}  # a group that is not there is free
        self._told: dict[Peer, Mapping[int, int]] = {}

    # -- views -------------------------------------------------------------------------------

    def state(self, group: int) -> State:
        """Return the state of a group."""
        return self._states.get(group, State.FREE)

    def claims(self) -> dict[int, int]:
        """Return the claims of the groups that are served."""
        return {group: self.leases[group] for group in sorted(self.owned)}

    def within(self, state: State) -> frozenset[int]:
        """Return the groups in a state other than `FREE`."""
        return frozenset(group for group, each in self._states.items() if each is state)

    def unreachable(self, groups: Iterable[int]) -> frozenset[int]:
        """Return which of some groups are served neither by this node nor by a peer."""
        return frozenset(groups) - self.owned - self.owners.keys()

    def stale_peers(self) -> frozenset[Peer]:
        """Return the peers that say that they own a group which another node acquired later."""
        return frozenset(
            peer
            for peer, claims in self._told.items()
            if any(group in self.owned or self.owners.get(group, peer) != peer for group in claims)
        )

    # -- events ------------------------------------------------------------------------------

    def apply(self, event: Event) -> list[Step]:
        """Move groups; return the commands that follow, in the order in which they are executed.

        Raises ImpossibleTransitionError, and moves nothing.
        """
        steps = self._move(event)
        return steps + self._follow_peers(event.groups)

    def peer_told(self, peer: Peer, claims: Mapping[int, int]) -> list[Step]:
        """Apply which groups a peer says that it owns, with their claims, instead of those before.

        Returns the commands that follow.
        """
        before = self._told.pop(peer, {})
        if claims:
            self._told[peer] = claims
        return self._follow_peers(before.keys() | claims.keys())

    def _follow_peers(self, groups: Iterable[int]) -> list[Step]:
        """Move groups to the peers with the highest claims, or away from peers without any."""
        claimed: set[int] = set()
        gone: set[int] = set()
        for group in groups:
            claim, peer = self._highest(group)
            if peer is None:
                if self.state(group) is State.PEER:
                    gone.add(group)
            elif claim > self.leases.get(group, 0) and self.owners.get(group) != peer:
                self.owners[group] = peer
                claimed.add(group)
        steps = self._move(PeerGone(frozenset(gone))) if gone else []
        return steps + (self._move(PeerClaimed(frozenset(claimed))) if claimed else [])

    def _highest(self, group: int) -> tuple[int, Peer | None]:
        """Return the highest claim of a peer for a group, and the peer."""
        found: tuple[int, Peer | None] = 0, None
        for peer, claims in self._told.items():
            if claims.get(group, 0) > found[0]:
                found = claims[group], peer
        return found

    def _move(self, event: Event) -> list[Step]:
        moved: dict[Row, set[int]] = {}
        for group in sorted(event.groups):
            row = self._transitions.get((self.state(group), type(event)))
            if row is None:
                state, what = self.state(group).value, type(event).__name__
                raise ImpossibleTransitionError(f"lease group {group} is {state}: no {what} there")
            moved.setdefault(row, set()).add(group)
        if isinstance(event, LeasesTaken | LeasesRenewed):
            self.leases.update(event.claims)
        for row, groups in moved.items():
            self._enter(row.to, groups, event)
        return [
            Step(command, frozenset(groups), event)
            for row, groups in moved.items()
            for command in row.commands
        ]

    def _enter(self, state: State, groups: Collection[int], event: Event) -> None:
        for group in groups:
            self._states[group] = state
            if state not in LEASED:
                self.leases.pop(group, None)
            if state is not State.OWNED:
                self.owned_since.pop(group, None)
            elif isinstance(event, Loaded):
                self.owned_since[group] = event.at
            if state is not State.PEER:
                self.owners.pop(group, None)
        was, there = self.owned, frozenset(groups)
        self.owned = was | there if state is State.OWNED else was - there
