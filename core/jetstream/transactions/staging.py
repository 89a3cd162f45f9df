"""The staging stream of a target stream, and reading the rows of a batch from its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.goinput import text_of
from core.model.stream import StreamConfig
from core.model.transaction_errors import transaction_error
from core.model.transactions import STAGE
from core.protocol.messages import MessageColumns
from core.rules.stream.transactions.ledger import (
    Attempt,
    BatchError,
    RowPosition,
    staged_messages_from,
)
from core.rules.stream.transactions.staged_rows import decode_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.jetstream.log.stream_log import StreamLog

SUBJECT = "$JG.STAGE."

CHUNK_ROWS = 4096
CHUNK_BYTES = 4 << 20
"""A chunk is full with `CHUNK_ROWS` rows, or `CHUNK_BYTES` bytes of headers and payloads."""


def staging_stream(target: str) -> StreamConfig:
    """Return the configuration of the stream that holds staged messages for stream `target`."""
    return StreamConfig(
        name=STAGE + target,
        description=f"Staged transactions of {target}",
        subjects=(f"{SUBJECT}{target}.*",),
    )


class StagedMessages:
    """Reads the messages in which applications stage rows for one target stream.

    A COMMIT request later stores the rows in the target.

    Args:
        target: The name of the stream into which batches are committed.
        find: Returns the log of a stream by its name (None: this node does not lead it).
    """

    def __init__(self, target: str, find: Callable[[str], StreamLog | None]) -> None:
        self._name = STAGE + target
        self._subject = f"{SUBJECT}{target}."
        self._find = find

    def subject(self, attempt: Attempt) -> str:
        """Return the subject under which the messages of an attempt are staged.

        An attempt is one try of a task to write its part of a batch.
        """
        return self._subject + attempt.id

    async def read(self, attempt: Attempt, seq: int) -> bytes:
        """Return the payload of an attempt's staged message with sequence `seq`.

        Raises ApiError BlockMissing if the attempt has no such message, Unavailable if PostgreSQL
        does not answer.
        """
        log, subject = self._find(self._name), self.subject(attempt)
        found = await log.get(seq) if log is not None else None
        if found is None or found[2] != subject.encode():
            raise transaction_error("BlockMissing", attempt=attempt.id, seq=seq, subject=subject)
        return found[4]


@dataclass(slots=True)
class RowSpan:
    """Consecutive rows of a transaction that are in the same staged message.

    Attributes:
        place: Position of the first row in the batch.
        seq: The sequence of the message in the staging stream.
        rows: The number of rows.
    """

    place: RowPosition
    seq: int
    rows: int


@dataclass(slots=True)
class RowChunk:
    """Consecutive rows of a batch, stored in one transaction.

    Attributes:
        columns: The rows.
        nbytes: Bytes of the rows' headers and payloads.
        spans: The rows by staged message.
        start: Position of the first row in the batch.
        end: Position after the last row.
        is_last: True if the batch ends with this chunk.
        error: Error that prevents reading the row after this chunk (None: no error).
    """

    columns: MessageColumns = field(default_factory=MessageColumns)
    nbytes: int = 0
    spans: list[RowSpan] = field(default_factory=list)
    start: RowPosition = field(default_factory=RowPosition)
    end: RowPosition = field(default_factory=RowPosition)
    is_last: bool = False
    error: ApiError | None = None

    def at(self, row: int) -> tuple[RowPosition, int]:
        """Return (position in the batch, sequence of its staged message) of a row of the chunk.

        `row` is an index. The index after the last row is the position of the chunk's error, if it
        has one.
        """
        for span in self.spans:
            if row < span.rows or (row == span.rows and span is self.spans[-1]):
                first = span.place
                return RowPosition(first.attempt, first.message, first.row + row), span.seq
            row -= span.rows
        raise AssertionError("a row of a chunk is in one of its spans")


class ChunkReader:
    """Reads the rows of an application's batch from its staged messages, in chunks.

    A chunk is stored in one transaction. If `next` fails because PostgreSQL does not answer, the
    next call continues at the same row.

    Args:
        staged: Reads the staged messages.
        attempts: The manifest of the batch.
        place: Position of the first row to read.
    """

    def __init__(
        self, staged: StagedMessages, attempts: Sequence[Attempt], place: RowPosition
    ) -> None:
        self._staged = staged
        self._attempts = attempts
        self._messages = staged_messages_from(attempts, place)
        self._wanted = next(self._messages, None)
        self._skip = place.row
        self._rows: MessageColumns | None = None
        self._whole = True
        self._chunk = RowChunk(start=place, end=place)

    async def next(self) -> RowChunk:
        """Return the next chunk of rows. If a message is missing, the chunk has an `error`.

        Raises Unavailable if PostgreSQL does not answer.
        """
        while self._wanted is not None and not self._is_full():
            attempt, message, seq = self._wanted
            if self._rows is None:
                try:
                    found = await self._staged.read(self._attempts[attempt], seq)
                except ApiError as error:
                    self._chunk.spans.append(
                        RowSpan(RowPosition(attempt, message, self._skip), seq, 0)
                    )
                    self._chunk.error = error
                    self._wanted = None
                    break
                self._rows, self._whole = decode_rows(found)
            self._add_rows(self._rows, attempt, message, seq)
        chunk, end = self._chunk, self._chunk.end
        self._chunk = RowChunk(start=end, end=end)
        chunk.is_last = self._wanted is None and chunk.error is None
        return chunk

    def _is_full(self) -> bool:
        chunk = self._chunk
        return len(chunk.columns) >= CHUNK_ROWS or chunk.nbytes >= CHUNK_BYTES

    def _add_rows(self, rows: MessageColumns, attempt: int, message: int, seq: int) -> None:
        """Move rows of a staged message into the chunk, as many as fit."""
        chunk, start = self._chunk, self._skip
        stop = min(start + CHUNK_ROWS - len(chunk.columns), len(rows))
        piece = rows if stop - start == len(rows) else rows.part(start, stop)
        chunk.columns.extend(piece)
        chunk.nbytes += piece.nbytes
        chunk.spans.append(RowSpan(RowPosition(attempt, message, start), seq, max(stop - start, 0)))
        chunk.end = RowPosition(attempt, message, stop)
        self._skip = stop
        if stop < len(rows):
            return
        self._rows = None
        if self._whole:
            chunk.end, self._skip = RowPosition(attempt, message + 1), 0
            self._wanted = next(self._messages, None)
        else:
            texts = {"attempt": self._attempts[attempt].id, "seq": seq, "row": stop}
            chunk.error = transaction_error("Block", **texts)
            self._wanted = None


def stop_at(
    error: ApiError, attempts: Sequence[Attempt], where: tuple[RowPosition, int], subject: bytes
) -> BatchError:
    """Return the error with which a batch stops, with the row that caused it.

    `where` is (position in the batch, sequence of the staged message), `subject` that of the row.
    """
    place, seq = where
    return BatchError(
        error.code,
        error.err_code,
        error.description,
        attempts[place.attempt].id,
        seq,
        place.row,
        text_of(subject),
    )
