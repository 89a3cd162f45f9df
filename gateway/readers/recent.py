"""Pages that were pulled in the last 2 s, for other readers at the same position of a stream.

Readers that are too slow for the list of recent messages (`gateway.readers.tail`) are often at the
same position. They share the pulled pages and the consumer. Otherwise each of them would need its
own consumer.
"""

import asyncio
from collections import deque

from core.client.subscribe import Position
from gateway.readers.page import Page
from gateway.readers.pages import PageReader

_LIFETIME_S = 2.0
_PAGES_MAX = 32
_SPARE_MAX = 16
_NEAR = 256


class RecentPages:
    """Pages of one stream and filter, and idle consumers for reuse; each is kept for 2 s."""

    def __init__(self) -> None:
        self._pages: deque[tuple[Page, float]] = deque()
        self._spare: deque[tuple[PageReader, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, page: Page) -> None:
        """Keep a pulled page for 2 s, unless it contains a gap."""
        if page.has_gaps:
            return
        self._pages.append((page, self._until()))
        if len(self._pages) > _PAGES_MAX:
            self._pages.popleft()

    def behind(self, position: Position) -> tuple[Page, int] | None:
        """Return the kept page with the most messages after a position, and the index of the first
        of them.

        None if no page covers the position.
        """
        best, most = None, 0
        for page, _ in self._pages:
            index = page.index_behind(position)
            if index is not None and len(page) - index > most:
                best, most = (page, index), len(page) - index
        return best

    def release(self, pages: PageReader) -> None:
        """Offer a `PageReader` and its consumer to other readers for 2 s; at most 16 are kept."""
        self._spare.append((pages, self._until()))
        if len(self._spare) > _SPARE_MAX:
            self._spare.popleft()[0].close()

    def acquire(self, position: Position) -> PageReader | None:
        """Return an offered `PageReader` whose position is at most 256 sequences before this
        position.

        None if there is none.
        """
        for spare in self._spare:
            pages, _ = spare
            if (
                pages.position.incarnation == position.incarnation
                and 0 <= position.seq - pages.position.seq <= _NEAR
            ):
                self._spare.remove(spare)
                return pages
        return None

    def clear(self) -> None:
        """Drop all pages, and delete all idle consumers."""
        self._pages.clear()
        while self._spare:
            self._spare.popleft()[0].close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _until(self) -> float:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(_LIFETIME_S, self._forget_old)
        return loop.time() + _LIFETIME_S

    def _forget_old(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._pages and self._pages[0][1] <= now:
            self._pages.popleft()
        while self._spare and self._spare[0][1] <= now:
            self._spare.popleft()[0].close()
        nexts = [queue[0][1] for queue in (self._pages, self._spare) if queue]
        self._timer = loop.call_at(min(nexts), self._forget_old) if nexts else None
