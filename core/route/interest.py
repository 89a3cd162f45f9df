"""The interest of this server, as it announces it to the others: each subject and queue group once.

The module counts the subscriptions of an account to a subject in a queue group, without I/O. The
first subscription makes an RS+ line, the end of the last one an RS-. In a queue group every change
makes a line, because the count is the weight by which other servers choose.
"""

from core.protocol.routed import interest


class LocalInterest:
    """The subscriptions of all accounts, counted by account, subject and queue group."""

    def __init__(self) -> None:
        self._counts: dict[tuple[bytes, bytes, bytes], int] = {}

    def add(self, account: bytes, subject: bytes, queue: bytes) -> bytes:
        """Count one subscription more; return the line to send to other servers, empty for none."""
        key = (account, subject, queue)
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return interest(account, subject, queue, count) if queue or count == 1 else b""

    def remove(self, account: bytes, subject: bytes, queue: bytes) -> bytes:
        """Count one subscription less; return the line to send to other servers, empty for none."""
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
        """Add all subscriptions of another count; return the lines to send to other servers."""
        lines = [self.add(*key) for key, count in other._counts.items() for _ in range(count)]
        return b"".join(lines)

    def remove_all(self, other: "LocalInterest") -> bytes:
        """Subtract all subscriptions of another count; return the lines to send."""
        lines = [self.remove(*key) for key, count in other._counts.items() for _ in range(count)]
        return b"".join(lines)

    def all_lines(self) -> bytes:
        """Return the lines of all interest, for a server that has just connected."""
        return b"".join(interest(*key, count) for key, count in self._counts.items())
