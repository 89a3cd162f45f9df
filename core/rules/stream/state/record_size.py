"""The size of a message, as counted towards `bytes` and `max_bytes` of its stream.

As in nats-server, the size depends on the storage type. A file stores 30 bytes beside each record
and 4 more if the record has headers; memory stores 16 bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.model.stream import Storage

LARGEST_OVERHEAD = 34
"""The largest number of bytes that any storage type adds to the content of a message."""


@dataclass(frozen=True, slots=True)
class RecordSize:
    """The rule by which one stream counts the bytes of its messages.

    Attributes:
        overhead: Bytes added to each message.
        header_overhead: Bytes added to each message with headers.
    """

    overhead: int
    header_overhead: int

    def of(self, subject: bytes, headers: bytes | None, payload_len: int) -> int:
        """Return the size of one message in bytes."""
        if headers:
            more = len(headers) + self.header_overhead
            return self.overhead + len(subject) + payload_len + more
        return self.overhead + len(subject) + payload_len

    def of_row(self, subject: bytes, payload_len: int, headers_len: int) -> int:
        """Return the size in bytes of a stored message, given the lengths that storage reports."""
        more = headers_len + self.header_overhead if headers_len else 0
        return self.overhead + len(subject) + payload_len + more

    def of_columns(
        self,
        subjects: Sequence[bytes],
        headers: Sequence[bytes | None] | None,
        payloads: Sequence[bytes],
    ) -> list[int]:
        """Return the size of each message in bytes."""
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
        """Return the total size of all messages in bytes, without computing each size."""
        content = sum(map(len, subjects)) + sum(map(len, payloads))
        blocks = [block for block in headers if block] if headers is not None else ()
        return self.total(len(payloads), content + sum(map(len, blocks)), len(blocks))

    def total(self, count: int, content: int, with_headers: int) -> int:
        """Return the total size of several messages in bytes.

        Args:
            count: Number of messages.
            content: Bytes of their subjects, headers and payloads.
            with_headers: Number of messages that have headers.
        """
        return content + self.overhead * count + self.header_overhead * with_headers


_SIZES = {Storage.FILE: RecordSize(30, 4), Storage.MEMORY: RecordSize(16, 0)}


def record_size(storage: Storage) -> RecordSize:
    """Return the rule for the sizes of messages in a storage type."""
    return _SIZES[storage]
