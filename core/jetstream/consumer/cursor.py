"""The read position of one consumer in its stream.

Messages in the stream's memory tail are used without copying. Others are read from storage in
segments of 2,000 rows; the next segment is read while the first is delivered. At most one read per
consumer is in progress. A segment may still contain messages that were removed after it was read;
these are recorded in `hidden`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from core.errors import CoreError
from core.model.segment import Segment
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    from core.jetstream.log.stream_log import StreamLog
    from core.runtime.clock import Clock

READ_ROWS = 2000
POINT_ROWS = 500
_HIDDEN_MAX = 100_000


class Cursor:
    """Reads the messages of a stream for one consumer.

    Args:
        log: The log of the stream.
        clock: The clock for `failed_at`.
        wake: Called after each read; the consumer then calls `at` or `pick` again.

    Attributes:
        hidden: Sequences of removed messages that held segments may contain.
        reading: True while a read is in progress, and after a failed read until `retry`.
    """

    def __init__(self, log: StreamLog, clock: Clock, wake: Callable[[], None]) -> None:
        self._log = log
        self._clock = clock
        self._wake = wake
        self._cold: Segment | None = None
        self._cold_from = 0
        self._ahead: tuple[int, Segment] | None = None
        self._asked: set[int] = set()
        self._picked: Segment | None = None
        self._empty = range(0)
        self._version = 0
        self.hidden: set[int] = set()
        self.reading = False
        self.failed_at = 0
        """Time of the last failed read, in monotonic nanoseconds; 0: none since `retry`."""

    def at(self, seq: int) -> tuple[Segment, int] | None:
        """Return the position of the first message at or after `seq`, as (segment, index).

        A segment holds messages as columns. Returns None if storage has to be read first (`reading`
        is True then; `wake` follows), or if no message follows up to the stream's last sequence.
        """
        log = self._log
        while True:
            seq = max(seq, log.machine.first_seq)
            if seq > log.machine.last_seq:
                return None
            place = log.tail.at(seq)
            if place is not None:
                self._drop_cold()
                return place
            if seq in self._empty:
                seq = self._empty.stop
                continue
            cold = self._held(seq)
            if cold is not None:
                self._read_ahead(cold)
                return cold, cold.index(seq)
            self._start(partial(self._read, seq))
            return None

    def pick(self, seqs: Sequence[int]) -> tuple[Segment, int] | None:
        """Return the position of the message with sequence `seqs[0]`, as (segment, index).

        A segment holds messages as columns. If storage has to be read, the other sequences are read
        with it. Returns None if a read is in progress (`reading` is True then; `wake` follows), or
        the message is removed.
        """
        seq = seqs[0]
        place = self._log.tail.at(seq)
        if place is None:
            if seq not in self._asked:
                wanted = sorted(seqs[:POINT_ROWS])
                self._start(partial(self._pick, wanted))
                return None
            if self._picked is None:
                return None
            index = self._picked.index(seq)
            if index == len(self._picked):
                return None
            place = self._picked, index
        segment, index = place
        return place if segment.seqs[index] == seq else None

    def hide(self, removed: Iterable[tuple[int, bytes]]) -> None:
        """Record removed messages that a page read from storage may still contain.

        `removed` are pairs (sequence, subject).
        """
        if self._cold is None and self._picked is None and not self.reading:
            return
        self.hidden.update(seq for seq, _ in removed)
        if len(self.hidden) > _HIDDEN_MAX:
            self.reset()

    def reset(self) -> None:
        """Drop all messages read from storage, and ignore the result of a read in progress."""
        self._drop_cold()
        self._asked, self._picked = set(), None
        self._empty = range(0)
        self._version += 1
        self.hidden.clear()

    def _held(self, seq: int) -> Segment | None:
        """Return the segment read from storage that covers `seq`; None: no such segment."""
        if self._cold is not None and self._cold_from <= seq <= self._cold.last:
            return self._cold
        if self._ahead is not None and self._ahead[0] <= seq <= self._ahead[1].last:
            self._cold_from, self._cold = self._ahead
            self._ahead = None
            return self._cold
        return None

    def _drop_cold(self) -> None:
        if self._cold is None and not self.hidden:
            return
        self._cold = None
        self._ahead = None
        if self._picked is None and not self.reading:
            self.hidden.clear()

    def _read_ahead(self, cold: Segment) -> None:
        if self._ahead is None and not self.reading:
            seq = cold.last + 1
            last = self._log.machine.last_seq
            if seq <= last and seq not in self._empty and self._log.tail.at(seq) is None:
                self._start(partial(self._read, seq))

    def _start(self, read: Callable[[], Awaitable[None]]) -> None:
        if not self.reading:
            self.reading = True
            spawn(self._finish(read), name=f"read of {self._log.name}")

    async def _finish(self, read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
        except CoreError:
            # `reading` stays True until `retry`, so that the rest is not taken for empty.
            self.failed_at = self._clock.monotonic()
        finally:
            self.reading = self.failed_at > 0
        self._wake()

    def retry(self) -> None:
        """Allow reads again after a failed one."""
        self.failed_at, self.reading = 0, False

    async def _read(self, seq: int) -> None:
        version, last = self._version, self._log.machine.last_seq
        segment = await self._log.read(seq, READ_ROWS)
        if version != self._version:
            return
        if segment is None:
            self._empty = range(seq, last + 1)
        elif self._cold is None:
            self._cold_from, self._cold = seq, segment
        else:
            self._ahead = (seq, segment)

    async def _pick(self, seqs: list[int]) -> None:
        log, version = self._log, self._version
        segment = await log.rows.points(seqs)
        found = log.live(segment) if segment is not None else None
        if version == self._version:
            self._asked, self._picked = set(seqs), found
