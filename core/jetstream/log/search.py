"""Searches over the subjects of a stream that yield to the event loop between parts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from core.rules.stream.state.subject_index import SubjectIndex


async def search(index: SubjectIndex, filters: Sequence[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield lists of the subjects that any filter matches, each once; all without filters."""
    for _ in index.prepare(filters):
        await asyncio.sleep(0)
    is_first = True
    for part in index.search(filters):
        if not is_first:
            await asyncio.sleep(0)
        is_first = False
        yield part
