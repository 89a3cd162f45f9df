"""Reads consecutive PUBs and HPUBs into columns: the fast path of the parser.

Only the common form: the verb in upper case, the line of legal length, the payload complete and
followed by CR LF. At anything else, errors included, it stops and the parser goes on from there.

Messages of one size are common. After some of them, one regular expression reads all that follow.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import compress

GATHER_ALL = 1 << 30
"""How many messages to read at most (roughly) for a sink that takes columns."""
GATHER_SAMPLE = 64
"""The same for a sink that is offered columns to find out whether it can take them."""
MAX_SIZE_DIGITS = 9
SAME_SIZE_MIN = 8
"""Messages of one size in a row after which the regular expression is tried."""
PATTERN_SIZE_MAX = 4096
"""The largest header block and payload with an expression."""
PATTERNS = 1024
"""Expressions that are kept."""
_RARE = 8
"""Of so many messages less than one has a reply where that is rare."""
_PATTERN_LINE = 4096  # longest line that an expression matches

TOKEN = rb"([!-\xff]{1,2000})"
"""Neither blanks nor control characters; short enough for two of them on a legal line."""


class Batch:
    """Messages in columns, one list per part of a message.

    An absent reply or header block is empty bytes; `nbytes` counts headers and payloads.
    """

    __slots__ = ("has_headers", "headers", "nbytes", "payloads", "replies", "subjects")

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.has_headers = False
        self.nbytes = 0

    def add(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Add a message."""
        self.subjects.append(subject)
        self.replies.append(reply)
        self.headers.append(headers)
        self.payloads.append(payload)
        self.nbytes += len(headers) + len(payload)
        if headers:
            self.has_headers = True

    def messages(self) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """Return (subject, reply, headers, payload) of each."""
        return zip(self.subjects, self.replies, self.headers, self.payloads, strict=True)

    def part(self, start: int, stop: int) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """Return what `messages` does of some."""
        columns = self.subjects, self.replies, self.headers, self.payloads
        return zip(*(column[start:stop] for column in columns), strict=True)

    def rows(self) -> Iterator[tuple[int, int]]:
        """Return where messages without a reply begin and end, and one with a reply between them.

        Where many have a reply, all are one row.
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
        """Add the messages from `pos` on that match in a row; return where they end.

        The groups of `pattern` are the columns, and what follows the last match.
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


def gather(
    data: bytes, pos: int, limits: tuple[int, int, int], *, with_headers: bool
) -> tuple[Batch, int]:
    """Read messages from `pos` on; return them and the position where reading stopped.

    `limits` are the largest payload, the longest line, and how many messages to read (roughly).
    """
    max_payload, max_line, most = limits
    batch = Batch()
    subjects, replies, payloads = batch.subjects, batch.replies, batch.payloads
    headers, find = batch.headers, data.find
    size_before = block_before = -1
    same_size = 0
    # split() also splits at these two characters, the protocol does not
    has_vt_or_ff = b"\x0b" in data or b"\x0c" in data
    while (eol := find(b"\n", pos)) >= 0 and len(payloads) < most:
        args = data[pos:eol].split()
        count = len(args)
        digits = args[-1] if count > 2 else b""
        if not digits.isdigit() or len(digits) > MAX_SIZE_DIGITS or eol - pos > max_line:
            break
        if has_vt_or_ff and _has_vt_or_ff(data[pos:eol]):
            break
        start = body = eol + 1
        stop = start + int(digits)
        if args[0] == b"PUB" and count < 5:
            reply = args[2] if count == 4 else b""
        elif with_headers and args[0] == b"HPUB" and 3 < count < 6 and _is_size(args[-2]):
            reply = args[2] if count == 5 else b""
            body = start + int(args[-2])
        else:
            break
        size = stop - body
        if size < 0 or stop - start > max_payload or data[stop : stop + 2] != b"\r\n":
            break
        subjects.append(args[1])
        replies.append(reply)
        headers.append(data[start:body])
        payloads.append(data[body:stop])
        pos = stop + 2
        block = body - start
        if size != size_before or block != block_before:
            size_before, block_before, same_size = size, block, 0
            if block:
                batch.has_headers = True
        elif (same_size := same_size + 1) >= SAME_SIZE_MIN:
            if block <= PATTERN_SIZE_MAX >= size and max_line >= _PATTERN_LINE:
                pos = batch.take_alike(_pattern(block, size), data, pos)
            same_size = -SAME_SIZE_MIN
    batch.nbytes = sum(map(len, payloads)) + (sum(map(len, headers)) if batch.has_headers else 0)
    return batch, pos


def _is_size(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS


def _has_vt_or_ff(line: bytes) -> bool:
    return b"\x0b" in line or b"\x0c" in line


@lru_cache(PATTERNS)
def _pattern(block: int, size: int) -> "re.Pattern[bytes]":
    line = rb"%b %b(?: %b)?" % (b"HPUB" if block else b"PUB", TOKEN, TOKEN)
    sizes = rb"%d %d" % (block, block + size) if block else rb"%d" % size
    message = rb"%b %b\r\n(.{%d})(.{%d})\r\n" % (line, sizes, block, size)
    return re.compile(message + rb"|(.+)", re.DOTALL)
