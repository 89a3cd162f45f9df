"""Counts the subscriptions of this server that it announces to other servers of the cluster.

No I/O. Each account, subject and queue group is announced once. The first subscription makes an RS+
line, the end of the last one an RS-. In a queue group every change makes a line, because the count
is the weight by which other servers choose.
"""

from core.protocol.routed import interest


class LocalInterest:
    """The number of subscriptions of this server for each account, subject and queue group."""

    def __init__(self) -> None:
        self._counts: dict[tuple[bytes, bytes, bytes], int] = {}

    def add(self, account: bytes, subject: bytes, queue: bytes) -> bytes:
        """Count one subscription more; return the RS+ line to send to other servers.

        Empty if nothing has to be sent.
        """
        key = (account, subject, queue)
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return interest(account, subject, queue, count) if queue or count == 1 else b""

    def remove(self, account: bytes, subject: bytes, queue: bytes) -> bytes:
        """Count one subscription less; return the RS- or RS+ line to send to other servers.

        Empty if nothing has to be sent, or if there was no such subscription.
        """
        key = (account, subject, queue)
        count = self._counts.get(key, 0) - 1
        if count < 0:
            return b""
        if count:
            self._counts[key] = count
        else:
            del self._counts[key]
        return interest(account, subject, queue, count) if queue or not count else b""

    def add_all(self, other: "LocalInterest") -> bytes:
        """Add the subscriptions of another object; return the lines to send to other servers."""
        lines = [self.add(*key) for key, count in other._counts.items() for _ in range(count)]
        return b"".join(lines)

    def remove_all(self, other: "LocalInterest") -> bytes:
        """Subtract the subscriptions of another object.

        Return the lines to send to other servers.
        """
        lines = [self.remove(*key) for key, count in other._counts.items() for _ in range(count)]
        return b"".join(lines)

    def all_lines(self) -> bytes:
        """Return RS+ lines of all subscriptions, for a server that has just connected."""
        return b"".join(interest(*key, count) for key, count in self._counts.items())
