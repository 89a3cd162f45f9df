"""The choice of the nodes to which a node connects, from the rows of all nodes. No I/O.

Each node reads all rows with its heartbeat. Of two nodes, the one that started later connects at
once. The other one waits 2 s for that connection, then connects itself. Two connections at once are
therefore rare, and two nodes are linked even if only one can reach the other. A node does not
connect to nodes without a row, or without a heartbeat for 10 s.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from core.storage.leases import PeerRow
from core.units import NANOS_PER_SECOND

SILENT = 10 * NANOS_PER_SECOND
"""Nanoseconds without a heartbeat after which no node connects to this one any more."""
LONE_GRACE = 2 * NANOS_PER_SECOND
"""Nanoseconds for which a node waits for the connection of a node that started later."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class DialChanges:
    """The changes of the addresses (host, port) to which a node keeps connecting.

    Attributes:
        dial: Addresses to connect to from now on.
        drop: Addresses to connect to no longer.
    """

    dial: list[Address] = field(default_factory=list)
    drop: list[Address] = field(default_factory=list)


class Membership:
    """Decides to which nodes this node connects, and reconnects.

    Args:
        server_id: Server id of this node.
    """

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._dialled: dict[str, Address] = {}
        self._alone_since: dict[str, int] = {}

    def follow(self, rows: Sequence[PeerRow], linked: Container[str], now: int) -> DialChanges:
        """Process the rows of all nodes; return the changes of the addresses to connect to.

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
