"""Which nodes of a database a node dials, by their rows. No I/O.

Each node reads the rows of all with its heartbeat. Of two nodes the later one dials, at once; the
earlier one waits some seconds for that, and dials then: so two connections at once are rare, and
two nodes find each other where one cannot reach the other. A node whose row is gone, or whose
heartbeat is silent, is dialled no more.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from core.storage.leases import PeerRow

_SECOND = 1_000_000_000
SILENT = 10 * _SECOND
"""Nanoseconds without a heartbeat after which a node is dialled no more."""
PATIENCE = 2 * _SECOND
"""Nanoseconds for which the earlier of two nodes leaves it to the later one to dial."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """Whom to dial from now on, and whom no more."""

    dial: list[Address] = field(default_factory=list)
    drop: list[Address] = field(default_factory=list)


class Membership:
    """The nodes that are dialled.

    Args:
        server_id: that of this node.
    """

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._dialled: dict[str, Address] = {}
        self._alone_since: dict[str, int] = {}

    def follow(self, rows: Sequence[PeerRow], linked: Container[str], now: int) -> Changes:
        """Take the rows of all nodes; `linked`: the servers with a link, `now`: monotonic."""
        own = next((row.age for row in rows if row.server_id == self._server_id), 0)
        there = {
            row.server_id: row
            for row in rows
            if row.silence < SILENT and row.port and row.server_id != self._server_id
        }
        changes = Changes()
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
            if server_id not in self._dialled and (is_ours or now - since >= PATIENCE):
                self._dialled[server_id] = (row.host, row.port)
                changes.dial.append((row.host, row.port))
        return changes
