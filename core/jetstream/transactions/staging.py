"""Staged blocks: in which stream they are, and reading the rows of a manifest from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.goinput import text_of
from core.model.stream import StreamConfig
from core.model.transaction_errors import transaction_error
from core.model.transactions import STAGE
from core.protocol.messages import MessageColumns
from core.stream.blocks import rows_of
from core.stream.ledger import Attempt, Place, Stop, blocks_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.jetstream.log.stream_log import StreamLog

SUBJECT = "$JG.STAGE."

CHUNK_ROWS = 4096
CHUNK_BYTES = 4 << 20
"""A chunk takes no further block once it has so many rows or bytes of headers and payloads."""


def stage_of(target: str) -> StreamConfig:
    """Return the configuration of the stream that a stream's blocks are staged in."""
    return StreamConfig(
        name=STAGE + target,
        description=f"Staged transactions of {target}",
        subjects=(f"{SUBJECT}{target}.*",),
    )


class Staged:
    """The staged blocks of one stream.

    Args:
        target: The name of the stream.
        find: Returns the log of a stream by its name (None: there is none).
    """

    def __init__(self, target: str, find: Callable[[str], StreamLog | None]) -> None:
        self._name = STAGE + target
        self._subject = f"{SUBJECT}{target}."
        self._find = find

    def subject(self, attempt: Attempt) -> str:
        """Return the subject that an attempt stages on."""
        return self._subject + attempt.id

    async def read(self, attempt: Attempt, seq: int) -> bytes:
        """Return a block. Raises ApiError when there is none of that attempt, Unavailable."""
        log, subject = self._find(self._name), self.subject(attempt)
        found = await log.get(seq) if log is not None else None
        if found is None or found[2] != subject.encode():
            raise transaction_error("BlockMissing", attempt=attempt.id, seq=seq, subject=subject)
        return found[4]


@dataclass(slots=True)
class Span:
    """Consecutive rows of a chunk that are of one block: where they begin, and how many."""

    place: Place
    seq: int
    rows: int


@dataclass(slots=True)
class Chunk:
    """Consecutive rows of a batch, of `nbytes` in all, from `start` to the place `end` after them.

    No row follows when `is_last` says that the manifest ends here, or with an `error`.
    """

    columns: MessageColumns = field(default_factory=MessageColumns)
    nbytes: int = 0
    spans: list[Span] = field(default_factory=list)
    start: Place = field(default_factory=Place)
    end: Place = field(default_factory=Place)
    is_last: bool = False
    error: ApiError | None = None

    def at(self, row: int) -> tuple[Place, int]:
        """Return the place of a row of the chunk and the sequence of its block.

        The row after the last is where the error of the chunk is, if it has one.
        """
        for span in self.spans:
            if row < span.rows or (row == span.rows and span is self.spans[-1]):
                first = span.place
                return Place(first.attempt, first.block, first.row + row), span.seq
            row -= span.rows
        raise AssertionError("a row of a chunk is in one of its spans")


class ChunkReader:
    """Reads the rows of a manifest in chunks.

    What was read before storage failed is kept: `next` goes on with it.
    """

    def __init__(self, staged: Staged, attempts: Sequence[Attempt], place: Place) -> None:
        self._staged = staged
        self._attempts = attempts
        self._blocks = blocks_from(attempts, place)
        self._wanted = next(self._blocks, None)
        self._skip = place.row
        self._rows: MessageColumns | None = None
        self._whole = True
        self._chunk = Chunk(start=place, end=place)

    async def next(self) -> Chunk:
        """Return the next chunk. Raises Unavailable."""
        while self._wanted is not None and not self._is_full():
            attempt, block, seq = self._wanted
            if self._rows is None:
                try:
                    found = await self._staged.read(self._attempts[attempt], seq)
                except ApiError as error:
                    self._chunk.spans.append(Span(Place(attempt, block, self._skip), seq, 0))
                    self._chunk.error = error
                    self._wanted = None
                    break
                self._rows, self._whole = rows_of(found)
            self._take(self._rows, attempt, block, seq)
        chunk, end = self._chunk, self._chunk.end
        self._chunk = Chunk(start=end, end=end)
        chunk.is_last = self._wanted is None and chunk.error is None
        return chunk

    def _is_full(self) -> bool:
        chunk = self._chunk
        return len(chunk.columns) >= CHUNK_ROWS or chunk.nbytes >= CHUNK_BYTES

    def _take(self, rows: MessageColumns, attempt: int, block: int, seq: int) -> None:
        """Move rows of a block into the chunk; with its last one goes the block."""
        chunk, start = self._chunk, self._skip
        stop = min(start + CHUNK_ROWS - len(chunk.columns), len(rows))
        piece = rows if stop - start == len(rows) else rows.part(start, stop)
        chunk.columns.extend(piece)
        chunk.nbytes += piece.nbytes
        chunk.spans.append(Span(Place(attempt, block, start), seq, max(stop - start, 0)))
        chunk.end = Place(attempt, block, stop)
        self._skip = stop
        if stop < len(rows):
            return
        self._rows = None
        if self._whole:
            chunk.end, self._skip = Place(attempt, block + 1), 0
            self._wanted = next(self._blocks, None)
        else:
            texts = {"attempt": self._attempts[attempt].id, "seq": seq, "row": stop}
            chunk.error = transaction_error("Block", **texts)
            self._wanted = None


def stop_at(
    error: ApiError, attempts: Sequence[Attempt], where: tuple[Place, int], subject: bytes
) -> Stop:
    """Return why a batch stops at a row of a chunk."""
    place, seq = where
    return Stop(
        error.code,
        error.err_code,
        error.description,
        attempts[place.attempt].id,
        seq,
        place.row,
        text_of(subject),
    )
