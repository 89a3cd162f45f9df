"""The interface of leases: a session that holds advisory locks, heartbeats, epochs.

Each stream belongs to a lease group, numbered from 0. The owner of a group holds its lock and has
raised the epochs of its streams. The stream directory itself belongs to group 0.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.storage.health import Outage
from core.units import LeaseGroup, Nanos


@dataclass(slots=True)
class NodeRow:
    """The row of a node, for other nodes to read.

    Attributes:
        node: Name of the node.
        nats: Its address for clients.
        http: Its address for HTTP.
        outages: Its newest storage outages.
        clock_ahead: Offset of its wall clock from the database clock, in seconds (positive: ahead);
            None if unknown.
        server_id: The server id of its INFO.
        version: Version of its release.
        route_host: Host at which other nodes reach it; empty: the address that the database sees.
        route_port: Port for routes; 0: it accepts none.
        links: Names of the nodes it has links to.
        tags: The tags that its operator has configured.
        lease_groups: Number of lease groups it owns.
        streams: Number of streams it leads.
    """

    node: str
    nats: str = ""
    http: str = ""
    outages: tuple[Outage, ...] = ()
    clock_ahead: float | None = None
    server_id: str = ""
    version: str = ""
    route_host: str = ""
    route_port: int = 0
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    lease_groups: int = 0
    streams: int = 0

    @property
    def shown(self) -> str:
        """The addresses, as the log prints them."""
        return ", ".join(filter(None, (self.nats, self.http)))


@dataclass(frozen=True, slots=True)
class PeerRow:
    """Another node, and its address for routes.

    Attributes:
        node: Name of the node.
        server_id: The server id of its INFO.
        host: Host at which it is reached.
        port: Port for routes; 0: it is not dialled, but found by its routes.
        silence: Nanoseconds since its last heartbeat.
        age: Nanoseconds since its first heartbeat.
        directory_version: Version of the stream directory in the database.
        tags: The tags that its operator has configured.
    """

    node: str
    server_id: str
    host: str
    port: int
    silence: Nanos
    age: Nanos
    directory_version: int = 0
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RaisedEpochs:
    """The result of raising epochs.

    Attributes:
        groups: The lease groups whose streams have new epochs.
        fencing_token: The number of this bump: above that of every earlier bump of these groups.
    """

    groups: frozenset[LeaseGroup]
    fencing_token: int


@dataclass(frozen=True, slots=True)
class Holder:
    """The session that holds a lock.

    Attributes:
        pid: Process id of its backend.
        silence: Nanoseconds since the last heartbeat of its node.
        node: Name of that node.
        nats: Its address for clients.
    """

    pid: int
    silence: Nanos
    node: str = ""
    nats: str = ""

    @property
    def shown(self) -> str:
        """The node, as the log prints it."""
        return f"{self.node} at {self.nats}" if self.nats else self.node


@dataclass(frozen=True, slots=True)
class ForeignLocks:
    """Advisory locks in jetgate's class of a session that is no node. Nothing waits for them.

    Attributes:
        role: The role that holds them.
        pid: Process id of the session; 0 for a prepared transaction.
        prepared: Name of the prepared transaction; empty for a session.
        held: Number of locks held.
        awaited: Number of locks waited for.
        groups: The lease groups whose lock is waited for, or held under a key that a node had.
    """

    role: str
    pid: int
    prepared: str
    held: int
    awaited: int
    groups: Sequence[LeaseGroup]

    @property
    def shown(self) -> str:
        """The role, its session or prepared transaction, and the numbers of locks, as text."""
        place = f"prepared transaction {self.prepared!r}" if self.prepared else f"pid {self.pid}"
        return f"role {self.role!r} ({place}) holds {self.held} and waits for {self.awaited}"


class LeaseStore(Protocol):
    """The session that holds the locks. Each method raises Unavailable when it is lost."""

    @property
    def pid(self) -> int:
        """Process id of the session, or of the last one; 0 before the first."""
        ...

    @property
    def is_open(self) -> bool:
        """True while a session is open, as far as this node knows; it may be lost already."""
        ...

    async def open(self) -> None:
        """Open a new session. It has none of the locks of an earlier one."""
        ...

    def close(self) -> None:
        """End the session, and thereby release its locks, without waiting."""
        ...

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Acquire the locks of groups without waiting; return the groups that were free."""
        ...

    async def release(self, groups: Collection[LeaseGroup]) -> None:
        """Release the locks of groups. This session holds them."""
        ...

    async def holders(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]:
        """Return the holder of the lock of each group; groups left out are free."""
        ...

    async def foreign(self) -> Sequence[ForeignLocks]:
        """Return the locks in jetgate's class that sessions other than nodes hold or await."""
        ...

    async def end_session(self, pid: int) -> None:
        """Terminate the session of a holder."""
        ...

    async def bump(
        self, groups: Collection[LeaseGroup], token: int, expected: int | None, node: str
    ) -> RaisedEpochs:
        """Raise the epochs of the streams of groups and of their consumers; record `node` as owner.

        A group whose stored token is not `expected` belongs to another node and is left out; None
        accepts any token.
        """
        ...

    async def tokens(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, int]:
        """Return the session tokens stored by the last bumps of groups."""
        ...

    async def beat(self, row: NodeRow) -> Nanos:
        """Write a heartbeat for other nodes to read.

        Returns:
            The time of the database, in nanoseconds since the Unix epoch.
        """
        ...

    async def peers(self) -> Sequence[PeerRow]:
        """Return all nodes that have links or accept routes, this one included."""
        ...

    async def has_space(self) -> bool:
        """Return whether storage can write another megabyte, which is not kept."""
        ...

    async def leave(self, row: NodeRow) -> None:
        """Release the locks, delete the row of the node, end the session."""
        ...
