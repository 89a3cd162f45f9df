"""Checksums of messages: computed by PostgreSQL for a backup, and from its rows to verify it.

One checksum covers a span of 1,024 sequences of a stream. It is the XOR of one hash per message, so
it does not depend on their order. The hash covers the CRC-32C of the message (headers and payload)
and the sequence, time, header size and subject.
"""

import hashlib
from binascii import unhexlify
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct

from core.errors import OperatorError
from core.storage.postgres.backup.copy_text import plain
from core.storage.postgres.backup.manifest import SPAN, SPAN_BITS, StreamSums
from core.storage.postgres.pages import checksum
from core.storage.postgres.stream_log import ALL_COLUMNS
from core.storage.postgres.subjects import WHOLE

_HASHED = Struct(">qqqi")
_HASH_BYTES = 8

SPANS = f"""
    select stream, seq >> {SPAN_BITS}, count(*), bit_xor(
             ('x' || encode(substr(sha256(
               int8send(seq) || int8send(ts) || int8send(crc::bigint)
               || int4send(coalesce(octet_length(hdr), -1)) || convert_to({WHOLE}, 'UTF8')
             ), 1, {_HASH_BYTES}), 'hex'))::bit(64)::bigint)
      from jetgate_store.message group by 1, 2 order by 1, 2
"""
"""SQL query of (stream, sequence >> 10, rows, checksum) of each span of the stored messages."""

ROW_COLUMNS = tuple(ALL_COLUMNS.split(", "))
_SEQ_MAX = (1 << 63) - 1
_RANGES_SHOWN, _SEQS_SHOWN = 10, 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A message or file that differs from the checksums of its backup or is missing.

    Attributes:
        stream: Name of the stream for display, as `load.label` returns it; empty for a file.
        seq: Sequence of the message, or of the first of several; 0 if none.
        text: Description of the difference.
    """

    stream: str
    seq: int
    text: str


@dataclass(slots=True)
class Span:
    """The messages read of a span of 1,024 sequences.

    Attributes:
        rows: Number of rows read.
        sum: XOR of their hashes.
        there: One bit per sequence: set if its message was read and is not removed.
        gone: One bit per sequence: set if its message was read and is removed.
    """

    rows: int = 0
    sum: int = 0
    there: int = 0
    gone: int = 0


@dataclass(slots=True)
class Found:
    """The rows that a verification has read of one stream.

    Attributes:
        name: Name of the stream for display.
        rows: Number of rows read.
        removed: Number of these rows whose messages are removed, but not deleted yet.
        spans: The spans of 1,024 sequences that have rows, by sequence >> 10.
    """

    name: str
    rows: int = 0
    removed: int = 0
    spans: dict[int, Span] = field(default_factory=dict)

    def seqs(self, low: int) -> Iterator[int]:
        """Yield the sequences from `low` on with rows of messages that are not removed."""
        for number in sorted(self.spans):
            for seq in _bits(self.spans[number].there, number):
                if seq >= low:
                    yield seq

    def count(self, low: int, high: int = _SEQ_MAX) -> int:
        """Return the number of rows in [low, high] whose messages are not removed."""
        return sum(
            (span.there & _mask(number, low, high)).bit_count()
            for number, span in self.spans.items()
            if low >> SPAN_BITS <= number <= high >> SPAN_BITS
        )

    def absent(self, low: int, high: int) -> Iterator[int]:
        """Yield the sequences in [low, high] of which no row was read, ascending."""
        for number in range(low >> SPAN_BITS, (high >> SPAN_BITS) + 1):
            span = self.spans.get(number, Span())
            yield from _bits(_mask(number, low, high) & ~(span.there | span.gone), number)

    def remove(self, seqs: Iterable[int]) -> None:
        """Record that the messages with these sequences are removed although they have rows."""
        for seq in seqs:
            span, bit = self.spans.get(seq >> SPAN_BITS), 1 << (seq & SPAN - 1)
            if span is not None and span.there & bit:
                span.there ^= bit
                span.gone |= bit
                self.removed += 1


def _bits(there: int, number: int) -> Iterator[int]:
    """Yield the sequences for the bits set in `there`, of the span with this number."""
    while there:
        low = there & -there
        yield (number << SPAN_BITS) + low.bit_length() - 1
        there ^= low


def _mask(number: int, low: int, high: int) -> int:
    """Return the bits of the span with this number for the sequences in [low, high]."""
    start = number << SPAN_BITS
    first, last = max(low - start, 0), min(high - start, SPAN - 1)
    return (1 << last + 1) - (1 << first) if first <= last else 0


class Checker:
    """Compares rows of messages with their checksums, for a restore or a verification.

    Pass all rows to `check_rows`, then call `compare`. `differences` has the result.

    Args:
        streams: Names of the streams for display, by stream number; rows of other streams are
            skipped.
    """

    def __init__(self, streams: dict[int, str]) -> None:
        self.found = {number: Found(name) for number, name in streams.items()}
        self.differences: list[Difference] = []
        self.rows = 0

    def check_rows(self, lines: Sequence[bytes]) -> list[bytes]:
        """Compare rows in COPY text format with the CRC-32C they contain.

        Return the rows of `streams`. A row that differs adds a `Difference`. A row that cannot be
        parsed does so too and is not returned.
        """
        kept = [line for line in lines if self._check(line)]
        self.rows += len(kept)
        return kept

    def _check(self, line: bytes) -> bool:
        seq = 0
        found: Found | None = None
        try:
            seq_text, ts, stream, _, crc_text, subject, hdr, data, long = line.split(b"\t")
            found = self.found.get(int(stream))
            if found is None:
                return False
            seq, crc = int(seq_text), int(crc_text)
            # A bytea is `\\x` and hexadecimal digits; the backslash is escaped.
            headers = None if hdr == b"\\N" else unhexlify(hdr[3:])
            if checksum(headers, unhexlify(data[3:])) != crc:
                self._differs(found.name, seq, f"message {seq} does not match its checksum")
            length = -1 if headers is None else len(headers)
            hashed = _HASHED.pack(seq, int(ts), crc, length) + plain(
                subject if long == b"\\N" else long
            )
            digest = hashlib.sha256(hashed).digest()[:_HASH_BYTES]
        except ValueError:
            where = f"message {seq}" if seq else "a message"
            self._differs(found.name if found else "", seq, f"{where} cannot be read")
            return False
        span = found.spans.setdefault(seq >> SPAN_BITS, Span())
        found.rows += 1
        span.rows += 1
        span.sum ^= int.from_bytes(digest, signed=True)
        span.there |= 1 << (seq & SPAN - 1)
        return True

    def _differs(self, stream: str, seq: int, text: str) -> None:
        self.differences.append(Difference(stream, seq, text))

    def compare(self, wanted: Sequence[StreamSums]) -> None:
        """Compare the number of rows and the checksum of each span with a backup's manifest.

        Each deviation adds a `Difference`.
        """
        for stream in wanted:
            found = self.found[stream.stream]
            for number, rows, total in stream.spans:
                span = found.spans.get(number, Span())
                if (span.rows, span.sum) != (rows, total):
                    self._differs(found.name, *_why(stream, number, span, rows))
            known = {number for number, _, _ in stream.spans}
            for number in sorted(found.spans.keys() - known):
                text = f"{found.spans[number].rows} messages from {number * SPAN} on are too many"
                self._differs(found.name, number * SPAN, text)


def _why(stream: StreamSums, number: int, span: Span, rows: int) -> tuple[int, str]:
    """Return the sequence and the text of the difference of a span that should have `rows` rows."""
    low = max(number * SPAN, stream.first_seq, 1)
    high = min((number + 1) * SPAN - 1, stream.last_seq)
    place = f"of the messages {low} to {high}"
    if span.rows == rows:
        return low, f"one or more {place} have another subject, time or size"
    if span.rows > rows:
        return low, f"{place} there were {rows}, and are {span.rows}"
    text = f"{rows - span.rows} {place} are missing"
    absent = list(_bits(_mask(number, low, high) & ~(span.there | span.gone), number))
    if len(absent) == rows - span.rows:
        return absent[0], f"{text}: {ranges(absent)}"
    return low, text


def ranges(seqs: Iterable[int]) -> str:
    """Return the first ten ranges of ascending sequences as text: `1, 5 to 9, ...`."""
    parts: list[list[int]] = []
    more = ""
    for count, seq in enumerate(seqs):
        is_next = parts and seq == parts[-1][1] + 1
        if count == _SEQS_SHOWN or (not is_next and len(parts) == _RANGES_SHOWN):
            more = ", ..."
            break
        if is_next:
            parts[-1][1] = seq
        else:
            parts.append([seq, seq])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in parts) + more


def require_columns(columns: Sequence[str]) -> None:
    """Check that the columns of a message table are those of this release.

    Raises OperatorError if they are not: another release of jetgate has to restore the backup.
    """
    if tuple(columns) != ROW_COLUMNS:
        raise OperatorError("the messages have the columns of another release: use that release")
