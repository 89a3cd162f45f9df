"""Reads consecutive RMSGs and HMSGs into columns: the fast path of the parser of routes.

Only the common form: the verb in upper case, no queue groups, all of one account, the payload
complete and followed by CR LF. At anything else, errors included, it stops and the parser goes on
from there. As in `core.protocol.gather`, one regular expression reads messages of one size.
"""

import re
from functools import lru_cache

from core.protocol.gather import (
    MAX_SIZE_DIGITS,
    PATTERN_SIZE_MAX,
    PATTERNS,
    SAME_SIZE_MIN,
    TOKEN,
    Batch,
)
from core.protocol.words import splitter

_MARKS = (b"+", b"|")
"""What stands where a reply would, before the names of queue groups."""


def gather_routed(data: bytes, pos: int, max_size: int) -> tuple[bytes, Batch, int]:
    """Read messages from `pos` on; return their account, and the position where reading stopped.

    `max_size` is the most that headers and payload of a message may be.
    """
    batch = Batch()
    subjects, replies, payloads = batch.subjects, batch.replies, batch.payloads
    headers, find = batch.headers, data.find
    account = b""
    size_before = block_before = -1
    same_size = 0
    split = splitter(data)
    while (eol := find(b"\n", pos)) >= 0:
        args = split(data[pos:eol])
        start = body = eol + 1
        if data.startswith(b"RMSG ", pos):
            others = len(args) - 4
        elif data.startswith(b"HMSG ", pos) and len(args) > 4 and _is_size(args[-2]):
            others = len(args) - 5
            body += int(args[-2])
        else:
            break
        if not 0 <= others <= 1 or not _is_size(args[-1]):
            break
        reply = args[3] if others else b""
        stop = start + int(args[-1])
        size = stop - body
        if reply in _MARKS or size < 0 or stop - start > max_size:
            break
        if args[1] != account:
            if account:
                break
            account = args[1]
        if data[stop : stop + 2] != b"\r\n":
            break
        subjects.append(args[2])
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
            if block <= PATTERN_SIZE_MAX >= size:
                pos = batch.take_alike(_pattern(account, block, size), data, pos)
            same_size = -SAME_SIZE_MIN
    batch.nbytes = sum(map(len, payloads)) + (sum(map(len, headers)) if batch.has_headers else 0)
    return account, batch, pos


def _is_size(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS


@lru_cache(PATTERNS)
def _pattern(account: bytes, block: int, size: int) -> "re.Pattern[bytes]":
    verb = b"HMSG" if block else b"RMSG"
    line = rb"%b %b %b(?: (?![+|] )%b)?" % (verb, re.escape(account), TOKEN, TOKEN)
    sizes = rb"%d %d" % (block, block + size) if block else rb"%d" % size
    message = rb"%b %b\r\n(.{%d})(.{%d})\r\n" % (line, sizes, block, size)
    return re.compile(message + rb"|(.+)", re.DOTALL)
