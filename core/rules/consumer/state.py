"""The stored form of a consumer's state: one compact value, always written as a whole.

Layout: a version byte (plus 128 when the rest is compressed), four 64-bit positions, then columns,
then the pending dead letters, if there were any. A column is a varint count, a width byte (1, 2, 4,
8), and fixed-width little-endian numbers; ascending columns hold differences. So the sequence of a
pending message usually takes one byte, packed and unpacked at C speed. Wall-clock times have units
of 100 ms.
"""

import sys
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import sub
from struct import Struct, error
from typing import cast

from core.units import ConsumerSeq

TIME_UNIT = 100_000_000
_VERSION = 1
_COMPRESSED = 0x80
_COMPRESS_ABOVE = 2048
_POSITIONS = Struct("<QQQQ")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def time_units(time: int, shift: int) -> int:
    """Convert monotonic nanoseconds to units of 100 ms since the Unix epoch (`TIME_UNIT`).

    `shift` is wall clock minus monotonic clock, in nanoseconds. The result is at least 1.
    """
    return max((time + shift) // TIME_UNIT, 1)


class StateError(ValueError):
    """A stored consumer state that cannot be decoded: damaged, or of another version."""


@dataclass(slots=True)
class ConsumerState:
    """The state of a consumer that storage keeps, restored after a restart.

    Times are in units of 100 ms since the Unix epoch (`TIME_UNIT`).

    Attributes:
        delivered_cseq, delivered_sseq: Consumer and stream sequence of the last delivery.
        floor_cseq, floor_sseq: Consumer and stream sequence of the ack floor.
        era: Id of the numbering of dead letters; numbers of another era are not comparable.
    """

    delivered_cseq: ConsumerSeq = ConsumerSeq(0)
    delivered_sseq: int = 0
    floor_cseq: ConsumerSeq = ConsumerSeq(0)
    floor_sseq: int = 0
    pending: dict[int, ConsumerSeq] = field(default_factory=dict)
    """Stream sequence -> consumer sequence of the first delivery, ascending in both."""
    delivery_times: list[tuple[ConsumerSeq, int]] = field(default_factory=list)
    """(consumer sequence, time): time of first deliveries from that sequence on."""
    deadlines: dict[int, int] = field(default_factory=dict)
    """Stream sequence -> ack deadline, for messages with their own (0: in the redelivery queue)."""
    counts: dict[int, int] = field(default_factory=dict)
    """Stream sequence -> number of deliveries, if it is more than one."""
    chosen: Sequence[int] = ()
    """Sequences that deliver policy last_per_subject has still to deliver, ascending.

    If not empty, the last number is the sequence from which all messages are delivered.
    """
    leaving: Sequence[int] = ()
    """Sequences of finished messages that retention has still to remove, ascending."""
    era: str = ""
    ended: int = 0
    """Number of the newest dead letter in this era."""
    dead_letters: Sequence[tuple[int, int, int, bytes]] = ()
    """Dead letters not stored yet, as (sequence, deliveries, reason code, reason text)."""


def encode(state: ConsumerState) -> bytes:
    """Encode a consumer's state as bytes for storage."""
    deadlines = sorted(state.deadlines)
    counted = sorted(state.counts)
    body = b"".join(
        (
            _POSITIONS.pack(
                state.delivered_cseq, state.delivered_sseq, state.floor_cseq, state.floor_sseq
            ),
            _ascending(list(state.pending)),
            _ascending(list(state.pending.values())),
            _ascending([cseq for cseq, _ in state.delivery_times]),
            _ascending([time for _, time in state.delivery_times]),
            _ascending(deadlines),
            _column([state.deadlines[seq] for seq in deadlines]),
            _ascending(counted),
            _column([state.counts[seq] for seq in counted]),
            _ascending(list(state.chosen)),
            _ascending(list(state.leaving)),
            _dead_letters(state) if state.ended else b"",
        )
    )
    if len(body) > _COMPRESS_ABOVE:
        return bytes((_VERSION | _COMPRESSED,)) + zlib.compress(body, 1)
    return bytes((_VERSION,)) + body


def decode(data: bytes) -> ConsumerState:
    """Decode a consumer's state from storage.

    Raises:
        StateError: The value is damaged or of another version.
    """
    try:
        if data[0] & ~_COMPRESSED != _VERSION:
            raise StateError(f"consumer state has version {data[0] & ~_COMPRESSED}")
        body = zlib.decompress(data[1:]) if data[0] & _COMPRESSED else data[1:]
        positions = _POSITIONS.unpack_from(body)
        reader = _Reader(body, _POSITIONS.size)
        state = ConsumerState(*positions)
        state.pending = dict(zip(reader.ascending(), reader.consumer_seqs(), strict=True))
        state.delivery_times = list(zip(reader.consumer_seqs(), reader.ascending(), strict=True))
        state.deadlines = dict(zip(reader.ascending(), reader.column(), strict=True))
        state.counts = dict(zip(reader.ascending(), reader.column(), strict=True))
        state.chosen = reader.ascending()
        state.leaving = reader.ascending()
        if reader.at < len(body):
            state.era, state.ended, state.dead_letters = reader.dead_letters()
        if reader.at != len(body):
            raise StateError("consumer state has trailing bytes")
    except StateError:
        raise
    except (IndexError, ValueError, error, zlib.error) as cause:
        raise StateError(f"consumer state is damaged: {cause}") from cause
    return state


def _dead_letters(state: ConsumerState) -> bytes:
    """Encode the pending dead letters of a consumer that ever had one."""
    columns = list(zip(*state.dead_letters, strict=True)) or [(), (), (), ()]
    sseqs, deliveries, whys, reasons = columns
    era = state.era.encode()
    return b"".join(
        (
            _varint(state.ended),
            _varint(len(era)),
            era,
            _column(list(sseqs)),
            _column(list(deliveries)),
            _column(list(whys)),
            _column(list(map(len, reasons))),
            *reasons,
        )
    )


def _ascending(values: list[int]) -> bytes:
    if not values:
        return b"\0"
    return _column([values[0], *map(sub, values[1:], values)])


def _column(values: list[int]) -> bytes:
    """Encode numbers: count, width in bytes, first number (as varint), the others at that width."""
    if not values:
        return b"\0"
    rest = values[1:]
    most = max(rest, default=0)
    width = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8
    numbers = array(_CODES[width], rest)
    if sys.byteorder == "big":
        numbers.byteswap()
    return _varint(len(values)) + bytes((width,)) + _varint(values[0]) + numbers.tobytes()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Reader:
    """Reads consecutive columns of an encoded state."""

    def __init__(self, body: bytes, at: int) -> None:
        self.body = body
        self.at = at

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.body[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def column(self) -> list[int]:
        count = self.varint()
        if not count:
            return []
        width = self.body[self.at]
        self.at += 1
        if width not in _CODES:
            raise StateError(f"consumer state has a column of width {width}")
        origin = self.varint()
        size = (count - 1) * width
        raw = self.body[self.at : self.at + size]
        if len(raw) != size:
            raise StateError("consumer state is cut short")
        self.at += size
        numbers = array(_CODES[width])
        numbers.frombytes(raw)
        if sys.byteorder == "big":
            numbers.byteswap()
        return [origin, *numbers]

    def text(self, size: int) -> bytes:
        text = self.body[self.at : self.at + size]
        if len(text) != size:
            raise StateError("consumer state is cut short")
        self.at += size
        return text

    def dead_letters(self) -> tuple[str, int, list[tuple[int, int, int, bytes]]]:
        ended = self.varint()
        era = self.text(self.varint()).decode()
        numbers = self.column(), self.column(), self.column()
        reasons = [self.text(size) for size in self.column()]
        return era, ended, list(zip(*numbers, reasons, strict=True))

    def ascending(self) -> list[int]:
        return list(accumulate(self.column()))

    def consumer_seqs(self) -> list[ConsumerSeq]:
        return cast("list[ConsumerSeq]", self.ascending())
