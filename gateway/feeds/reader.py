"""One reader of a stream: pages until he has caught up, then the tail that all share.

Nothing is read ahead of what was asked for, beyond one page. Where the two meet: once the position
is within the list of the tail, what follows is taken from there.
"""

import asyncio
from collections.abc import Callable

from core.client import ClientError
from core.client.subscribe import Position
from core.errors import ApiError
from core.model.consumer import DeliverPolicy
from core.runtime.tasks import spawn, stop
from gateway.feeds.entries import Entry, Filters, Gap, Item, Start
from gateway.feeds.pages import ConsumerGone, Pages, is_over
from gateway.feeds.tail import Tail, Tails

_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 2.0
_PAGE_MESSAGES = 128
_PAGE_BYTES = 128 * 1024


class Slice:
    """Some items in order: messages alone, or one gap.

    Attributes:
        gap: the gap; None for messages.
        count, size: how many messages, and their bytes.
        shared: where all who take the same slice may keep what they made of it, under `key`.
    """

    __slots__ = ("_items", "_tail", "count", "gap", "key", "shared", "size")

    def __init__(self, items: list[Item] | None, size: int, tail: Tail | None = None) -> None:
        self._items = items
        self._tail = tail
        self.size = size
        self.count = 0
        self.gap: Gap | None = None
        self.shared: dict[tuple[object, ...], bytes] | None = None
        self.key = (0, 0)
        if items is not None:
            self.count = len(items)
            if isinstance(items[0], Gap):
                self.gap = items[0]

    @classmethod
    def of_tail(cls, tail: Tail, begin: int, end: int, size: int) -> "Slice":
        """Return the slice of a tail from one index to another."""
        first = tail.item(begin)
        if isinstance(first, Gap):
            return cls([first], 0)
        made = cls(None, size, tail)
        made.count, made.shared, made.key = end - begin, tail.shared, (begin, end)
        return made

    def messages(self) -> list[Entry]:
        """Return the messages."""
        items = self._items
        if items is None:
            assert self._tail is not None
            items = self._tail.items(*self.key)
        return [item for item in items if isinstance(item, Entry)]


class StreamReader:
    """Reads in order from `start` on. `wake` is called when `take` may have something.

    *Life cycle*: `open`, then `take` as often as one likes, `close`.

    Args:
        tails: over the connection that reads.
        filters: what is read of the stream.
        may_read: judges the subject of each message; those that it refuses are left out. None:
            all of them are taken.

    Attributes:
        position: of what was taken last.
        recovered: whether reading began where it was asked to.
        error: why nothing more will come, once everything was taken; None while it lives.
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
        self._page: list[Item] = []
        self._pages: Pages | None = None
        self._wanted = asyncio.Event()
        self._want = (_PAGE_MESSAGES, _PAGE_BYTES)
        self._catching_up: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    @property
    def error(self) -> Exception | None:
        """Why nothing more will come."""
        if self._page:
            return None
        if self._error is None and self._index is not None and self._tail is not None:
            return self._tail.error if self._index >= self._tail.end else None
        return self._error

    async def open(self, start: Start) -> None:
        """Find the beginning. Raises ApiError and ClientError."""
        tail = self._tail = await self._tails.acquire(self._key)
        try:
            if start.after is None and start.policy is DeliverPolicy.NEW:
                self.position = Position(tail.incarnation, tail.head)
                self._index = tail.end
                return
            pages = self._pages = Pages(self._js, *self._key)
            async with self._tails.turns:
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

    def take(self, messages: int, nbytes: int) -> Slice | None:
        """Return what follows, up to a number of messages and until so many bytes are reached or
        passed. None: `wake` will be called."""
        while True:
            found = self._take(messages, nbytes)
            if found is None or found.gap is not None or self._may_read is None:
                return found
            shown = [e for e in found.messages() if self._may_read(e.msg.subject)]
            if shown:
                return Slice([*shown], _size([*shown]))

    def _take(self, messages: int, nbytes: int) -> Slice | None:
        if self._page:
            return self._of_page(messages, nbytes)
        tail, index = self._tail, self._index
        if tail is None:
            return None
        if index is None:
            self._want = min(messages, _PAGE_MESSAGES), min(nbytes, _PAGE_BYTES)
            self._wanted.set()
            return None
        if index < tail.first:  # too slow
            self._index = None
            self._catching_up = spawn(self._catch_up(), name="feed catches up")
            return self._take(messages, nbytes)
        if index >= tail.end:
            if tail.error is None:
                tail.wait(self._wake)
            return None
        self._index, size = tail.cut(index, messages, nbytes)
        last = tail.item(self._index - 1)
        if self._is_behind(tail.item(index)):  # the pages were ahead of the tail
            items = [item for item in tail.items(index, self._index) if not self._is_behind(item)]
            if not items:
                return self._take(messages, nbytes)
            self._move(last)
            return Slice(items, _size(items))
        self._move(last)
        return Slice.of_tail(tail, index, self._index, size)

    async def close(self) -> None:
        """Read no more."""
        # As that of a tail, a task that was ended refers to this reader.
        task, self._catching_up = self._catching_up, None
        await stop(task)
        self._drop_pages()
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.forget(self._wake)
            self._tails.release(tail)

    def _of_page(self, messages: int, nbytes: int) -> Slice:
        page = self._page
        size = count = 0
        for item in page:
            if isinstance(item, Gap):
                count = count or 1
                break
            count += 1
            size += item.msg.size
            if count >= messages or size >= nbytes:
                break
        items = page[:count]
        del page[:count]
        self._move(items[-1])
        return Slice(items, size)

    def _move(self, last: Item) -> None:
        if isinstance(last, Gap):
            self.position = last.position
        else:
            self.position = Position(self.position.incarnation, last.msg.stream_seq)

    def _is_behind(self, item: Item) -> bool:
        """Whether an item was taken before."""
        if isinstance(item, Gap):
            same = item.position.incarnation == self.position.incarnation
            return same and 0 < item.position.seq <= self.position.seq
        return item.msg.stream_seq <= self.position.seq

    # -- catching up -------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Read a page whenever one is wanted, until the tail covers what follows."""
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
        """Read a page into `_page`, if there is one; return whether the tail was joined."""
        tail = self._tail
        assert tail is not None
        if self._joins():
            return True
        base = tail.base, tail.incarnation
        pages, items = await self._read_page()
        if items:
            self._give(items)
            return False
        async with self._tails.turns:
            gap = await pages.find(self.position)
        if gap is not None:  # all that followed was removed
            await pages.forget()
            self._give([gap])
            return False
        # What the tail had left behind before was stored then: it would have been in the page.
        incarnation = pages.position.incarnation
        if base[1] == tail.incarnation == incarnation and base[0] > pages.position.seq:
            self.position = pages.position = Position(incarnation, base[0])
        if self._joins():
            return True
        raise ConsumerGone("the stream is another one, or gone: look again")

    async def _read_page(self) -> tuple[Pages, list[Item]]:
        """Read a page, or the gap before it.

        Where others wait for their turns, or at the end, no consumer is kept for the next one.
        """
        turns = self._tails.turns
        async with turns:
            pages = self._pages
            if pages is None or not pages.is_open:
                pages = self._pages = Pages(self._js, *self._key)
                gap = await pages.open(Start(after=self.position))
                if gap is not None:
                    return pages, [gap]
            messages, nbytes = self._want
            items = await pages.page(messages, nbytes)
            if pages.at_end or (turns.locked() and not pages.of_subjects):
                await pages.forget()
            return pages, items

    def _give(self, items: list[Item]) -> None:
        self._wanted.clear()
        self._page = items
        self._wake()

    def _joins(self) -> bool:
        tail = self._tail
        if tail is None or self._page:
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
