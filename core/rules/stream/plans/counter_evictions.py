"""Evictions by limits of a stream with counters and discard policy `old`, message by message.

Other streams evict at the end of a batch of publishes (`StreamMachine.evict`). A counter must know
earlier which subjects lose their last message, because the counter's total is lost with it. The
order is that of nats-server: first the oldest message of a subject over its limit, then the oldest
messages of the stream.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.rules.stream.machine import StreamMachine


class Evictions:
    """The evictions that a batch of publishes causes in a stream of counters, while it is decided.

    Holds the counts of messages and bytes, which begin with the committed ones. The machine's
    `oldest` must contain at least as many messages as the batch evicts.
    """

    def __init__(self, machine: StreamMachine) -> None:
        self._machine = machine
        self._msgs = machine.msgs
        self._bytes = machine.bytes
        self._stored: deque[tuple[int, bytes, int]] = deque()
        self._known = iter(machine.oldest)
        self._seq = machine.last_seq
        self._gone: set[int] = set()
        self._last_seqs: dict[bytes, int] = {}
        self._rows: dict[bytes, deque[tuple[int, int]]] = {}

    def count(self, subject: bytes, block: bytes, payload: bytes) -> list[bytes]:
        """Count an accepted message; return the subjects whose last message it evicts."""
        size = self._machine.record_size.of(subject, block, len(payload))
        self._seq += 1
        self._msgs += 1
        self._bytes += size
        self._stored.append((self._seq, subject, size))
        self._last_seqs[subject] = self._seq
        if self._machine.limit:
            self._supersede(self._seq, subject, size)
        return list(self._evict())

    def _supersede(self, seq: int, subject: bytes, size: int) -> None:
        rows = self._rows.get(subject)
        if rows is None:
            stored = self._machine.index.of_subject(subject) or ()
            rows = self._rows[subject] = deque(row for row in stored if row[0] not in self._gone)
        rows.append((seq, size))
        if len(rows) > self._machine.limit:
            old, freed = rows.popleft()
            self._gone.add(old)
            self._msgs -= 1
            self._bytes -= freed

    def _evict(self) -> Iterator[bytes]:
        """Evict the oldest messages above a limit; yield subjects that lose their last message."""
        most, most_bytes = self._machine.max_msgs, self._machine.max_bytes
        while 0 < most < self._msgs or 0 < most_bytes < self._bytes:
            row = self._oldest()
            if row is None:
                return
            seq, subject, size = row
            if seq in self._gone:
                continue
            self._gone.add(seq)
            self._msgs -= 1
            self._bytes -= size
            rows = self._rows.get(subject)
            if rows:
                rows.popleft()
            if seq == (self._last_seqs.get(subject) or self._machine.index.last(subject)):
                yield subject

    def _oldest(self) -> tuple[int, bytes, int] | None:
        row = next(self._known, None)
        if row is not None:
            return row[:3]
        return self._stored.popleft() if self._stored else None
