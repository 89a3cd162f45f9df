"""The fast path of the server's parsers: consecutive messages of one read become lists of columns.

Columns are one list each of subjects, replies, headers and payloads (`core.protocol.messages`).
Clients send PUB and HPUB, servers of a cluster RMSG and HMSG, the server of a leaf node LMSG and
HMSG; a `Form` describes each. Only the common form of a line is parsed: the verb in upper case
(between servers at the beginning of the line), legal length, no queue groups, the payload complete
and followed by CR LF. Parsing stops at any other input, errors included, and the general parser
continues at that position.

Messages of one size are common. After some of them, one regular expression parses all that follow.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from core.protocol.messages import MessageColumns
from core.protocol.words import splitter

GATHER_ALL = 1 << 30
"""Limit of messages per batch (approximately) for a receiver that takes batches as a whole."""
GATHER_SAMPLE = 64
"""Limit of messages per batch for a receiver of which it is not known whether it takes batches."""
WORTH_GATHERING = 1024
"""Smallest read, in bytes, for which parsing into columns is faster than single messages."""
MAX_SIZE_DIGITS = 9
SAME_SIZE_MIN = 8
"""Number of consecutive messages of one size after which a regular expression parses the next
ones.
"""
PATTERN_SIZE_MAX = 4096
"""Largest header block and largest payload for which a regular expression is used, in bytes."""
PATTERNS = 1024
"""Number of cached regular expressions."""
_PATTERN_LINE = 4096  # longest line that an expression matches
_FIRST = 33  # the lowest byte that is no blank and no control character

TOKEN = rb"([!-\xff]{1,2000})"
"""Pattern of a word of a line: no blanks and no control characters, at most 2,000 bytes."""


@dataclass(frozen=True, slots=True)
class Form:
    """Describes the lines by which one kind of peer sends messages.

    The peer is a client, a server of the cluster, or the server of a leaf node.

    Attributes:
        plain: The verb of a message without headers.
        headed: The verb of a message with headers.
        subject: Index of the subject among the words of the line. If it is 2, an account precedes
        it.
        marks: Words in place of the reply which announce that names of queue groups follow.
    """

    plain: bytes
    headed: bytes
    subject: int = 1
    marks: frozenset[bytes] = frozenset()

    @property
    def beginnings(self) -> tuple[bytes, bytes]:
        """The beginnings of message lines: each of the two verbs with a blank."""
        return self.plain + b" ", self.headed + b" "


CLIENT = Form(b"PUB", b"HPUB")
ROUTE = Form(b"RMSG", b"HMSG", 2, frozenset((b"+", b"|")))
LEAF = Form(b"LMSG", b"HMSG", 1, frozenset((b"+", b"|")))


def gather(
    data: bytes, pos: int, form: Form, limits: tuple[int, int, int], *, with_headers: bool = True
) -> tuple[MessageColumns, bytes, int]:
    """Parse consecutive messages of one read into lists of subjects, replies, headers and payloads.

    Args:
        data: The bytes of one read of a socket.
        pos: The position of the first message.
        form: The form of the messages.
        limits: Three limits: headers and payload in bytes, a line in bytes, and the number of
            messages (approximately).
        with_headers: False if messages with headers are not allowed.

    Returns:
        The messages, their common account (b"" if lines contain none), and the position where
            parsing stopped.
    """
    max_size, max_line, most = limits
    at, marks, plain, headed = form.subject, form.marks, form.plain, form.headed
    fewest = at + 2
    batch, account = MessageColumns(), b""
    subjects, replies, payloads = batch.subjects, batch.replies, batch.payloads
    headers, find, split = batch.headers, data.find, splitter(data)
    size_before = block_before = -1
    same_size = 0
    while (eol := find(b"\n", pos)) >= 0 and len(payloads) < most:
        args = split(data[pos:eol])
        count = len(args)
        digits = args[-1] if count >= fewest else b""
        if not digits.isdigit() or len(digits) > MAX_SIZE_DIGITS or eol - pos > max_line:
            break
        start = body = eol + 1
        stop = start + int(digits)
        verb, others = args[0], count - fewest
        if verb != plain:
            others -= 1
            if verb != headed or not with_headers or not _is_size(args[-2]):
                break
            body += int(args[-2])
        if not 0 <= others <= 1:
            break
        reply = args[at + 1] if others else b""
        size = stop - body
        if size < 0 or stop - start > max_size or data[stop : stop + 2] != b"\r\n":
            break
        if marks:
            if reply in marks or data[pos] < _FIRST or (account and args[1] != account):
                break
            if at > 1:
                account = args[1]
        subjects.append(args[at])
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
                pos = batch.add_alike(_pattern(form, account, block, size), data, pos)
            same_size = -SAME_SIZE_MIN
    batch.count_bytes()
    return batch, account, pos


def _is_size(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS


@lru_cache(PATTERNS)
def _pattern(form: Form, account: bytes, block: int, size: int) -> "re.Pattern[bytes]":
    verb = form.headed if block else form.plain
    place = b" " + re.escape(account) if account else b""
    not_marked = rb"(?![+|] )" if form.marks else b""
    line = rb"%b%b %b(?: %b%b)?" % (verb, place, TOKEN, not_marked, TOKEN)
    sizes = rb"%d %d" % (block, block + size) if block else rb"%d" % size
    message = rb"%b %b\r\n(.{%d})(.{%d})\r\n" % (line, sizes, block, size)
    return re.compile(message + rb"|(.+)", re.DOTALL)
