"""The choice of the nodes that a node dials, by the rows of all nodes. No I/O.

Each node reads all rows with its heartbeat. Of two nodes the later one dials, at once. The earlier
one waits two seconds for that, and dials then. Two connections at once are therefore rare, and two
nodes find each other if only one can reach the other. A node whose row is gone, or whose heartbeat
is silent, is no longer dialled.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from core.storage.leases import PeerRow
from core.units import NANOS_PER_SECOND

SILENT = 10 * NANOS_PER_SECOND
"""Nanoseconds without a heartbeat after which a node is no longer dialled."""
LONE_GRACE = 2 * NANOS_PER_SECOND
"""Nanoseconds for which the earlier of two nodes waits for the later one to dial."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class DialChanges:
    """Addresses (host, port) to dial from now on, and those to dial no longer."""

    dial: list[Address] = field(default_factory=list)
    drop: list[Address] = field(default_factory=list)


class Membership:
    """The nodes that are dialled.

    Args:
        server_id: Server id of this node.
    """

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._dialled: dict[str, Address] = {}
        self._alone_since: dict[str, int] = {}

    def follow(self, rows: Sequence[PeerRow], linked: Container[str], now: int) -> DialChanges:
        """Apply the rows of all nodes; return the changes of the dialled addresses.

        `linked` has the ids of servers with a link; `now` is in monotonic nanoseconds.
        """
        own = next((row.age for row in rows if row.server_id == self._server_id), 0)
        there = {
            row.server_id: row
            for row in rows
            if row.silence < SILENT and row.port and row.server_id != self._server_id
        }
        changes = DialChanges()
        for server_id, address in list(self._dialled.items()):
            row = there.get(server_id)
            if row is None or (row.host, row.port) != address:
                del self._dialled[server_id]
                changes.drop.append(address)
        self._alone_since = {
            server_id: self._alone_since.get(server_id, now)
            for server_id in there
            if server_id not in linked
        }
        for server_id, since in self._alone_since.items():
            row = there[server_id]
            is_ours = (row.age, server_id) > (own, self._server_id)
            if server_id not in self._dialled and (is_ours or now - since >= LONE_GRACE):
                self._dialled[server_id] = (row.host, row.port)
                changes.dial.append((row.host, row.port))
        return changes
