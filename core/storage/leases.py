"""The interface of leases: a session that holds the locks, heartbeats, epochs."""

from collections.abc import Sequence
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

    @property
    def shown(self) -> str:
        """Its addresses as the log has them."""
        return ", ".join(filter(None, (self.nats, self.http)))


@dataclass(frozen=True, slots=True)
class PeerRow:
    """Where a node accepts routes.

    Attributes:
        node: its name.
        server_id: as its INFO has it.
        host: where it is reached.
        port: the port for that.
        silence: nanoseconds since its last heartbeat.
        age: nanoseconds since its first one.
    """

    node: str
    server_id: str
    host: str
    port: int
    silence: int
    age: int


@dataclass(frozen=True, slots=True)
class Holder:
    """The session that holds the lock.

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

    async def take(self) -> bool:
        """Take the locks of all lease groups, or none; return whether that succeeded."""
        ...

    async def holder(self) -> Holder | None:
        """Return the holder of the locks."""
        ...

    async def end_session(self, pid: int) -> None:
        """Terminate the session of a holder."""
        ...

    async def bump(self, token: int, expected: int | None) -> int:
        """Give every head and consumer a new epoch and store `token`; return the catalogue's epoch.

        Raises:
            Fenced: the stored token is not `expected` (None: any is accepted).
        """
        ...

    async def token(self) -> int:
        """Return the token that the last `bump` stored."""
        ...

    async def beat(self, row: NodeRow) -> int:
        """Write a heartbeat for other nodes to see; return the time of the database.

        In nanoseconds since the Unix epoch.
        """
        ...

    async def peers(self) -> Sequence[PeerRow]:
        """Return all nodes that accept routes, this one included."""
        ...

    async def has_space(self) -> bool:
        """Say whether storage has room for a megabyte more, which is not kept."""
        ...

    async def unlock(self) -> None:
        """Release the locks, end the session; the row of the node stays."""
        ...

    async def leave(self, row: NodeRow) -> None:
        """Release the locks, delete the row of the node, end the session."""
        ...
