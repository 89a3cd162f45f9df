"""Messages that stand in a row, read into columns.

Only ordinary ones: PUB and HPUB in upper case on lines of legal length, the payload complete and
closed by CR LF. At anything else, faults included, reading ends, and the parser goes on from there.

Payloads of one size are common. After some of them one expression reads on as far as they go.
"""

import re
from collections.abc import Iterator
from functools import cache

GATHERED = 1 << 30
TRIAL = 64
"""How many messages to read at most, roughly; as a trial, where the batch may be taken apart."""
_ALIKE = 8  # messages of one size after which more of them are expected
_LARGEST = 4096  # size up to which an expression is worth it; it bounds how many there can be
_LINE = 4096
_MAX_SIZE_DIGITS = 9

_TOKEN = rb"([!-\xff]{1,2000})"  # neither blanks nor control characters; two make a legal line


class Batch:
    """Messages in columns: an empty reply or header block is none; `nbytes` counts both parts."""

    __slots__ = ("has_headers", "headers", "nbytes", "payloads", "replies", "subjects")

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.has_headers = False
        self.nbytes = 0

    def messages(self) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """Return (subject, reply, headers, payload) of each."""
        return zip(self.subjects, self.replies, self.headers, self.payloads, strict=True)


def gather(
    data: bytes, pos: int, limits: tuple[int, int, int], *, with_headers: bool
) -> tuple[Batch, int]:
    """Read messages from `pos` on; return them and where something else begins.

    `limits` are the largest payload, the longest line, and how many messages to read, roughly.
    """
    max_payload, max_line, most = limits
    batch = Batch()
    subjects, replies, payloads = batch.subjects, batch.replies, batch.payloads
    headers, find = batch.headers, data.find
    before, alike = -1, 0
    odd = b"\x0b" in data or b"\x0c" in data  # split() parts at these two, the protocol does not
    while (eol := find(b"\n", pos)) >= 0 and len(payloads) < most:
        args = data[pos:eol].split()
        count = len(args)
        digits = args[-1] if count > 2 else b""
        if not digits.isdigit() or len(digits) > _MAX_SIZE_DIGITS or eol - pos > max_line:
            break
        if odd and _is_odd(data[pos:eol]):
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
        if body > start:
            batch.has_headers = True
        elif size != before:
            before, alike = size, 0
        elif (alike := alike + 1) >= _ALIKE:
            pos = _read_on(batch, data, pos, size, max_line)
            alike = -_ALIKE
    batch.nbytes = sum(map(len, payloads)) + (sum(map(len, headers)) if batch.has_headers else 0)
    return batch, pos


def _is_size(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= _MAX_SIZE_DIGITS


def _is_odd(line: bytes) -> bool:
    return b"\x0b" in line or b"\x0c" in line


@cache
def _expression(size: int) -> "re.Pattern[bytes]":
    message = rb"PUB %b(?: %b)? %d\r\n(.{%d})\r\n" % (_TOKEN, _TOKEN, size, size)
    return re.compile(message + rb"|(.+)", re.DOTALL)


def _read_on(batch: Batch, data: bytes, pos: int, size: int, max_line: int) -> int:
    """Take the messages without headers from `pos` on whose payloads have `size` bytes."""
    if size > _LARGEST or max_line < _LINE:
        return pos
    found = _expression(size).findall(data, pos)
    end = len(data)
    if found and found[-1][3]:
        end -= len(found.pop()[3])
    if found:
        subjects, replies, payloads, _ = zip(*found, strict=True)
        batch.subjects += subjects
        batch.replies += replies
        batch.headers += [b""] * len(found)
        batch.payloads += payloads
    return end
