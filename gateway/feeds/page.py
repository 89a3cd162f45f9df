"""A page of a stream, through which those who read it go with an index each; slices of one."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from core.client.subscribe import Position
from gateway.feeds.entries import Entry, Gap, Item

_SHARED_MAX = 64


class Page:
    """Messages in order behind a position, and gaps between them.

    Attributes:
        begin: the position.
        has_gaps: whether there is a gap.
        shared: what readers at the same index made of the same messages.
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
        """Return the index of the message that follows a position; None where that is not here."""
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
        """Return the items from one index to another."""
        return self._items[begin:end]

    def cut(self, index: int, messages: int, nbytes: int) -> tuple[int, int]:
        """Return the end of a slice that begins at an index, and how many bytes it has: messages
        up to a number and until so many bytes are reached or passed, or one gap alone."""
        gap = None
        if self.has_gaps:
            items = self._items
            gap = next((at for at in range(index, len(items)) if isinstance(items[at], Gap)), None)
        end = slice_end(self._ends, index, messages, nbytes, gap)
        if len(self.shared) > _SHARED_MAX:
            self.shared.clear()
        return end, self._ends[end] - self._ends[index]


def slice_end(ends: Sequence[int], begin: int, messages: int, nbytes: int, gap: int | None) -> int:
    """Return where a slice of items ends that begins at one of them.

    Args:
        ends: the bytes in front of each item, ascending, and of all items in the end.
        messages: the slice has so many items at most.
        nbytes: no more items once they have so many bytes.
        gap: the next item that is a gap, from `begin` on; it is a slice of its own.
    """
    end = bisect_left(ends, ends[begin] + nbytes, begin + 1)
    end = min(end, begin + messages, len(ends) - 1)
    return end if gap is None else min(end, max(gap, begin + 1))


class _Source(Protocol):
    """A page, or the tail: what slices are of."""

    shared: dict[tuple[object, ...], bytes]

    def item(self, index: int) -> Item: ...

    def items(self, begin: int, end: int) -> Sequence[Item]: ...


class Slice:
    """Some items in order: messages alone, or one gap.

    Attributes:
        gap: the gap; None for messages.
        count, size: how many messages, and their bytes.
        shared: where all who take the same slice may keep what they made of it, under `key`.
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
        """Return the slice of a page, or of the tail, from one index to another."""
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
