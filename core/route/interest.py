"""What this server tells the others it listens to: each subject and queue group once.

Pure bookkeeping: how many subscriptions of an account there are to a subject in a queue group. The
first makes a line RS+, the last one RS-; in a queue group every change makes one, as its number is
the weight by which other servers choose.
"""

from core.protocol.routed import interest


class LocalInterest:
    """The subscriptions of all accounts, counted."""

    def __init__(self) -> None:
        self._counts: dict[tuple[bytes, bytes, bytes], int] = {}

    def add(self, account: bytes, subject: bytes, queue: bytes) -> bytes:
        """Count one more; return what to tell the other servers, often nothing."""
        key = (account, subject, queue)
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return interest(account, subject, queue, count) if queue or count == 1 else b""

    def remove(self, account: bytes, subject: bytes, queue: bytes) -> bytes:
        """Count one less; return what to tell the other servers, often nothing."""
        key = (account, subject, queue)
        count = self._counts.get(key, 0) - 1
        if count < 0:
            return b""
        if count:
            self._counts[key] = count
        else:
            del self._counts[key]
        return interest(account, subject, queue, count) if queue or not count else b""

    def take(self, other: "LocalInterest") -> bytes:
        """Count all that another one has counted; return what to tell the other servers."""
        lines = [self.add(*key) for key, count in other._counts.items() for _ in range(count)]
        return b"".join(lines)

    def drop(self, other: "LocalInterest") -> bytes:
        """Count no more what another one has counted; return what to tell the other servers."""
        lines = [self.remove(*key) for key, count in other._counts.items() for _ in range(count)]
        return b"".join(lines)

    def all_lines(self) -> bytes:
        """Return what a server is told that has just been connected."""
        return b"".join(interest(*key, count) for key, count in self._counts.items())
