"""Searches over the subjects of a stream that leave the event loop to others now and then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from core.stream.index import SubjectIndex


async def search(index: SubjectIndex, filters: Sequence[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield the subjects that a filter matches, none twice; without filters all."""
    for _ in index.prepare(filters):
        await asyncio.sleep(0)
    is_first = True
    for part in index.search(filters):
        if not is_first:
            await asyncio.sleep(0)
        is_first = False
        yield part
