"""Parser of the bytes of a NATS server into lists of subjects, headers and payloads (no I/O)."""

import re
from collections.abc import Callable
from functools import lru_cache

from pyspark_jetstream.nats.errors import ProtocolError

_CRLF = b"\r\n"
LONGEST_LINE = 1 << 20
"""Largest length of a protocol line in bytes; INFO is the longest."""
_ALIKE = 8
"""Number of consecutive messages of one form after which one regular expression parses the rest."""
_ALIKE_SIZE = 4096
"""Largest payload, in bytes, that the regular expression parses."""


class Columns:
    """Received messages of one subscription, as one list for each part of a message.

    Entry i of all lists is message i. The entry in `replies` and `headers` is `b""` for a message
    without reply subject or headers.
    """

    __slots__ = ("headers", "payloads", "replies", "subjects")

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []

    def __len__(self) -> int:
        return len(self.subjects)

    def clear(self) -> None:
        self.subjects.clear()
        self.replies.clear()
        self.headers.clear()
        self.payloads.clear()


class Parser:
    """Parser of the reads of a socket; appends complete messages to the columns of subscriptions.

    A read may end anywhere: the parser keeps an incomplete message until the next read.

    Args:
        control: Called with each protocol line that is not a message (INFO, PING, PONG, +OK, -ERR),
            without its line end, in the order of arrival.
    """

    def __init__(self, control: Callable[[bytes], None]) -> None:
        self.inboxes: dict[bytes, Columns] = {}
        """Columns by subscription id; messages of other ids are dropped."""
        self._control = control
        self._rest: list[bytes] = []
        self._held = 0
        self._wanted = 0

    def feed(self, data: bytes) -> None:
        """Parse the bytes of one read.

        Raises:
            ProtocolError: The bytes are not NATS protocol; the connection cannot be used further.
        """
        if self._rest:
            self._rest.append(data)
            self._held += len(data)
            if self._held < self._wanted:
                return
            data = b"".join(self._rest)
            self._rest.clear()
        end, wanted = self._parse(data)
        if end < len(data):
            self._rest.append(data[end:])
            self._held = len(data) - end
            self._wanted = wanted

    def _parse(self, data: bytes) -> tuple[int, int]:
        """Parse all complete operations.

        Returns the start of the first incomplete operation, and the least number of bytes it needs
        (0 if unknown).
        """
        find = data.find
        inboxes = self.inboxes
        size = len(data)
        at = alike = 0
        # Subscription and size of the previous message, if it has neither reply nor headers
        before: list[bytes] = []
        while True:
            eol = find(_CRLF, at)
            if eol < 0:
                if size - at > LONGEST_LINE:
                    raise ProtocolError(f"a line longer than {LONGEST_LINE} bytes")
                return at, 0
            line = data[at:eol]
            first = line[:5]
            if first == b"HMSG ":
                words = line.split()
                start = eol + 2
                middle, stop = _bounds(words, start)
                full = 6
            elif first[:4] == b"MSG ":
                words = line.split()
                start = middle = eol + 2
                stop = _end(words, start)
                full = 5
            else:
                self._control(line)
                at = eol + 2
                continue
            if stop + 2 > size:
                return at, stop + 2 - at
            if data[stop : stop + 2] != _CRLF:
                raise ProtocolError("a payload that does not end where its line says")
            at = stop + 2
            columns = inboxes.get(words[2])
            if columns is None:
                continue
            columns.subjects.append(words[1])
            columns.replies.append(words[3] if len(words) == full else b"")
            columns.headers.append(data[start:middle])
            columns.payloads.append(data[middle:stop])
            if len(words) != 4:  # acks have neither replies nor headers
                continue
            if words[2:] != before:
                before, alike = words[2:], 0
            elif (alike := alike + 1) >= _ALIKE:
                at = _read_alike(columns, data, at, words[2], stop - start)
                alike = -_ALIKE


@lru_cache(64)
def _plain(sid: bytes, size: int) -> "re.Pattern[bytes]":
    message = rb"MSG ([!-\xff]+) %b %d\r\n(.{%d})\r\n" % (re.escape(sid), size, size)
    return re.compile(message + rb"|(.+)", re.DOTALL)


def _read_alike(columns: Columns, data: bytes, at: int, sid: bytes, size: int) -> int:
    """Append the messages from `at` on that have neither reply nor headers; return their end."""
    if size > _ALIKE_SIZE:
        return at
    found = _plain(sid, size).findall(data, at)
    end = len(data)
    if found and found[-1][2]:
        end -= len(found.pop()[2])
    if found:
        subjects, payloads, _ = zip(*found, strict=True)
        columns.subjects += subjects
        columns.replies += [b""] * len(found)
        columns.headers += [b""] * len(found)
        columns.payloads += payloads
    return end


def _bounds(words: list[bytes], start: int) -> tuple[int, int]:
    """Return the ends of headers and payload of an HMSG whose line ends before `start`."""
    try:
        headers, total = int(words[-2]), int(words[-1])
    except (ValueError, IndexError):
        headers, total = 1, 0
    if not 0 <= headers <= total or not 5 <= len(words) <= 6:
        raise ProtocolError(f"not a line of a message: {b' '.join(words)[:200]!r}")
    return start + headers, start + total


def _end(words: list[bytes], start: int) -> int:
    """Return the end of the payload of a MSG whose line ends before `start`."""
    size = int(words[-1]) if words[-1].isdigit() else -1
    if size < 0 or not 4 <= len(words) <= 5:
        raise ProtocolError(f"not a line of a message: {b' '.join(words)[:200]!r}")
    return start + size
