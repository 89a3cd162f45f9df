"""Messages in columns: how several messages travel together through a server.

A parser gathers the publishes of a read into columns, a stream gathers those that wait for its next
group commit, a client those of a request with many answers. What is stored has sequences and times
as well: `core.model.segment`.
"""

import re
from collections.abc import Iterator
from itertools import compress

Message = tuple[bytes, bytes, bytes, bytes]
"""Subject, reply subject, header block, payload."""

_NONE: frozenset[bytes] = frozenset()
_RARE = 8
"""Replies are rare where fewer than one message in this many has one."""


class MessageColumns:
    """Messages that are published, one list per part of a message, all of one length.

    Attributes:
        replies: Reply subjects, empty bytes where there is none.
        headers: Complete header blocks, empty bytes where there is none.
        nbytes: Bytes of header blocks and payloads.
        has_headers: Whether a message has a header block.
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
        """Append a message."""
        self.subjects.append(subject)
        self.replies.append(reply)
        self.headers.append(headers)
        self.payloads.append(payload)
        self.nbytes += len(headers) + len(payload)
        if headers:
            self.has_headers = True

    def extend(self, more: "MessageColumns") -> None:
        """Append messages."""
        self.subjects += more.subjects
        self.replies += more.replies
        self.headers += more.headers
        self.payloads += more.payloads
        self.nbytes += more.nbytes
        self.has_headers = self.has_headers or more.has_headers
        if more.answered:
            self.answered |= more.answered

    def part(self, start: int, stop: int) -> "MessageColumns":
        """Return a copy of the messages from `start` up to `stop`."""
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
        """Remove the first `n` messages and return them."""
        head = self.part(0, n)
        del self.subjects[:n], self.replies[:n], self.headers[:n], self.payloads[:n]
        self.nbytes -= head.nbytes
        return head

    def count_bytes(self) -> None:
        """Set `nbytes` after the columns were changed."""
        self.nbytes = sum(map(len, self.payloads))
        if self.has_headers:
            self.nbytes += sum(map(len, self.headers))

    def messages(self) -> Iterator[Message]:
        """Return the messages one by one."""
        return zip(self.subjects, self.replies, self.headers, self.payloads, strict=True)

    def slice(self, start: int, stop: int) -> Iterator[Message]:
        """Return the messages from `start` up to `stop` one by one."""
        columns = self.subjects, self.replies, self.headers, self.payloads
        return zip(*(column[start:stop] for column in columns), strict=True)

    def rows(self) -> Iterator[tuple[int, int]]:
        """Return the (start, stop) of runs of messages without a reply, and of each with one.

        Where replies are not rare, all messages are one run.
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

    def take_alike(self, pattern: "re.Pattern[bytes]", data: bytes, pos: int) -> int:
        """Append the messages that match from `pos` on in a row; return the end of the last.

        The groups of `pattern` are the columns and the rest behind the last match. `nbytes` and
        `has_headers` are left to the caller.
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
