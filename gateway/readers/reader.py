"""The reader of a stream for one client: it pulls old messages, then follows the live end.

Old messages are pulled by pages (`gateway.readers.pages`), at most one page ahead of the client. As
soon as the shared list of recent messages (`gateway.readers.tail`) contains the reader's position,
it reads from that list.
"""

import asyncio
from collections.abc import Callable

from core.client import ClientError
from core.client.subscribe import Position
from core.errors import ApiError
from core.model.consumer import DeliverPolicy
from core.runtime.tasks import spawn, stop
from gateway.readers.entries import Entry, Filters, Gap, Item, Start
from gateway.readers.page import Page, Slice
from gateway.readers.pages import ConsumerGone, PageReader, is_over
from gateway.readers.recent import RecentPages
from gateway.readers.tail import Tail, Tails

_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 2.0
_PAGE_MESSAGES = 128
_PAGE_BYTES = 128 * 1024


class StreamReader:
    """Reads a stream in order from a start position, for one client.

    Life cycle: `open`, then `next_slice` any number of times, then `close`.

    Args:
        tails: The shared lists of recent messages, one per stream and filter
            (`gateway.readers.tail`). Older messages are read over their NATS connection.
        stream: The name of the stream.
        filters: Subjects to read; empty: all.
        wake: Called when `next_slice` may have items again.
        may_read: Returns True if a message with this subject may be shown; other messages are
            skipped. None: all messages may be shown.

    Attributes:
        position: Position of the last item (a message, or a gap where messages are missing) that
            `next_slice` returned.
        recovered: False if reading could not start at the requested position.
        first_gap: The gap at the start if `recovered` is False, else None.
    """

    def __init__(
        self,
        tails: Tails,
        stream: str,
        filters: Filters,
        wake: Callable[[], None],
        may_read: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.position = Position(0, 0)
        self.recovered = True
        self.first_gap: Gap | None = None
        self._tails = tails
        self._js = tails.js
        self._key = stream, filters
        self._wake = wake
        self._may_read = may_read
        self._tail: Tail | None = None
        self._index: int | None = None
        self._page: Page | None = None
        self._at = 0  # index in `_page`
        self._pages: PageReader | None = None
        self._wanted = asyncio.Event()
        self._want = (_PAGE_MESSAGES, _PAGE_BYTES)
        self._catching_up: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    @property
    def error(self) -> Exception | None:
        """The error that ended reading, once all items before it were returned; None before."""
        if self._page is not None:
            return None
        if self._error is None and self._index is not None and self._tail is not None:
            return self._tail.error if self._index >= self._tail.end else None
        return self._error

    async def open(self, start: Start) -> None:
        """Find the start position.

        Raises ApiError if the server refuses, ClientError without a response.
        """
        tail = self._tail = await self._tails.acquire(self._key)
        try:
            if start.after is None and start.policy is DeliverPolicy.NEW:
                self.position = Position(tail.incarnation, tail.head)
                self._index = tail.end
                return
            pages = self._pages = PageReader(self._js, *self._key)
            async with self._tails.creations:
                if start.after is not None:
                    self.first_gap = await pages.find(start.after)
                else:
                    await pages.open(start)
        except BaseException:
            await self.close()
            raise
        self.recovered = self.first_gap is None
        self.position = pages.position
        if not self._joins():
            self._catching_up = spawn(self._catch_up(), name="feed catches up")

    def next_slice(self, messages: int, nbytes: int) -> Slice | None:
        """Return the next messages, or one gap. None: nothing is available; `wake` is called later.

        At most `messages` messages; the slice ends with the message that reaches or exceeds
        `nbytes` bytes.
        """
        while True:
            found = self._next_slice(messages, nbytes)
            if found is None or found.gap is not None or self._may_read is None:
                return found
            shown = [e for e in found.messages() if self._may_read(e.msg.subject)]
            if shown:
                return Slice([*shown], _size([*shown]))

    def _next_slice(self, messages: int, nbytes: int) -> Slice | None:
        if self._page is not None:
            return self._of_page(self._page, messages, nbytes)
        tail, index = self._tail, self._index
        if tail is None:
            return None
        if index is None:
            self._want = min(messages, _PAGE_MESSAGES), min(nbytes, _PAGE_BYTES)
            self._wanted.set()
            return None
        if index < tail.first:  # the reader was too slow for the tail
            self._index = None
            self._catching_up = spawn(self._catch_up(), name="feed catches up")
            return self._next_slice(messages, nbytes)
        if index >= tail.end:
            if tail.error is None:
                tail.wait(self._wake)
            return None
        self._index, size = tail.slice_at(index, messages, nbytes)
        last = tail.item(self._index - 1)
        if self._is_behind(tail.item(index)):  # the pages were ahead of the tail
            items = [item for item in tail.items(index, self._index) if not self._is_behind(item)]
            if not items:
                return self._next_slice(messages, nbytes)
            self._move(last)
            return Slice(items, _size(items))
        self._move(last)
        return Slice.of(tail, index, self._index, size)

    async def close(self) -> None:
        """Stop reading, and release the consumer and the shared list of recent messages."""
        # A stopped task refers to this reader: drop it first, as `Tail.close` does.
        task, self._catching_up = self._catching_up, None
        await stop(task)
        self._drop_pages()
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.forget(self._wake)
            self._tails.release(tail)

    def _of_page(self, page: Page, messages: int, nbytes: int) -> Slice:
        begin = self._at
        end, size = page.slice_at(begin, messages, nbytes)
        self._at = end
        if end == len(page):
            self._page = None
        self._move(page.item(end - 1))
        return Slice.of(page, begin, end, size)

    def _move(self, last: Item) -> None:
        if isinstance(last, Gap):
            self.position = last.position
        else:
            self.position = Position(self.position.incarnation, last.msg.stream_seq)

    def _is_behind(self, item: Item) -> bool:
        """Return True if an item is not after the current position, and so was returned before."""
        if isinstance(item, Gap):
            same = item.position.incarnation == self.position.incarnation
            return same and 0 < item.position.seq <= self.position.seq
        return item.msg.stream_seq <= self.position.seq

    # -- catching up -------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Pull a page of old messages whenever the client needs one.

        End when the shared list of recent messages contains all messages after the position; the
        reader then reads from that list. Also end if the stream can never be read again.
        """
        wait = _RETRY_FIRST_S
        while self._error is None:
            await self._wanted.wait()
            try:
                joined = await self._next_page()
            except (ApiError, ClientError, ConsumerGone) as error:
                self._drop_pages()
                if is_over(self._js, error):
                    self._error = error
                    break
                await asyncio.sleep(wait)
                wait = min(wait * 2, _RETRY_MAX_S)
                continue
            wait = _RETRY_FIRST_S
            if joined:
                break
        self._wake()

    async def _next_page(self) -> bool:
        """Pull a page of old messages into `_page`, if there are any.

        Returns True if the reader reads from the shared list of recent messages from now on.
        """
        tail = self._tail
        assert tail is not None
        if self._joins():
            return True
        base = tail.base, tail.incarnation
        pages, is_at_end = await self._read_page(tail.recent)
        if not is_at_end:
            return False
        assert pages is not None
        async with self._tails.creations:
            gap = await pages.find(self.position)
        if gap is not None:  # all messages after the position were removed
            await pages.forget()
            self._give(Page(self.position, [gap]))
            return False
        # Items that the tail dropped before the page was requested were stored before it, so
        # the page would contain them.
        incarnation = pages.position.incarnation
        if base[1] == tail.incarnation == incarnation and base[0] > pages.position.seq:
            self.position = pages.position = Position(incarnation, base[0])
        if self._joins():
            return True
        raise ConsumerGone("the stream is another one, or gone: look again")

    async def _read_page(self, recent: RecentPages) -> tuple[PageReader | None, bool]:
        """Read a page, or the gap before it. Returns its `PageReader`, and True at the end of the
        stream.

        The `PageReader` is None if the page of another reader was used. If other readers wait to
        create a consumer, they get this one. At the end of the stream it is deleted.
        """
        creations = self._tails.creations
        async with creations:
            pages = self._pages
            if pages is None or not pages.is_open:
                if (found := recent.behind(self.position)) is not None:
                    self._give(*found)
                    return None, False
                pages = self._pages = recent.acquire(self.position) or PageReader(
                    self._js, *self._key
                )
            if not pages.is_open:
                gap = await pages.open(Start(after=self.position))
                if gap is not None:
                    self._give(Page(self.position, [gap]))
                    return pages, False
            is_at_end = not await self._read(pages, recent)
            if pages.at_end:
                await pages.forget()
            elif creations.locked() and not pages.of_subjects:
                self._pages = None
                recent.release(pages)
            return pages, is_at_end

    async def _read(self, pages: PageReader, recent: RecentPages) -> bool:
        """Pull pages until one has an item that was not returned before; return True if there is
        one.
        """
        messages, nbytes = self._want
        while True:
            begin = pages.position
            items = await pages.page(messages, nbytes)
            if not items:
                return False
            page = Page(begin, items)
            if not pages.of_subjects:
                recent.add(page)
            fresh = (at for at, item in enumerate(items) if not self._is_behind(item))
            if (index := next(fresh, None)) is not None:
                self._give(page, index)
                return True

    def _give(self, page: Page, index: int = 0) -> None:
        self._wanted.clear()
        self._page, self._at = page, index
        self._wake()

    def _joins(self) -> bool:
        tail = self._tail
        if tail is None or self._page is not None:
            return False
        self._index = tail.index_behind(self.position)
        if self._index is None:
            return False
        self._drop_pages()
        return True

    def _drop_pages(self) -> None:
        pages, self._pages = self._pages, None
        if pages is not None:
            pages.close()


def _size(items: list[Item]) -> int:
    return sum(item.msg.size for item in items if isinstance(item, Entry))
