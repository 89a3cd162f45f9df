"""Pages and slices: bounded lists of consecutive stream messages that several readers share.

A page is the result of one pull. Each reader has its own index into the page, and takes slices of
it: consecutive messages that it sends to its client at once, or a single gap.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from core.client.subscribe import Position
from gateway.readers.entries import Entry, Gap, Item

_SHARED_MAX = 64


class Page:
    """Consecutive messages of a stream after a position, with gaps between them.

    Attributes:
        begin: The position before the first item.
        has_gaps: True if an item is a gap.
        shared: Cache of encoded slices, for readers at the same index.
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
        """Return the index of the first message after a position.

        None if the page has no such message, has gaps, or does not cover the position.
        """
        if self.has_gaps or self.begin.incarnation != position.incarnation:
            return None
        if position.seq < self.begin.seq:
            return None
        index = bisect_right(self._seqs, position.seq)
        return index if index < len(self._seqs) else None

    def item(self, index: int) -> Item:
        """Return the message or gap at an index."""
        return self._items[index]

    def items(self, begin: int, end: int) -> Sequence[Item]:
        """Return the messages and gaps with indexes from `begin` to `end` - 1."""
        return self._items[begin:end]

    def slice_at(self, index: int, messages: int, nbytes: int) -> tuple[int, int]:
        """Return the end index of the slice that starts at an index, and its size in bytes.

        The slice is one gap, or at most `messages` messages. It ends with the message that reaches
        or exceeds `nbytes` bytes.
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
    """Return the end index (exclusive) of a slice: the items that are sent to a client at once.

    Args:
        ends: Bytes before each item, ascending, and finally the bytes of all items.
        begin: Index of the first item of the slice.
        messages: Maximum number of items.
        nbytes: The slice ends with the item that reaches or exceeds this number of bytes.
        gap: Index of the first gap from `begin` on, or None; a gap is a slice of its own.
    """
    end = bisect_left(ends, ends[begin] + nbytes, begin + 1)
    end = min(end, begin + messages, len(ends) - 1)
    return end if gap is None else min(end, max(gap, begin + 1))


class _Source(Protocol):
    """A list of items that slices refer to: a `Page`, or a `Tail` (recent messages of a stream)."""

    shared: dict[tuple[object, ...], bytes]

    def item(self, index: int) -> Item: ...

    def items(self, begin: int, end: int) -> Sequence[Item]: ...


class Slice:
    """Consecutive items of a page or tail that are sent to a client at once: messages, or one gap.

    Attributes:
        gap: The gap; None if the slice has messages.
        count: Number of items.
        size: Size of the messages, in bytes.
        shared: Cache of encodings, for all readers of the same slice; None: not shared.
        key: The key of this slice in `shared`: its begin and end index.
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
        """Return the items of a `Page` or `Tail` with indexes from `begin` to `end` - 1, as a
        slice.

        `size` is their size in bytes. If the first item is a gap, the slice is that gap alone.
        """
        first = source.item(begin)
        if isinstance(first, Gap):
            return cls([first], 0)
        made = cls(None, size, source)
        made.count, made.shared, made.key = end - begin, source.shared, (begin, end)
        return made

    def messages(self) -> list[Entry]:
        """Return the messages of the slice; empty if the slice is a gap."""
        items = self._items
        if items is None:
            assert self._source is not None
            items = self._source.items(*self.key)
        return [item for item in items if isinstance(item, Entry)]
