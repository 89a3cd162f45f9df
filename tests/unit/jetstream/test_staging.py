"""Reading the rows of a manifest in chunks, from any place on."""

# Subject: transactions

import asyncio
from typing import Any, cast

import pytest

from core.errors import Unavailable
from core.jetstream.transactions import staging
from core.jetstream.transactions.staging import ChunkReader, RowChunk, StagedMessages
from core.model.transaction_errors import transaction_error
from core.rules.stream.transactions.ledger import Attempt, RowPosition
from tests.support.transactions import Row, encoded

ONE, TWO = Attempt("one", ((1, 2),), 5, 0), Attempt("two", ((7, 7), (9, 9)), 4, 0)


class Batches:
    """Staged blocks by sequence; what is None cannot be read now, what is not there is missing."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row] | bytes | None] = {
            1: [("a", b"0"), ("a", b"1"), ("a", b"2")],
            2: [("a", b"3"), ("a", b"4")],
            7: [],
            9: [("a", b"5"), ("a", b"6"), ("a", b"7"), ("a", b"8")],
        }

    async def read(self, attempt: Attempt, seq: int) -> bytes:
        if seq not in self.batches:
            texts = {"attempt": attempt.id, "seq": seq, "subject": "s"}
            raise transaction_error("BlockMissing", **texts)
        block = self.batches[seq]
        if block is None:
            raise Unavailable("away")
        return block if isinstance(block, bytes) else b"".join(map(encoded, block))


@pytest.fixture(autouse=True)
def four_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a chunk have four rows."""
    monkeypatch.setattr(staging, "CHUNK_ROWS", 4)


def reader_of(batches: Batches, place: RowPosition | None = None) -> ChunkReader:
    return ChunkReader(cast(StagedMessages, batches), (ONE, TWO), place or RowPosition())


def read_all(reader: ChunkReader) -> list[RowChunk]:
    async def read() -> list[RowChunk]:
        chunks = [await reader.next()]
        while not chunks[-1].is_last and chunks[-1].error is None:
            chunks.append(await reader.next())
        return chunks

    return asyncio.run(read())


def payloads(chunks: list[RowChunk]) -> list[bytes]:
    return [payload for chunk in chunks for payload in chunk.columns.payloads]


def test_chunks_are_cut_anywhere_and_end_where_the_next_begins() -> None:
    chunks = read_all(reader_of(Batches()))

    assert [len(chunk.columns) for chunk in chunks] == [4, 4, 1]
    assert payloads(chunks) == [b"%d" % n for n in range(9)]
    assert [chunk.end for chunk in chunks] == [
        RowPosition(0, 1, 1),
        RowPosition(1, 1, 3),
        RowPosition(1, 2),
    ]
    assert [chunk.is_last for chunk in chunks] == [False, False, True]


@pytest.mark.parametrize("row", range(9))
def test_reading_goes_on_with_the_row_at_any_place(row: int) -> None:
    chunks = read_all(reader_of(Batches()))
    chunk = chunks[row // 4]

    place, seq = chunk.at(row % 4)

    assert seq == [1, 1, 1, 2, 2, 9, 9, 9, 9][row]
    assert payloads(read_all(reader_of(Batches(), place))) == [b"%d" % n for n in range(row, 9)]


def test_blocks_read_before_storage_failed_are_kept() -> None:
    batches = Batches()
    there, batches.batches[2] = batches.batches[2], None
    reader = reader_of(batches)

    with pytest.raises(Unavailable):
        asyncio.run(reader.next())
    batches.batches[2] = there

    assert payloads(read_all(reader)) == [b"%d" % n for n in range(9)]


@pytest.mark.parametrize(
    ("seq", "block", "rows", "at"),
    [
        (2, None, 3, (RowPosition(0, 1, 0), 2)),
        (2, b"PUB a 1\r\n3\r\nPUB", 4, (RowPosition(0, 1, 1), 2)),
        (1, b"", 0, (RowPosition(0, 0, 0), 1)),
    ],
)
def test_an_error_comes_with_the_rows_before_it(
    seq: int, block: bytes | None, rows: int, at: tuple[RowPosition, int]
) -> None:
    batches = Batches()
    if block:
        batches.batches[seq] = block
    else:
        del batches.batches[seq]

    (*_, chunk) = read_all(reader_of(batches))

    assert chunk.error is not None
    assert len(chunk.columns) == rows
    assert chunk.at(rows) == at
    assert not chunk.is_last


@pytest.mark.parametrize("headers", [{}, {"X": "x" * 1000}])
def test_a_chunk_takes_no_block_once_it_is_large(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", 900)
    batches, payload = Batches(), b"" if headers else bytes(1000)
    row: Any = ("a", payload, headers) if headers else ("a", payload)
    batches.batches = {1: [row], 2: [row], 7: [row], 9: [row]}

    chunks = read_all(reader_of(batches))

    assert [len(chunk.columns) for chunk in chunks] == [1, 1, 1, 1]
