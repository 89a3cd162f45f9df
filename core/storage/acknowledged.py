"""What a process has told clients is stored, so that it notices when the database has lost it.

A database goes back when it fails over to an asynchronous standby, or when an older state of it is
restored while nodes run. Each term ends with `remember`; the next one asks `losses` of the rows
that it finds. What a process never led, it cannot miss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who campaigns does not wait for what it takes to lead
    from collections.abc import Container, Iterable, Mapping

    from core.storage.interface import Head, StreamRow

_DELETED_MAX = 1024

Key = tuple[str, str, int]
"""A stream: its account, its name, and when it was created."""


@dataclass(frozen=True, slots=True)
class Known:
    """The sequences of a stream that clients have seen.

    Attributes:
        first: the first one that was there.
        last: the last one that was acknowledged.
        doubtful: the last one on its way, which readers of the database may have seen.
        mirrors: whether another stream gives the sequences.
        consumer_changes: how many changes its consumers had.
    """

    first: int
    last: int
    doubtful: int = 0
    mirrors: bool = False
    consumer_changes: int = 0

    @property
    def upto(self) -> int:
        """The last sequence that must not be given again; 0: each has its message for ever."""
        return 0 if self.mirrors else max(self.last, self.doubtful)


@dataclass(frozen=True, slots=True)
class Loss:
    """What a database has lost.

    Attributes:
        key: of which stream; None: of the stream directory.
        text: for the log.
        sequences: how many.
        stream: its number, where it has to go on behind `upto`.
        upto: the last sequence that must not be given again; 0: there is none.
    """

    key: Key | None
    text: str
    sequences: int = 0
    stream: int = 0
    upto: int = 0


@dataclass(slots=True)
class Acknowledged:
    """What the terms of a process have acknowledged.

    Attributes:
        lost: how many sequences were found to be lost.
    """

    lost: int = 0
    _epoch: int = 0
    _changes: int = 0
    _streams: dict[Key, Known] = field(default_factory=dict)
    _deleted: dict[Key, Known] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def remember(self, epoch: int, changes: int, streams: Mapping[Key, Known]) -> None:
        """Take what a term leaves: the directory's epoch, its changes so far, and its streams."""
        self._epoch, self._changes, self._streams = epoch, changes, dict(streams)
        self._deleted = {key: known for key, known in self._deleted.items() if key not in streams}
        self._told.clear()

    def deleted(self, key: Key, known: Known) -> None:
        """Remember a stream that a client has deleted; the oldest of many are forgotten."""
        self._deleted[key] = known
        if len(self._deleted) > _DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]

    def losses(
        self, directory: Head, rows: Iterable[StreamRow], names: Container[tuple[str, str]]
    ) -> list[Loss]:
        """Return what is not in a database any more, as its directory's head and streams tell.

        A stream that is gone may have been deleted by a node that led meanwhile. It counts as lost
        if the directory itself has gone back. `names`: account and name of all that are there,
        `rows` those that are about to be led.
        """
        found = []
        present = {(row.account, row.name, row.created): row for row in rows}
        changes = self._changes - directory.last_seq
        if changes > 0:
            found.append(Loss(None, f"the database lost {_changes(changes)} of streams"))
        for key, row in present.items():
            found += self._lost_changes(key, row)
            if (known := self._deleted.get(key)) is not None:
                text = f"the database lost the deletion of stream {row.name}: it is there again"
                found.append(Loss(key, text, 0, row.stream, known.upto))
            elif (known := self._streams.get(key)) is not None and row.head.last_seq < known.last:
                found.append(_lost_end(key, row, known))
        if changes > 0 or directory.epoch < self._epoch:
            gone = [(k, known) for k, known in self._streams.items() if k[:2] not in names]
            found += [_lost_stream(key, known) for key, known in gone]
        return found

    def _lost_changes(self, key: Key, row: StreamRow) -> list[Loss]:
        """What consumers of a stream have lost beside the places where they stand."""
        known = self._streams.get(key) or self._deleted.get(key)
        lost = 0 if known is None else known.consumer_changes - row.consumer_changes
        text = f"the database lost {_changes(lost)} of consumers of stream {row.name}"
        return [Loss(key, text)] if lost > 0 else []

    def count(self, loss: Loss) -> bool:
        """Count a loss; False: it was counted since the last `remember`, when loading failed."""
        if loss.text in self._told:
            return False
        self._told.add(loss.text)
        self.lost += loss.sequences
        return True


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"


def _lost_end(key: Key, row: StreamRow, known: Known) -> Loss:
    """A stream that goes on; one that mirrors another is given the same messages again."""
    first = row.head.last_seq + 1
    upto = known.upto
    then = f"it goes on with {upto + 1}" if upto else "the mirror copies them again"
    text = f"the database lost {_range(first, known.last)} of stream {row.name}; {then}"
    return Loss(key, text, known.last - row.head.last_seq, row.stream, upto)


def _lost_stream(key: Key, known: Known) -> Loss:
    sequences = max(known.last - known.first + 1, 0)
    what = f"with {_range(known.first, known.last)}" if sequences else "which was empty"
    return Loss(key, f"the database lost stream {key[1]} {what}", sequences)


def _range(first: int, last: int) -> str:
    return f"sequence {first}" if first == last else f"sequences {first}..{last}"
