"""Pages: columns in, segments out, damage found, and what is too much for one answer."""

# Subject: storage

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from crc32c import crc32c

from core.errors import Unavailable
from core.storage.postgres.pages import checksum, segment_of
from core.storage.postgres.reads import PostgresReader

ROWS = [
    (3, 10**18, b"a.b", None, b"x"),
    (4, 10**18 + 1, b"\xc3\xbc", b"NATS/1.0\r\nA: 1\r\n\r\n", b""),
    (9, 10**18 + 5, b"a.b", None, b""),
    (2**40, 2**62, b"c", b"NATS/1.0\r\n\r\n", b"\x00\xff" * 100),
]
Message = tuple[int, int, bytes, bytes | None, bytes]


def page(rows: Sequence[Message]) -> list[Any]:
    """What PostgreSQL answers."""
    if not rows:
        return [0, *[None] * 8]
    seqs, times, subjects, headers, payloads = zip(*rows, strict=True)
    present = [block for block in headers if block is not None]
    return [
        len(rows),
        b"".join(seq.to_bytes(8, "big") for seq in seqs),
        b"".join(ts.to_bytes(8, "big") for ts in times),
        b"".join(checksum(h, p).to_bytes(4, "big") for h, p in zip(headers, payloads, strict=True)),
        b"\n".join(subjects).decode(),
        b"".join(len(p).to_bytes(4, "big") for p in payloads),
        b"".join(payloads),
        b"".join((-1 if h is None else len(h)).to_bytes(4, "big", signed=True) for h in headers),
        b"".join(present) if present else None,
    ]


def rows_of(reader_page: Sequence[Any]) -> list[Message]:
    segment = segment_of(reader_page)
    assert segment is not None
    headers = segment.headers or [None] * len(segment)
    columns = (segment.seqs, segment.times, segment.subjects, headers, segment.payloads)
    assert segment.nbytes == sum(len(s) + len(p) for s, p in zip(*columns[2::2], strict=True))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[::2], ROWS[1::2]])
def test_a_page_is_what_was_stored(rows: list[Message]) -> None:
    assert rows_of(page(rows)) == rows


def test_an_empty_page_is_no_segment() -> None:
    assert segment_of(page([])) is None


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1]])
def test_damage_is_named_by_its_sequence(rows: list[Message]) -> None:
    damaged = page(rows)
    damaged[3] = crc32c(b"another").to_bytes(4, "big") + damaged[3][4:]

    with pytest.raises(Unavailable, match="at sequence 3 "):
        segment_of(damaged)


class SmallPool:
    """Answers with at most two messages, like a PostgreSQL whose values have no room for more."""

    async def fetch(self, statement: str, stream: int, at: Any, limit: int = 0) -> list[Any]:
        if limit:
            found = [row for row in ROWS if row[0] >= at][:limit]
        else:
            found = [row for row in ROWS if row[0] in at]
        if len(found) > 2:
            raise asyncpg.ProgramLimitExceededError("out of memory")
        return [page(found)]


def test_messages_that_do_not_fit_one_answer_come_in_several() -> None:
    async def scenario() -> None:
        reader = PostgresReader(SmallPool())
        some = await reader.range(1, 0, 4, 2000)
        all_of_it = await reader.points(1, 0, [row[0] for row in ROWS])
        assert some is not None
        assert some.seqs[0] == 4
        assert all_of_it is not None
        assert list(all_of_it.seqs) == [row[0] for row in ROWS]
        assert all_of_it.headers == [row[3] for row in ROWS]

    asyncio.run(scenario())
