"""The size of a message: what it counts towards `bytes` and `max_bytes` of its stream.

As in the reference server it depends on the storage type: a file keeps 30 bytes beside each record
and 4 more where it has headers, memory 16 bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.model.stream import Storage

LARGEST_OVERHEAD = 34
"""Bytes that any storage type adds to a message, at most."""


@dataclass(frozen=True, slots=True)
class RecordSize:
    """How one stream counts the bytes of its messages."""

    overhead: int
    header_overhead: int

    def of(self, subject: bytes, headers: bytes | None, payload_len: int) -> int:
        """Return the size of one message."""
        if headers:
            more = len(headers) + self.header_overhead
            return self.overhead + len(subject) + payload_len + more
        return self.overhead + len(subject) + payload_len

    def of_row(self, subject: bytes, payload_len: int, headers_len: int) -> int:
        """Return the size of a stored message, of which storage told the lengths."""
        more = headers_len + self.header_overhead if headers_len else 0
        return self.overhead + len(subject) + payload_len + more

    def of_columns(
        self,
        subjects: Sequence[bytes],
        headers: Sequence[bytes | None] | None,
        payloads: Sequence[bytes],
    ) -> list[int]:
        """Return the size of each message."""
        if headers is None:
            overhead = self.overhead
            return [overhead + len(s) + len(p) for s, p in zip(subjects, payloads, strict=True)]
        size_of = self.of
        rows = zip(subjects, headers, payloads, strict=True)
        return [size_of(s, block, len(p)) for s, block, p in rows]

    def sum_of_columns(
        self,
        subjects: Sequence[bytes],
        headers: Iterable[bytes | None] | None,
        payloads: Sequence[bytes],
    ) -> int:
        """Return the size of all messages together, without looking at each."""
        content = sum(map(len, subjects)) + sum(map(len, payloads))
        blocks = [block for block in headers if block] if headers is not None else ()
        return self.total(len(payloads), content + sum(map(len, blocks)), len(blocks))

    def total(self, count: int, content: int, blocks: int) -> int:
        """Return the size of so many messages.

        Args:
            count: How many there are.
            content: Bytes of their subjects, headers and payloads.
            blocks: How many of them have headers.
        """
        return content + self.overhead * count + self.header_overhead * blocks


_SIZES = {Storage.FILE: RecordSize(30, 4), Storage.MEMORY: RecordSize(16, 0)}


def record_size(storage: Storage) -> RecordSize:
    """Return how streams of a storage type count bytes."""
    return _SIZES[storage]
