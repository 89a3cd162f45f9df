"""Several messages as columns: one list each of subjects, replies, headers and payloads.

A server's parser collects the publishes of one read in this form, a stream the messages of its next
group commit, and a client the answers to one request. Stored messages have sequences and times as
well: see `core.model.segment`.
"""

import re
from collections.abc import Iterator
from itertools import compress

Message = tuple[bytes, bytes, bytes, bytes]
"""Subject, reply subject, header block, payload."""

_NONE: frozenset[bytes] = frozenset()
_RARE = 8
"""Replies are rare if fewer than one in this many messages has one."""


class MessageColumns:
    """Published messages: one list per part of a message, all of the same length.

    Attributes:
        subjects: Subjects.
        replies: Reply subjects (b"": none).
        headers: Complete header blocks (b"": none).
        payloads: Payloads.
        nbytes: Bytes of header blocks and payloads.
        has_headers: Whether any message has a header block.
        answered: Reply subjects of traced publishes (ADR-41): a stream answers them even if it
            acknowledges nothing. They need not be in `replies`.
    """

    __slots__ = (
        "answered",
        "has_headers",
        "headers",
        "nbytes",
        "payloads",
        "replies",
        "subjects",
    )

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.nbytes = 0
        self.has_headers = False
        self.answered = _NONE

    def __len__(self) -> int:
        return len(self.payloads)

    def add(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Append one message; empty bytes mean no reply subject or no headers."""
        self.subjects.append(subject)
        self.replies.append(reply)
        self.headers.append(headers)
        self.payloads.append(payload)
        self.nbytes += len(headers) + len(payload)
        if headers:
            self.has_headers = True

    def extend(self, more: "MessageColumns") -> None:
        """Append the messages of another object, which is not changed."""
        self.subjects += more.subjects
        self.replies += more.replies
        self.headers += more.headers
        self.payloads += more.payloads
        self.nbytes += more.nbytes
        self.has_headers = self.has_headers or more.has_headers
        if more.answered:
            self.answered |= more.answered

    def part(self, start: int, stop: int) -> "MessageColumns":
        """Return a copy of the messages in the index range [start, stop)."""
        part = MessageColumns()
        part.subjects = self.subjects[start:stop]
        part.replies = self.replies[start:stop]
        part.headers = self.headers[start:stop]
        part.payloads = self.payloads[start:stop]
        part.answered = self.answered
        part.has_headers = self.has_headers and any(part.headers)
        part.count_bytes()
        return part

    def split(self, n: int) -> "MessageColumns":
        """Remove the first `n` messages and return them in a new object."""
        head = self.part(0, n)
        del self.subjects[:n], self.replies[:n], self.headers[:n], self.payloads[:n]
        self.nbytes -= head.nbytes
        return head

    def count_bytes(self) -> None:
        """Compute `nbytes` again after the lists were changed directly."""
        self.nbytes = sum(map(len, self.payloads))
        if self.has_headers:
            self.nbytes += sum(map(len, self.headers))

    def messages(self) -> Iterator[Message]:
        """Return an iterator of the messages as (subject, reply, headers, payload)."""
        return zip(self.subjects, self.replies, self.headers, self.payloads, strict=True)

    def slice(self, start: int, stop: int) -> Iterator[Message]:
        """Return an iterator of the messages in the index range [start, stop), one by one."""
        columns = self.subjects, self.replies, self.headers, self.payloads
        return zip(*(column[start:stop] for column in columns), strict=True)

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yield index ranges [start, stop) that together contain all messages, in order.

        Each message with a reply subject has a range of its own; the consecutive messages between
        two of them form one range. If more than one in eight messages has a reply subject, one
        range contains all messages.
        """
        count, at = len(self.replies), 0
        if (count - self.replies.count(b"")) * _RARE < count:
            for place in compress(range(count), self.replies):
                if at < place:
                    yield at, place
                yield place, place + 1
                at = place + 1
        if at < count:
            yield at, count

    def add_alike(self, pattern: "re.Pattern[bytes]", data: bytes, pos: int) -> int:
        """Append the consecutive messages that `pattern` matches from `pos` on; return their end.

        The groups of `pattern` are subject, reply, headers, payload, and the rest after the last
        match. The caller updates `nbytes` and `has_headers`.
        """
        found = pattern.findall(data, pos)
        end = len(data)
        if found and found[-1][4]:
            end -= len(found.pop()[4])
        if found:
            subjects, replies, headers, payloads, _ = zip(*found, strict=True)
            self.subjects += subjects
            self.replies += replies
            self.headers += headers
            self.payloads += payloads
        return end
