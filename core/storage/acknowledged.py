"""The sequences this process has acknowledged, to detect a database that lost some of them.

A database loses commits when it fails over to an asynchronous standby, or when an older backup is
restored while nodes run. While a node has a connection to PostgreSQL it keeps its streams in memory
(`core.node.runtime.JetStreamRuntime`). At the end of such a runtime, `Acknowledged.remember`
records the last sequences. The next runtime passes the rows it loads from PostgreSQL to
`Acknowledged.losses`. A process cannot detect losses of streams it never led.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.units import Epoch

if TYPE_CHECKING:  # a campaigning node does not wait for the imports of a leader
    from collections.abc import Container, Iterable, Mapping

    from core.storage.interface import Head, StreamRow

_DELETED_MAX = 1024

Key = tuple[str, str, int]
"""Identity of a stream: account, name, time of creation (nanoseconds since the Unix epoch)."""


@dataclass(frozen=True, slots=True)
class AcknowledgedStream:
    """The state of a stream that this process has confirmed to clients.

    Attributes:
        first: First sequence of the stream.
        last: Last sequence acknowledged to a publisher.
        doubtful: Last sequence of a commit with unknown outcome, which readers of the database may
            have seen; 0 if there is none.
        mirrors: True if the stream is a mirror: its origin assigns the sequences.
        consumer_changes: How often consumers of the stream were created, changed or deleted.
    """

    first: int
    last: int
    doubtful: int = 0
    mirrors: bool = False
    consumer_changes: int = 0

    @property
    def through(self) -> int:
        """The last sequence that must not be assigned to another message.

        0 for a mirror, since its sequences are assigned by its origin.
        """
        return 0 if self.mirrors else max(self.last, self.doubtful)


@dataclass(frozen=True, slots=True)
class LostData:
    """A loss of data that was found in the database.

    Attributes:
        key: The stream; None if changes of the stream directory (the list of all streams) are lost.
        text: Text for the log.
        sequences: Number of lost sequences.
        stream: Number of the stream if its next sequence must be `through` + 1; else 0.
        through: Last sequence that must not be assigned again; 0 if there is none.
    """

    key: Key | None
    text: str
    sequences: int = 0
    stream: int = 0
    through: int = 0


@dataclass(slots=True)
class Acknowledged:
    """The data that this process has confirmed to clients.

    Finds a database that has lost some of it. One object for the life of a process.

    Attributes:
        lost: Number of lost sequences found so far.
    """

    lost: int = 0
    _epoch: Epoch = Epoch(0)
    _changes: int = 0
    _streams: dict[Key, AcknowledgedStream] = field(default_factory=dict)
    _deleted: dict[Key, AcknowledgedStream] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def remember(
        self, epoch: Epoch, changes: int, streams: Mapping[Key, AcknowledgedStream]
    ) -> None:
        """Record the acknowledged state when the connection to the database has ended.

        Args:
            epoch: Epoch of the stream directory's head row.
            changes: Version of the stream directory: the number of changes ever made.
            streams: The streams this node led.
        """
        self._epoch, self._changes, self._streams = epoch, changes, dict(streams)
        self._deleted = {key: known for key, known in self._deleted.items() if key not in streams}
        self._told.clear()

    def deleted(self, key: Key, known: AcknowledgedStream) -> None:
        """Remember a stream that a client has deleted; beyond 1,024 of them, forget the oldest."""
        self._deleted[key] = known
        if len(self._deleted) > _DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]

    def losses(
        self, directory: Head, rows: Iterable[StreamRow], names: Container[tuple[str, str]]
    ) -> list[LostData]:
        """Compare the loaded rows with the state that `remember` has recorded; return the losses.

        A stream without a row may have been deleted by another node. It counts as lost only if the
        directory itself has a lower version or epoch than recorded.

        Args:
            directory: The head row of the stream directory.
            rows: The streams of which this node becomes the leader.
            names: (account, name) of every stream in the database.
        """
        found = []
        present = {(row.account, row.name, row.created): row for row in rows}
        changes = self._changes - directory.last_seq
        if changes > 0:
            found.append(LostData(None, f"the database lost {_changes(changes)} of streams"))
        for key, row in present.items():
            found += self._lost_changes(key, row)
            if (known := self._deleted.get(key)) is not None:
                text = f"the database lost the deletion of stream {row.name}: it is there again"
                found.append(LostData(key, text, 0, row.stream, known.through))
            elif (known := self._streams.get(key)) is not None and row.head.last_seq < known.last:
                found.append(_lost_end(key, row, known))
        if changes > 0 or directory.epoch < self._epoch:
            gone = [(k, known) for k, known in self._streams.items() if k[:2] not in names]
            found += [_lost_stream(key, known) for key, known in gone]
        return found

    def _lost_changes(self, key: Key, row: StreamRow) -> list[LostData]:
        """Return a loss if the stream's row counts fewer changes of consumers than recorded.

        The positions of consumers are not compared.
        """
        known = self._streams.get(key) or self._deleted.get(key)
        lost = 0 if known is None else known.consumer_changes - row.consumer_changes
        text = f"the database lost {_changes(lost)} of consumers of stream {row.name}"
        return [LostData(key, text)] if lost > 0 else []

    def count(self, loss: LostData) -> bool:
        """Add a loss to `lost`.

        Return False if the same loss was counted since the last `remember`.

        A failed load of the streams is retried and finds the same losses again.
        """
        if loss.text in self._told:
            return False
        self._told.add(loss.text)
        self.lost += loss.sequences
        return True


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"


def _lost_end(key: Key, row: StreamRow, known: AcknowledgedStream) -> LostData:
    """Return the loss of the last messages of a stream that still exists.

    A mirror gets the lost messages from its origin again.
    """
    first = row.head.last_seq + 1
    through = known.through
    then = f"it goes on with {through + 1}" if through else "the mirror copies them again"
    text = f"the database lost {_range(first, known.last)} of stream {row.name}; {then}"
    return LostData(key, text, known.last - row.head.last_seq, row.stream, through)


def _lost_stream(key: Key, known: AcknowledgedStream) -> LostData:
    sequences = max(known.last - known.first + 1, 0)
    what = f"with {_range(known.first, known.last)}" if sequences else "which was empty"
    return LostData(key, f"the database lost stream {key[1]} {what}", sequences)


def _range(first: int, last: int) -> str:
    return f"sequence {first}" if first == last else f"sequences {first}..{last}"
