"""The ownership of lease groups as one node knows it: states, events, commands. No I/O, no clock.

A lease group is a set of streams with one owner. Each group is in one `State`. An event moves
groups along the rows of `TRANSITIONS`, and each row names the commands that follow, in order. The
running node dispatches from this table (`core.node.ownership.dispatch`), the property tests run it
against a model of the lock table, and `docs/architecture.md` draws it.

Two numbers protect a group from a former owner. Each acquisition of leases has a number, the
*fencing token*: if two nodes claim a group, the higher token wins. The acquisition also raises the
*epoch* in the head row of each stream, so that commits of the former owner are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from core.units import LeaseGroup, Nanos

Peer = TypeVar("Peer", bound=Hashable)
"""Identity of a peer; in production, the link to it."""

DIRECTORY = LeaseGroup(0)
"""The lease group of the stream directory: its owner creates and deletes streams."""


class State(Enum):
    """The state of a lease group (a set of streams with one owner), as far as this node knows."""

    FREE = "free"
    """Without a reachable owner: publishes are held, and refused after a time limit."""
    LOADING = "loading"
    """Leased by this node, which reads the streams from storage."""
    OWNED = "owned"
    """Leased and served by this node."""
    TRANSFERRING = "transferring"
    """Leased by this node, which accepts no new publishes and stores those received before."""
    PEER = "owned by a peer"
    """Claimed by a peer, which serves the streams; publishes go to it."""


class Command(Enum):
    """An action for lease groups that an event requires, such as to load their streams.

    ACQUIRE, LOAD, DRAIN and RELEASE wait for storage.
    """

    ACQUIRE = "acquire leases"
    LOAD = "load"
    DRAIN = "drain"
    RELEASE = "release"
    DEPOSE = "depose"
    ANNOUNCE = "announce"
    HOLD = "hold publishes"
    PASS = "pass publishes"
    REFUSE = "refuse publishes"
    VERIFY = "verify storage"
    PLACE = "look at the placement"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Event: the placement has decided that this node is to own these free lease groups."""

    groups: frozenset[LeaseGroup]


@dataclass(frozen=True, slots=True)
class LeasesAcquired:
    """Event: this node has acquired the leases of groups and raised their streams' epochs.

    `fencing_tokens` has the token of each group.
    """

    fencing_tokens: Mapping[LeaseGroup, int]

    @property
    def groups(self) -> frozenset[LeaseGroup]:
        """The lease groups that the event concerns."""
        return frozenset(self.fencing_tokens)


@dataclass(frozen=True, slots=True)
class LeasesRenewed:
    """Event: a new session with PostgreSQL has confirmed leases, and raised the epochs again.

    `fencing_tokens` has the new token of each group.
    """

    fencing_tokens: Mapping[LeaseGroup, int]

    @property
    def groups(self) -> frozenset[LeaseGroup]:
        """The lease groups that the event concerns."""
        return frozenset(self.fencing_tokens)


@dataclass(frozen=True, slots=True)
class LeasesLost:
    """Event: this node has lost the leases of these lease groups (sets of streams with one owner).

    Another node has acquired them, or this node has ended its session with PostgreSQL. `why` is the
    reason for the log; empty: the loss is not logged.
    """

    groups: frozenset[LeaseGroup]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Event: the streams of these lease groups are loaded into memory.

    `at` is the time of the load, in nanoseconds since the Unix epoch.
    """

    groups: frozenset[LeaseGroup]
    at: Nanos


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """Event: the streams of these lease groups could not be read from storage."""

    groups: frozenset[LeaseGroup]


@dataclass(frozen=True, slots=True)
class TransferRequested:
    """Event: this node is to transfer lease groups to other nodes.

    Attributes:
        to: Groups by the name of their next owner; "": any node.
        is_requested: True if a client has asked for the transfer.
    """

    to: Mapping[str, Collection[LeaseGroup]]
    is_requested: bool = False

    @property
    def groups(self) -> frozenset[LeaseGroup]:
        """The lease groups that the event concerns."""
        return frozenset(group for some in self.to.values() for group in some)


@dataclass(frozen=True, slots=True)
class StepDownRequested:
    """Event: a client has asked that another node own these lease groups.

    Attributes:
        groups: The lease groups.
        successor: Name of the next owner; empty: any node.
    """

    groups: frozenset[LeaseGroup]
    successor: str


@dataclass(frozen=True, slots=True)
class Drained:
    """Event: the data received for lease groups in transfer is stored, their streams unloaded.

    `transfer` has the next owners.
    """

    transfer: TransferRequested

    @property
    def groups(self) -> frozenset[LeaseGroup]:
        """The lease groups that the event concerns."""
        return self.transfer.groups


@dataclass(frozen=True, slots=True)
class Released:
    """Event: the locks of lease groups in transfer are released; `transfer` has the next owners."""

    transfer: TransferRequested

    @property
    def groups(self) -> frozenset[LeaseGroup]:
        """The lease groups that the event concerns."""
        return self.transfer.groups


@dataclass(frozen=True, slots=True)
class PeerClaimed:
    """Event: a peer owns these lease groups; it has announced the highest fencing token."""

    groups: frozenset[LeaseGroup]


@dataclass(frozen=True, slots=True)
class PeerGone:
    """Event: the peer that owned these lease groups is unreachable or has released them.

    No other owner is known.
    """

    groups: frozenset[LeaseGroup]


@dataclass(frozen=True, slots=True)
class PeerReleased:
    """Event: a peer has released lease groups, so that another node can own them.

    Attributes:
        groups: The lease groups.
        to: Name of the next owner; empty: any node.
        is_requested: True if a client has asked for the release.
    """

    groups: frozenset[LeaseGroup]
    to: str
    is_requested: bool = False


@dataclass(frozen=True, slots=True)
class StorageAway:
    """Event: the session with PostgreSQL with the locks of these lease groups may be lost."""

    groups: frozenset[LeaseGroup]


@dataclass(frozen=True, slots=True)
class StorageBack:
    """Event: a new session with PostgreSQL holds the locks of these lease groups."""

    groups: frozenset[LeaseGroup]


@dataclass(frozen=True, slots=True)
class HoldTimeExceeded:
    """Event: publishes to these lease groups were held for the time limit without an owner."""

    groups: frozenset[LeaseGroup]


Event = (
    Wanted
    | LeasesAcquired
    | LeasesRenewed
    | LeasesLost
    | Loaded
    | LoadFailed
    | StepDownRequested
    | TransferRequested
    | Drained
    | Released
    | PeerClaimed
    | PeerGone
    | PeerReleased
    | StorageAway
    | StorageBack
    | HoldTimeExceeded
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the state table `TRANSITIONS`: the effect of an event on a lease group.

    Attributes:
        to: The state of the group after the event.
        commands: The commands to execute, in order.
    """

    to: State
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One command to execute for some lease groups, as the result of an event.

    Attributes:
        command: The command.
        groups: The lease groups to which it applies.
        event: The event that caused it.
    """

    command: Command
    groups: frozenset[LeaseGroup]
    event: Event


_Rows = dict[tuple[State, type[Event]], Row]


def _stays(*events: type[Event], commands: tuple[Command, ...] = ()) -> _Rows:
    """Return rows for events that change no state, for every state."""
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
    (_FREE, LeasesAcquired): Row(_LOADING, (_C.LOAD,)),
    (_PEER, LeasesAcquired): Row(_LOADING, (_C.HOLD, _C.LOAD)),
    (_LOADING, Loaded): Row(_OWNED, (_C.ANNOUNCE, _C.PASS)),
    (_LOADING, LoadFailed): Row(_FREE, (_C.DEPOSE, _C.RELEASE)),
    (_FREE, LoadFailed): Row(_FREE),  # lost meanwhile
    (_PEER, LoadFailed): Row(_PEER),
    # own
    (_LOADING, LeasesRenewed): Row(_LOADING),
    (_OWNED, LeasesRenewed): Row(_OWNED, (_C.ANNOUNCE,)),
    (_TRANSFERRING, LeasesRenewed): Row(_TRANSFERRING),
    # transfer
    (_OWNED, StepDownRequested): Row(_OWNED, (_C.PLACE,)),
    (_OWNED, TransferRequested): Row(_TRANSFERRING, (_C.ANNOUNCE, _C.HOLD, _C.DRAIN)),
    (_TRANSFERRING, Drained): Row(_FREE, (_C.RELEASE,)),
    (_FREE, Drained): Row(_FREE),  # lost meanwhile
    (_PEER, Drained): Row(_PEER),
    (_FREE, Released): Row(_FREE, (_C.ANNOUNCE, _C.HOLD)),
    (_PEER, Released): Row(_PEER, (_C.ANNOUNCE,)),  # the peer was faster than this release
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
    (_FREE, StorageBack): Row(_FREE, (_C.VERIFY,)),  # group 0 stands for data of no stream
    (_PEER, StorageBack): Row(_PEER, (_C.VERIFY,)),
    (_LOADING, StorageBack): Row(_LOADING, (_C.VERIFY,)),
    (_OWNED, StorageBack): Row(_OWNED, (_C.VERIFY,)),
    (_TRANSFERRING, StorageBack): Row(_TRANSFERRING, (_C.VERIFY,)),
    (_FREE, HoldTimeExceeded): Row(_FREE, (_C.REFUSE,)),
    (_LOADING, HoldTimeExceeded): Row(_LOADING, (_C.REFUSE,)),
    # everything received may still be stored
    (_TRANSFERRING, HoldTimeExceeded): Row(_TRANSFERRING),
    (_OWNED, HoldTimeExceeded): Row(_OWNED),  # an owner came in the meantime
    (_PEER, HoldTimeExceeded): Row(_PEER),
}
"""The row of each possible pair of state and event; any other pair is a fault."""

LEASED = frozenset({State.LOADING, State.OWNED, State.TRANSFERRING})
"""The states in which this node has the lease of a group."""


class ImpossibleTransitionError(Exception):
    """Raised if `TRANSITIONS` has no row for an event and the state of its lease group."""


class Ownership(Generic[Peer]):
    """The state of every lease group, as this node knows it. All attributes are for reading.

    Args:
        transitions: The next state and the commands for each pair of state and event.

    Attributes:
        owned: The groups that this node serves.
        owned_since: Time at which each owned group was loaded, in nanoseconds since the Unix epoch.
        owners: The peers that own the other groups, by group.
        leases: The fencing tokens of the groups whose lease this node has, by group.
    """

    def __init__(self, transitions: Mapping[tuple[State, type[Event]], Row] = TRANSITIONS) -> None:
        self.owned: frozenset[LeaseGroup] = frozenset()
        self.owned_since: dict[LeaseGroup, Nanos] = {}
        self.owners: dict[LeaseGroup, Peer] = {}
        self.leases: dict[LeaseGroup, int] = {}
        self._transitions = transitions
        self._states: dict[LeaseGroup, State] = {}  # groups left out are free
        self._announced: dict[Peer, Mapping[LeaseGroup, int]] = {}

    # -- views -------------------------------------------------------------------------------

    def state(self, group: LeaseGroup) -> State:
        """Return the state of a lease group; `FREE` for a group without any event."""
        return self._states.get(group, State.FREE)

    def fencing_tokens(self) -> dict[LeaseGroup, int]:
        """Return the fencing token of each lease group that this node serves."""
        return {group: self.leases[group] for group in sorted(self.owned)}

    def within(self, state: State) -> frozenset[LeaseGroup]:
        """Return the lease groups in `state`, which must not be `FREE`."""
        return frozenset(group for group, each in self._states.items() if each is state)

    def unreachable(self, groups: Iterable[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Return the lease groups in `groups` that neither this node nor a peer serves."""
        return frozenset(groups) - self.owned - self.owners.keys()

    def stale_peers(self) -> frozenset[Peer]:
        """Return the peers that still claim a group which another node has acquired since.

        The other node is known by its higher fencing token.
        """
        return frozenset(
            peer
            for peer, fencing_tokens in self._announced.items()
            if any(
                group in self.owned or self.owners.get(group, peer) != peer
                for group in fencing_tokens
            )
        )

    # -- events ------------------------------------------------------------------------------

    def apply(self, event: Event) -> list[Step]:
        """Apply an event to its lease groups; return the commands to execute, in order.

        Raises ImpossibleTransitionError, and changes nothing, if a group's state has no row for it.
        """
        steps = self._move(event)
        return steps + self._follow_peers(event.groups)

    def peer_announced(self, peer: Peer, fencing_tokens: Mapping[LeaseGroup, int]) -> list[Step]:
        """Replace the fencing tokens (by group) that a peer has announced.

        Returns the commands to execute, in order.
        """
        before = self._announced.pop(peer, {})
        if fencing_tokens:
            self._announced[peer] = fencing_tokens
        return self._follow_peers(before.keys() | fencing_tokens.keys())

    def _follow_peers(self, groups: Iterable[LeaseGroup]) -> list[Step]:
        """Make the peer with the highest token the owner of each group; without a token free it."""
        claimed: set[LeaseGroup] = set()
        gone: set[LeaseGroup] = set()
        for group in groups:
            token, peer = self._highest(group)
            if peer is None:
                if self.state(group) is State.PEER:
                    gone.add(group)
            elif token > self.leases.get(group, 0) and self.owners.get(group) != peer:
                self.owners[group] = peer
                claimed.add(group)
        steps = self._move(PeerGone(frozenset(gone))) if gone else []
        return steps + (self._move(PeerClaimed(frozenset(claimed))) if claimed else [])

    def _highest(self, group: LeaseGroup) -> tuple[int, Peer | None]:
        """Return the highest token that a peer announces for a group, and the peer.

        (0, None) if no peer announces one.
        """
        found: tuple[int, Peer | None] = 0, None
        for peer, fencing_tokens in self._announced.items():
            if fencing_tokens.get(group, 0) > found[0]:
                found = fencing_tokens[group], peer
        return found

    def _move(self, event: Event) -> list[Step]:
        moved: dict[Row, set[LeaseGroup]] = {}
        for group in sorted(event.groups):
            row = self._transitions.get((self.state(group), type(event)))
            if row is None:
                state, what = self.state(group).value, type(event).__name__
                raise ImpossibleTransitionError(f"lease group {group} is {state}: no {what} there")
            moved.setdefault(row, set()).add(group)
        if isinstance(event, LeasesAcquired | LeasesRenewed):
            self.leases.update(event.fencing_tokens)
        for row, groups in moved.items():
            self._enter(row.to, groups, event)
        return [
            Step(command, frozenset(groups), event)
            for row, groups in moved.items()
            for command in row.commands
        ]

    def _enter(self, state: State, groups: Collection[LeaseGroup], event: Event) -> None:
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
