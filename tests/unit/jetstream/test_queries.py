"""Reads of a stream from storage."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.jetstream.queries import StreamQueries
from core.stream.segment import Segment

MIB = 1 << 20


class Stream(StreamQueries):
    """Queries of a stream without consumers."""

    def consumer_count(self) -> int:
        return 0


class Reader:
    """Writes down how much was asked for."""

    def __init__(self) -> None:
        self.limits: list[int] = []

    async def range(self, stream: int, shelf: int, seq: int, limit: int) -> Segment | None:
        self.limits.append(limit)
        return None


@pytest.mark.parametrize(
    ("msgs", "size", "limit"),
    [(10_000, 200, 2000), (10_000, MIB, 32), (3, 64 * MIB, 1), (0, 0, 1)],
)
def test_a_page_of_large_messages_has_fewer_of_them(msgs: int, size: int, limit: int) -> None:
    queries, reader = cast(Any, Stream()), Reader()
    queries.stream, queries.shelf = 1, 0
    queries.shell = SimpleNamespace(reader=reader)
    queries.machine = SimpleNamespace(first_seq=1, last_seq=10_000, msgs=msgs, bytes=msgs * size)

    assert asyncio.run(queries.read(1, 2000)) is None

    assert reader.limits == [limit]
