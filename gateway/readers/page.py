"""A page of a stream, which several readers share by an index each, and slices of pages."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from core.client.subscribe import Position
from gateway.readers.entries import Entry, Gap, Item

_SHARED_MAX = 64


class Page:
    """Consecutive messages after a position, and gaps between them.

    Attributes:
        begin: The position.
        has_gaps: True if an item is a gap.
        shared: Cache of encodings that readers at the same index share.
    """

    __slots__ = ("_ends", "_items", "_seqs", "begin", "has_gaps", "shared")

    def __init__(self, begin: Position, items: Sequence[Item]) -> None:
        self.begin = begin
        self.shared: dict[tuple[object, ...], bytes] = {}
        self._items = items
        self._seqs = [item.msg.stream_seq for item in items if isinstance(item, Entry)]
        self.has_gaps = len(self._seqs) < len(items)
        sizes = [item.msg.size if isinstance(item, Entry) else 0 for item in items]
        self._ends = list(accumulate(sizes, initial=0))

    def __len__(self) -> int:
        return len(self._items)

    def index_behind(self, position: Position) -> int | None:
        """Return the index of the message after a position; None if the page lacks it."""
        if self.has_gaps or self.begin.incarnation != position.incarnation:
            return None
        if position.seq < self.begin.seq:
            return None
        index = bisect_right(self._seqs, position.seq)
        return index if index < len(self._seqs) else None

    def item(self, index: int) -> Item:
        """Return the item at an index."""
        return self._items[index]

    def items(self, begin: int, end: int) -> Sequence[Item]:
        """Return the items in the range [begin, end)."""
        return self._items[begin:end]

    def slice_at(self, index: int, messages: int, nbytes: int) -> tuple[int, int]:
        """Return the end index and the bytes of the slice at an index.

        The slice is one gap, or messages: at most `messages`, until `nbytes` are reached or
        exceeded.
        """
        gap = None
        if self.has_gaps:
            items = self._items
            gap = next((at for at in range(index, len(items)) if isinstance(items[at], Gap)), None)
        end = slice_end(self._ends, index, messages, nbytes, gap)
        if len(self.shared) > _SHARED_MAX:
            self.shared.clear()
        return end, self._ends[end] - self._ends[index]


def slice_end(ends: Sequence[int], begin: int, messages: int, nbytes: int, gap: int | None) -> int:
    """Return the end index of a slice of items.

    Args:
        ends: Bytes before each item, ascending, and finally of all items.
        begin: Index of the first item.
        messages: Maximum number of items.
        nbytes: The slice ends with the item that reaches or exceeds so many bytes.
        gap: Index of the first gap from `begin` on; a gap is a slice of its own.
    """
    end = bisect_left(ends, ends[begin] + nbytes, begin + 1)
    end = min(end, begin + messages, len(ends) - 1)
    return end if gap is None else min(end, max(gap, begin + 1))


class _Source(Protocol):
    """The source of a slice: a page or a tail."""

    shared: dict[tuple[object, ...], bytes]

    def item(self, index: int) -> Item: ...

    def items(self, begin: int, end: int) -> Sequence[Item]: ...


class Slice:
    """Consecutive items: only messages, or one gap.

    Attributes:
        gap: The gap; None for messages.
        count: Number of items.
        size: Bytes of the messages.
        shared: Cache of encodings that all readers of the same slice share; None: not shared.
        key: The key of this slice in `shared`.
    """

    __slots__ = ("_items", "_source", "count", "gap", "key", "shared", "size")

    def __init__(
        self, items: Sequence[Item] | None, size: int, source: _Source | None = None
    ) -> None:
        self._items = items
        self._source = source
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
    def of(cls, source: _Source, begin: int, end: int, size: int) -> "Slice":
        """Return the slice [begin, end) of a page or tail."""
        first = source.item(begin)
        if isinstance(first, Gap):
            return cls([first], 0)
        made = cls(None, size, source)
        made.count, made.shared, made.key = end - begin, source.shared, (begin, end)
        return made

    def messages(self) -> list[Entry]:
        """Return the messages."""
        items = self._items
        if items is None:
            assert self._source is not None
            items = self._source.items(*self.key)
        return [item for item in items if isinstance(item, Entry)]
