"""Conversion of JetStream's replies and deliveries to Arrow columns (no I/O).

The columns are, in this order: sequence, subject, time in nanoseconds since the epoch, the stored
header block or null, payload or null, size of the payload in bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.nats.errors import ProtocolError
from pyspark_jetstream.nats.headers import first_value
from pyspark_jetstream.subjects import text_of

_ADDED = b"\r\nNats-Stream: "
_NAMES = (b"Nats-Stream: ", b"Nats-Subject: ", b"Nats-Sequence: ", b"Nats-Time-Stamp: ")
_SIZE = b"\r\nNats-Msg-Size:"
_NO_HEADERS = b"NATS/1.0\r\n\r\n"
_EMPTY = 8
"""Length of `NATS/1.0` in bytes: if the message has no headers, the added headers follow it."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Messages of a stream as Arrow columns, not yet converted to the schema of a query.

    Attributes:
        arrays: The columns sequence, subject, time (nanoseconds since the epoch), header block or
            null, payload or null, payload size (bytes); rows have ascending sequences.
        streams: Names of the streams that answered, the stream itself or mirrors; empty if unknown.
    """

    arrays: list[pa.Array]
    streams: frozenset[bytes]

    @property
    def last(self) -> int:
        """The highest sequence of the messages."""
        return int(self.arrays[0][-1].as_py())

    def __len__(self) -> int:
        return len(self.arrays[0])


def from_direct(
    headers: Sequence[bytes], payloads: Sequence[bytes], *, with_headers: bool, with_data: bool
) -> Raw:
    """Convert replies of Direct Get; the server's headers follow the headers of the message.

    Args:
        headers, payloads: The header block and payload of each reply.
        with_headers, with_data: False leaves the column of header blocks or payloads null.

    Raises:
        ProtocolError: A reply lacks the headers that Direct Get adds.
    """
    cuts = [block.rfind(_ADDED) for block in headers]
    if -1 in cuts:
        raise ProtocolError("a reply of Direct Get without Nats-Stream")
    added = [block[cut + 2 : -4] for block, cut in zip(headers, cuts, strict=True)]
    columns = _columns(added)
    own = (
        [
            None if cut <= _EMPTY else block[: cut + 2] + b"\r\n"
            for block, cut in zip(headers, cuts, strict=True)
        ]
        if with_headers
        else [None] * len(headers)
    )
    return Raw(
        [
            pa.array(columns[2], pa.binary()).cast(pa.string()).cast(pa.int64()),
            _texts(columns[1]),
            _nanoseconds(columns[3]),
            pa.array(own, pa.binary()),
            pa.array(payloads if with_data else [None] * len(payloads), pa.binary()),
            pa.array(list(map(len, payloads)), pa.int64()),
        ],
        frozenset(columns[0]),
    )


def _columns(added: list[bytes]) -> list[list[bytes]]:
    """Return the values of the four headers that Direct Get adds: stream, subject, sequence, time.

    The result has one list for each header, with one value for each message. Raises ProtocolError
    if a message lacks one of them.
    """
    count = added[0].count(b"\r\n") + 1
    lines = b"\r\n".join(added).split(b"\r\n")
    if count < len(_NAMES) or len(lines) != count * len(added):
        return _one_by_one(added)
    columns = []
    for place, name in enumerate(_NAMES):
        column = lines[place::count]
        skip = len(name)
        if any(line[:skip] != name for line in column):
            return _one_by_one(added)
        columns.append([line[skip:] for line in column])
    return columns


def _one_by_one(added: list[bytes]) -> list[list[bytes]]:
    """Return the result of `_columns` by parsing each message alone.

    It is needed if the messages differ in the number or order of the headers that Direct Get adds.
    """
    columns: list[list[bytes]] = [[] for _ in _NAMES]
    for text in added:
        for column, name in zip(columns, _NAMES, strict=True):
            value = first_value(b"\r\n" + text + b"\r\n", name[:-2])
            if value is None:
                raise ProtocolError(f"a reply of Direct Get without {name[:-2].decode()}")
            column.append(value)
    return columns


def _texts(subjects: Sequence[bytes]) -> pa.Array:
    """Convert subjects to text, as jetgate's SQL views do.

    A byte that is not UTF-8, or NUL, becomes a blank and two hexadecimal digits.
    """
    array = pa.array(subjects, pa.binary())
    if b"\0" not in b"\n".join(subjects):
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    return pa.array([text_of(subject) for subject in subjects], pa.string())


def _nanoseconds(times: list[bytes]) -> pa.Array:
    """Convert RFC 3339 times to nanoseconds since the epoch."""
    texts = pa.array(times, pa.binary()).cast(pa.string())
    return texts.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())


def nanoseconds(time: str) -> int:
    """Convert an RFC 3339 time to nanoseconds since the epoch; Go's zero time (year 1) to 0."""
    if time.startswith("0001-"):
        return 0
    return int(pa.scalar(time).cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).as_py())


def from_deliveries(
    subjects: Sequence[bytes],
    replies: Sequence[bytes],
    headers: Sequence[bytes],
    payloads: Sequence[bytes],
    *,
    with_headers: bool,
    with_data: bool,
) -> Raw:
    """Convert deliveries of a consumer; sequence and time are read from their ack subjects.

    Without `with_data` the consumer has `headers_only`: the size is the value of `Nats-Msg-Size`,
    and this header is removed.

    Args:
        subjects, replies, headers, payloads: The parts of each delivery.
        with_headers: False leaves the column of header blocks null.
        with_data: False leaves the column of payloads null.

    Raises:
        ProtocolError: A delivery has no reply subject of the form `$JS.ACK...`.
    """
    tokens = [reply.split(b".") for reply in replies]
    if any(len(words) < 9 for words in tokens):
        raise ProtocolError("a delivery without a subject for its acknowledgement")
    # Nine tokens, or eleven and more with domain and account before the stream.
    sequences = [words[5] if len(words) == 9 else words[7] for words in tokens]
    times = [words[7] if len(words) == 9 else words[9] for words in tokens]
    if with_data:
        sizes = list(map(len, payloads))
    else:
        cut = [_without_size(block) for block in headers]
        headers, sizes = [block for block, _ in cut], [size for _, size in cut]
    return Raw(
        [
            pa.array(sequences, pa.binary()).cast(pa.string()).cast(pa.int64()),
            _texts(subjects),
            pa.array(times, pa.binary()).cast(pa.string()).cast(pa.int64()),
            pa.array(
                [block or None for block in headers] if with_headers else [None] * len(headers),
                pa.binary(),
            ),
            pa.array(payloads if with_data else [None] * len(payloads), pa.binary()),
            pa.array(sizes, pa.int64()),
        ],
        frozenset(),
    )


def _without_size(block: bytes) -> tuple[bytes, int]:
    """Remove the `Nats-Msg-Size` that the server added; return the block and the size in bytes.

    The added header is the last; the block becomes empty if it was the only one.
    """
    at = block.rfind(_SIZE)
    if at < 0:
        raise ProtocolError("a delivery of headers without Nats-Msg-Size")
    end = block.index(b"\r\n", at + 2)
    rest = block[: at + 2] + block[end + 2 :]
    return (b"" if rest == _NO_HEADERS else rest), int(block[at + len(_SIZE) : end])


def rows_through(raw: Raw, last: int, wanted: Sequence[int] | None = None) -> Raw:
    """Return the messages up to and including sequence `last`.

    Args:
        raw: The messages.
        last: The highest sequence to keep.
        wanted: Sequences to keep; None for all.
    """
    sequences = raw.arrays[0]
    mask = pc.less_equal(sequences, last)
    if wanted is not None:
        mask = pc.and_(mask, pc.is_in(sequences, pa.array(wanted, pa.int64())))
    return Raw([array.filter(mask) for array in raw.arrays], raw.streams)
