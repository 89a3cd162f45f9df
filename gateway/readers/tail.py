"""The tail of a stream: its recent messages in memory, read once for all clients that follow it.

One ordered consumer appends new messages to a bounded list. Each reader has an index into this
list. A reader whose next message is no longer in the list pulls old messages by its own consumer,
until the list contains its position again (`gateway.readers.reader`).
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from core.client import ClientError, ConnectionLost, JetStream, Msg, Subscription
from core.client.subscribe import (
    JsMsg,
    OrderedSettings,
    OrderedSubscription,
    Position,
    PositionLost,
    ordered,
    target_of,
)
from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.consumer import DeliverPolicy
from core.runtime.tasks import spawn, stop
from gateway.readers.entries import Entry, Filters, Gap, Item, has_jump, with_gaps
from gateway.readers.page import slice_end
from gateway.readers.recent import RecentPages

_AT_ONCE = 2000
_BYTES_AT_ONCE = 1 << 20
_HEARTBEAT_S = 5.0
_SHARED_MAX = 64
_ITEM_LIFETIME_S = 2.0
_CREATIONS_AT_ONCE = 2
_WOKEN_AT_ONCE = 50
_DELETED = b"$JS.EVENT.ADVISORY.STREAM.DELETED."

Key = tuple[str, Filters]
"""The name of a stream, and the filters of its subjects."""


class Tail:
    """A bounded list of the most recent messages and gaps of a stream, or of its filtered subjects.

    Indexes count all items since the tail was opened, not the items in the list.

    Attributes:
        key: The stream and its filters.
        incarnation: Creation time of the stream of the last message, in nanoseconds since the
            epoch.
        head: Stream sequence of the last message.
        base: The list contains all messages of this incarnation after the sequence `base`.
        first: Index of the first item in the list; it only grows.
        floor: Items from this index on belong to the current incarnation and ascend in sequence.
        error: The error that ended the tail; None while it is read.
        shared: Cache of encoded slices, for readers at the same index.
        recent: Pages for readers that are too slow for the list.
        users: Number of readers.
    """

    def __init__(self, js: JetStream, key: Key, subscription: OrderedSubscription) -> None:
        self.key = key
        self.users = 0
        self.incarnation = subscription.incarnation
        self.base = self.head = subscription.position.seq
        self.first = 0
        self.floor = 0
        self.error: Exception | None = None
        self.shared: dict[tuple[object, ...], bytes] = {}
        self.recent = RecentPages()
        self._js = js
        self._subscription = subscription
        self._items: list[Item] = []
        self._ends = [0]  # bytes before each item and after the last, from the first item ever
        self._gaps: list[int] = []
        self._waiting: set[Callable[[], None]] = set()
        self._woken: deque[Callable[[], None]] = deque()
        self._limit = 0
        self._limit_bytes = 0
        self._pump: asyncio.Task[None] | None = None
        self._aging: asyncio.TimerHandle | None = None
        self._old_end = 0

    @property
    def end(self) -> int:
        """The index after the last item; it only grows."""
        return self.first + len(self._items)

    def start(self, items: int, nbytes: int) -> None:
        """Start to append new messages. The list has at most `items` items and `nbytes` bytes."""
        self._limit, self._limit_bytes = items, nbytes
        self._pump = spawn(self._fill(), name="tail")

    def wait(self, wake: Callable[[], None]) -> None:
        """Register `wake`.

        It is called once, when new items arrive or the list ends with an error.
        """
        self._waiting.add(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Unregister a function that was passed to `wait`."""
        self._waiting.discard(wake)

    def index_behind(self, position: Position) -> int | None:
        """Return the index of the first item after a position; None if the list lacks some items
        after it.

        For a position beyond `head` it is the index after the last item. Items that arrive there
        later may have lower sequences than the position.
        """
        if position.incarnation != self.incarnation or position.seq < self.base:
            return None
        items = self._items
        begin, end = max(self.floor - self.first, 0), len(items)
        while begin < end:
            middle = (begin + end) // 2
            if _seq_of(items[middle]) <= position.seq:
                begin = middle + 1
            else:
                end = middle
        return self.first + begin

    def slice_at(self, index: int, messages: int, nbytes: int) -> tuple[int, int]:
        """Return the end index of the slice that starts at an index, and its size in bytes.

        The rules are those of `gateway.readers.page.Page.slice_at`.
        """
        ends, begin = self._ends, index - self.first
        gap = next((at - self.first for at in self._gaps if at >= index), None)
        end = slice_end(ends, begin, messages, nbytes, gap)
        return self.first + end, ends[end] - ends[begin]

    def item(self, index: int) -> Item:
        """Return the message or gap at an index."""
        return self._items[index - self.first]

    def items(self, begin: int, end: int) -> list[Item]:
        """Return the messages and gaps with indexes from `begin` to `end` - 1."""
        return self._items[begin - self.first : end - self.first]

    async def close(self) -> None:
        """Stop reading, end the readers with ConnectionLost, and delete the consumer."""
        # A stopped task refers to its frames, and so to this tail. Kept in `_pump`, it would form a
        # reference cycle with all messages of the list.
        pump, self._pump = self._pump, None
        await stop(pump)
        if self._aging is not None:
            self._aging.cancel()
        self.recent.clear()
        self.fail(ConnectionLost())
        try:
            await self._subscription.unsubscribe()
        except (ApiError, ClientError):
            return  # the server deletes the consumer by itself

    async def _fill(self) -> None:
        subscription = self._subscription
        while self.error is None:
            try:
                batch = await subscription.batch(_AT_ONCE, _BYTES_AT_ONCE)
                if not batch:
                    return self.fail(ConnectionLost())
                self.append(await self._items_of(batch))
            except PositionLost as lost:
                self.append([self._lost(lost)])
            except (ApiError, ClientError) as error:
                return self.fail(error)

    async def _items_of(self, batch: list[JsMsg]) -> list[Item]:
        if has_jump(self.head, batch):
            info = await self._js.stream_info(self.key[0])
            if info.created == self.incarnation and self.head + 1 < info.state.first_seq:
                position = Position(self.incarnation, self.head)
                state = info.state
                return with_gaps(position, batch, state.first_seq, state.last_seq)
        return [Entry(msg) for msg in batch]

    def _lost(self, lost: PositionLost) -> Gap:
        after = Position(self.incarnation, self.head)
        starts_anew = lost.incarnation != self.incarnation or lost.wanted > lost.last_seq
        seq = 0 if starts_anew else max(lost.first_seq - 1, self.head)
        return Gap(after, Position(lost.incarnation, seq), lost.first_seq, lost.last_seq)

    def append(self, items: list[Item]) -> None:
        """Append items to the list, drop the oldest beyond the limits, and wake waiting readers."""
        for item in items:
            if isinstance(item, Gap):
                if item.position.seq < item.after.seq or self.incarnation != (
                    item.position.incarnation
                ):
                    self.floor, self.base = self.end, item.position.seq
                self._gaps.append(self.end)
                self.incarnation, self.head = item.position.incarnation, item.position.seq
            else:
                self.head = item.msg.stream_seq
            self._items.append(item)
            self._ends.append(self._ends[-1] + _size_of(item))
        self._trim()
        self._age()
        if len(self.shared) > _SHARED_MAX:
            self.shared.clear()
        self._wake()

    def _trim(self) -> None:
        ends, count = self._ends, len(self._items)
        over = count - self._limit
        if over > 0 or ends[-1] - ends[0] > self._limit_bytes:
            # A quarter at once, so that the cost of trimming per message is small.
            over = max(over + self._limit // 4, 0)
            over = max(over, bisect_right(ends, ends[-1] - self._limit_bytes * 3 // 4) - 1)
            self._drop(min(over, count - 1))

    def _drop(self, count: int) -> None:
        """Remove the oldest `count` items."""
        if not count:
            return
        if self.first + count > self.floor:
            self.base = max(self.base, _seq_of(self._items[count - 1]))
        del self._items[:count], self._ends[:count]
        self.first += count
        self._gaps = [index for index in self._gaps if index >= self.first]
        self.shared.clear()

    def _grow_old(self) -> None:
        """Remove items that have been in the list for 2 s.

        So a message that is removed from the stream is soon unreadable, and idle tails use no
        memory.
        """
        self._drop(max(self._old_end - self.first, 0))
        self._old_end = self.end
        self._aging = None
        if self._items:
            self._age()

    def _age(self) -> None:
        if self._aging is None and self.error is None:
            loop = asyncio.get_running_loop()
            self._aging = loop.call_later(_ITEM_LIFETIME_S, self._grow_old)

    def fail(self, error: Exception) -> None:
        """End the list with an error, such as the deletion of the stream.

        Readers get the remaining items first, and then this error.
        """
        if self.error is None:
            self.error = error
        self._wake()

    def _wake(self) -> None:
        """Queue all waiting readers to be called."""
        is_waking = bool(self._woken)
        self._woken.extend(self._waiting)
        self._waiting.clear()
        if self._woken and not is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """Call up to 50 readers per loop tick, so that other work is not delayed by all of them."""
        woken = self._woken
        for _ in range(min(len(woken), _WOKEN_AT_ONCE)):
            woken.popleft()()
        if woken:
            asyncio.get_running_loop().call_soon(self._wake_some)


def _seq_of(item: Item) -> int:
    return item.position.seq if isinstance(item, Gap) else item.msg.stream_seq


def _size_of(item: Item) -> int:
    return 0 if isinstance(item, Gap) else item.msg.size


_Outcome = Tail | ApiError | ClientError
"""The result of opening a tail: the tail, or the error that all waiting callers raise.

The error is a result because a task that ends with an exception is logged as an internal error.
"""


class Tails:
    """The lists of recent messages (`Tail`) of all followed streams, over one NATS connection.

    There is one list for each stream and filter.

    Attributes:
        js: JetStream over the connection.
        creations: Limits the number of consumers that readers create at the same time. If thousands
            of clients reconnect at once, they wait for this semaphore, and do not time out in the
            API.
    """

    def __init__(self, js: JetStream, items: int, nbytes: int) -> None:
        self.creations = asyncio.Semaphore(_CREATIONS_AT_ONCE)
        self.js = js
        self._limits = items, nbytes
        self._open: dict[Key, asyncio.Task[_Outcome]] = {}
        self._deletions: Subscription | None = None

    async def acquire(self, key: Key) -> Tail:
        """Return the list of recent messages of a stream and filter, opened if needed.

        The caller must `release` it. Raises ApiError if the server refuses, ClientError if it does
        not respond.
        """
        if self._deletions is None:
            # Without the permission to subscribe, missed heartbeats reveal a deletion a little
            # later.
            self._deletions = self.js.client.subscribe(_DELETED + b"*", self._on_deleted)
        opening = self._open.get(key)
        if opening is None or (opening.done() and _living(opening) is None):
            opening = self._open[key] = spawn(self._make(key), name="tail opens")
        outcome = await asyncio.shield(opening)
        if not isinstance(outcome, Tail):
            if self._open.get(key) is opening:
                del self._open[key]
            self._forget_deletions()
            raise outcome
        outcome.users += 1
        return outcome

    def release(self, tail: Tail) -> None:
        """Release a list of recent messages; it is closed when no reader uses it."""
        tail.users -= 1
        if tail.users:
            return
        opening = self._open.get(tail.key)
        if opening is not None and opening.done() and opening.result() is tail:
            del self._open[tail.key]
        self._forget_deletions()
        spawn(tail.close(), name="tail closes")

    def _forget_deletions(self) -> None:
        if not self._open and self._deletions is not None:
            self._deletions.unsubscribe()
            self._deletions = None

    def _on_deleted(self, batch: list[Msg]) -> None:
        names = {msg.subject.removeprefix(_DELETED).decode(errors="replace") for msg in batch}
        for key, opening in self._open.items():
            if key[0] in names and (tail := _living(opening)) is not None:
                tail.fail(api_error("JSStreamNotFound"))

    async def _make(self, key: Key) -> _Outcome:
        stream, filters = key
        target = target_of(stream, filters, deliver_policy=DeliverPolicy.NEW)
        reading = OrderedSettings(heartbeat=_HEARTBEAT_S, inactive=3 * _HEARTBEAT_S)
        try:
            subscription = await ordered(self.js, target, reading)
        except (ApiError, ClientError) as error:
            return error
        tail = Tail(self.js, key, subscription)
        tail.start(*self._limits)
        return tail


def _living(opening: "asyncio.Task[_Outcome]") -> Tail | None:
    """Return the opened tail; None if it is still opening, failed to open or has ended."""
    if not opening.done() or opening.cancelled() or opening.exception() is not None:
        return None
    outcome = opening.result()
    return outcome if isinstance(outcome, Tail) and outcome.error is None else None
