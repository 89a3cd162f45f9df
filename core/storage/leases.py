"""The interface of leases: advisory locks that decide which node leads which streams; heartbeats.

Each stream belongs to a lease group, numbered from 0. The owner of a group is the node whose
session holds the lock of the group; it raises the epochs of the group's streams before it writes.
The stream directory itself belongs to group 0. Heartbeats announce each node to the other nodes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.storage.health import Outage
from core.units import LeaseGroup, Nanos


@dataclass(slots=True)
class NodeRow:
    """The row in which a node describes itself to the other nodes; written with each heartbeat.

    Attributes:
        node: Name of the node.
        nats: Its address for NATS clients.
        http: Its address for HTTP.
        outages: Its newest storage outages.
        clock_ahead: Offset of its wall clock from the database clock, in seconds (positive: ahead);
            None if unknown.
        server_id: The server id of its INFO.
        version: Version of its release.
        route_host: Host at which other nodes connect to it; empty: the address from which its
            session comes, as PostgreSQL sees it.
        route_port: Port for connections from other nodes (routes); 0: it accepts none.
        links: Names of the nodes it has route connections with.
        tags: The placement tags that its operator has configured.
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
        """The node's addresses for NATS and HTTP, as the log prints them."""
        return ", ".join(filter(None, (self.nats, self.http)))


@dataclass(frozen=True, slots=True)
class PeerRow:
    """The row of a node as another node reads it, with the address for routes.

    Attributes:
        node: Name of the node.
        server_id: The server id of its INFO.
        host: Host at which it is reached.
        port: Port for routes; 0: it accepts none, and connects to the other nodes itself.
        silence: Time since its last heartbeat, in nanoseconds.
        age: Time since its first heartbeat, in nanoseconds.
        directory_version: Version of the stream directory in the database.
        tags: The placement tags that its operator has configured.
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
    """The result of raising the epochs of all streams of some lease groups.

    Attributes:
        groups: The lease groups whose streams have new epochs.
        fencing_token: A number that is higher than any earlier fencing token of these groups; it
            becomes invalid when another node raises the epochs.
    """

    groups: frozenset[LeaseGroup]
    fencing_token: int


@dataclass(frozen=True, slots=True)
class Holder:
    """The session that holds the lock of a lease group.

    Attributes:
        pid: Process id of its PostgreSQL backend.
        silence: Time since the last heartbeat of its node, in nanoseconds.
        node: Name of that node; empty if unknown.
        nats: Address of the node for clients; empty if unknown.
    """

    pid: int
    silence: Nanos
    node: str = ""
    nats: str = ""

    @property
    def shown(self) -> str:
        """Name and address of the node that holds the lock, as the log prints them."""
        return f"{self.node} at {self.nats}" if self.nats else self.node


@dataclass(frozen=True, slots=True)
class ForeignLocks:
    """Advisory locks with jetgate's keys that a session holds although it belongs to no node.

    Nodes ignore these locks when they acquire leases.

    Attributes:
        role: The PostgreSQL role that holds them.
        pid: Process id of the session; 0 for a prepared transaction.
        prepared: Name of the prepared transaction; empty for a session.
        held: Number of locks held.
        awaited: Number of locks waited for.
        groups: The lease groups whose lock is held or waited for.
    """

    role: str
    pid: int
    prepared: str
    held: int
    awaited: int
    groups: Sequence[LeaseGroup]

    @property
    def shown(self) -> str:
        """The role, its session or prepared transaction, and the numbers of locks, for the log."""
        place = f"prepared transaction {self.prepared!r}" if self.prepared else f"pid {self.pid}"
        return f"role {self.role!r} ({place}) holds {self.held} and waits for {self.awaited}"


class LeaseStore(Protocol):
    """The session with PostgreSQL that holds the locks of a node's lease groups.

    The streams of a lease group are led by the node whose session holds its lock. The session also
    writes and reads the rows of nodes. Each method raises Unavailable if the session is lost.
    """

    @property
    def pid(self) -> int:
        """Process id of the session's PostgreSQL backend, or of the last session.

        0 before the first.
        """
        ...

    @property
    def is_open(self) -> bool:
        """True while the session with PostgreSQL is open, as far as this node knows.

        It may be lost already.
        """
        ...

    async def open(self) -> None:
        """Open a new session. The locks of an earlier session are not held any more."""
        ...

    def close(self) -> None:
        """End the session without waiting. PostgreSQL then releases its locks."""
        ...

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Try to acquire the locks of lease groups without waiting.

        Return the groups that were free.
        """
        ...

    async def release(self, groups: Collection[LeaseGroup]) -> None:
        """Release the locks of lease groups. This session must hold them."""
        ...

    async def holders(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]:
        """Return the session that holds the lock of each lease group.

        Groups left out have no holder.
        """
        ...

    async def foreign(self) -> Sequence[ForeignLocks]:
        """Return the locks with jetgate's keys that sessions other than nodes hold or await."""
        ...

    async def end_session(self, pid: int) -> None:
        """Terminate the PostgreSQL backend `pid`, so that the locks of its session are released."""
        ...

    async def bump(
        self, groups: Collection[LeaseGroup], token: int, expected: int | None, node: str
    ) -> RaisedEpochs:
        """Raise the epochs of all streams and consumers of lease groups.

        Record `node` as their owner. `token` is the token of this node's session. With `expected`,
        groups whose stored token is another one are left out, since another node has acquired them;
        None accepts every token.
        """
        ...

    async def tokens(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, int]:
        """Return the session token that the last `bump` has stored for each lease group."""
        ...

    async def beat(self, row: NodeRow) -> Nanos:
        """Write the row of this node as a heartbeat, which other nodes read.

        Returns:
            The time of the database, in nanoseconds since the Unix epoch.
        """
        ...

    async def peers(self) -> Sequence[PeerRow]:
        """Return all nodes that have route connections or accept them, this one included."""
        ...

    async def has_space(self) -> bool:
        """Write one megabyte to storage and roll it back. Return False if the disk is full."""
        ...

    async def leave(self, row: NodeRow) -> None:
        """Release all locks, delete the row of this node, and end the session.

        Called when a node stops.
        """
        ...
