"""The interface of leases: a session that holds locks, heartbeats, epochs.

Each stream is in a lease group, a number from 0. Whoever leads a group holds its lock, and has
given its streams a new epoch. The stream directory itself is led with group 0.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.storage.health import Outage


@dataclass(slots=True)
class NodeRow:
    """What others see of a node.

    Attributes:
        node: its name.
        nats: its address for clients.
        http: its address for HTTP.
        outages: what it met of them.
        clock_ahead: what its machine's clock is ahead of the database's, seconds; None: not known.
        server_id: as its INFO has it.
        version: of its release.
        route_host: where other nodes reach it; empty: at the address that the database sees.
        route_port: the port for that; 0: it accepts no routes.
        links: the names of the nodes to which it has links.
        tags: what its operator says that it is.
        lease_groups: how many of them it leads.
        streams: how many streams it leads.
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
        """Its addresses as the log has them."""
        return ", ".join(filter(None, (self.nats, self.http)))


@dataclass(frozen=True, slots=True)
class PeerRow:
    """Another node, and where it accepts routes.

    Attributes:
        node: its name.
        server_id: as its INFO has it.
        host: where it is reached.
        port: the port for that; 0: it is found by its routes.
        silence: nanoseconds since its last heartbeat.
        age: nanoseconds since its first one.
        directory_version: The version of the stream directory in the database.
        tags: what its operator says that it is.
    """

    node: str
    server_id: str
    host: str
    port: int
    silence: int
    age: int
    directory_version: int = 0
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Bumped:
    """What a bump has done.

    Attributes:
        groups: those whose streams have new epochs.
        claim: a number above that of every bump of one of them before.
    """

    groups: frozenset[int]
    claim: int


@dataclass(frozen=True, slots=True)
class Holder:
    """The session that holds a lock.

    Attributes:
        pid: process id of its backend.
        silence: nanoseconds since the last heartbeat of its node.
        node: name of that node.
        nats: its address for clients.
    """

    pid: int
    silence: int
    node: str = ""
    nats: str = ""

    @property
    def shown(self) -> str:
        """The node as the log names it."""
        return f"{self.node} at {self.nats}" if self.nats else self.node


@dataclass(frozen=True, slots=True)
class ForeignLocks:
    """Advisory locks of jetgate's class of who is no node. Nothing waits for them.

    Attributes:
        role: whose they are.
        pid: process id of the session; 0: that of a prepared transaction.
        prepared: the name of a prepared transaction; empty for a session.
        held: how many there are.
        awaited: how many more are waited for.
        groups: the lease groups whose lock is held by a key that a node had, or is waited for.
    """

    role: str
    pid: int
    prepared: str
    held: int
    awaited: int
    groups: Sequence[int]

    @property
    def shown(self) -> str:
        """Whose locks these are, and how many."""
        place = f"prepared transaction {self.prepared!r}" if self.prepared else f"pid {self.pid}"
        return f"role {self.role!r} ({place}) holds {self.held} and waits for {self.awaited}"


class LeaseStore(Protocol):
    """The session that holds the locks. Each method raises Unavailable when it is lost."""

    @property
    def pid(self) -> int:
        """The process id of the session, or of the last one; 0 before the first."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether there is a session; one may be lost without this node knowing yet."""
        ...

    async def open(self) -> None:
        """Open a new session, without the locks of an earlier one."""
        ...

    def close(self) -> None:
        """End the session, and the locks with it, without waiting."""
        ...

    async def take(self, groups: Collection[int]) -> frozenset[int]:
        """Take the locks of groups that are free, without waiting; return which were."""
        ...

    async def give(self, groups: Collection[int]) -> None:
        """Release the locks of groups, which this session has."""
        ...

    async def holders(self, groups: Collection[int]) -> Mapping[int, Holder]:
        """Return which nodes hold the locks of groups; those that are left out are free."""
        ...

    async def foreign(self) -> Sequence[ForeignLocks]:
        """Return who holds such locks, or waits for some, and is no node."""
        ...

    async def end_session(self, pid: int) -> None:
        """Terminate the session of a holder."""
        ...

    async def bump(
        self, groups: Collection[int], token: int, expected: int | None, node: str
    ) -> Bumped:
        """Give the streams of groups and their consumers new epochs; say who leads the groups.

        Those whose token is not `expected` (None: any is) are led by another node, and left out.
        """
        ...

    async def tokens(self, groups: Collection[int]) -> Mapping[int, int]:
        """Return the tokens that the last bumps of groups stored."""
        ...

    async def beat(self, row: NodeRow) -> int:
        """Write a heartbeat for other nodes to see; return the time of the database.

        In nanoseconds since the Unix epoch.
        """
        ...

    async def peers(self) -> Sequence[PeerRow]:
        """Return all nodes that have links or routes, this one included."""
        ...

    async def has_space(self) -> bool:
        """Say whether storage has room for a megabyte more, which is not kept."""
        ...

    async def leave(self, row: NodeRow) -> None:
        """Release the locks, delete the row of the node, end the session."""
        ...
