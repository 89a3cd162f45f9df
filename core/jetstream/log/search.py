"""Searches over the subjects of a stream that give control to the event loop between pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from core.rules.stream.state.subject_index import SubjectIndex


async def search(index: SubjectIndex, filters: Sequence[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield pages of the subjects that match any filter, each subject once.

    Without filters all subjects match. Other tasks may run between two pages.
    """
    for _ in index.prepare(filters):
        await asyncio.sleep(0)
    is_first = True
    for part in index.search(filters):
        if not is_first:
            await asyncio.sleep(0)
        is_first = False
        yield part
