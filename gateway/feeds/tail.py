"""The live end of a stream, read once for all who follow it.

One ordered subscription fills a bounded list; readers go through it with an index each. Who falls
behind its beginning reads pages of his own until he has caught up (`gateway.feeds.reader`).
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from core.client import ClientError, ConnectionLost, JetStream, Msg, Subscription
from core.client.subscribe import (
    JsMsg,
    OrderedReading,
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
from gateway.feeds.entries import Entry, Filters, Gap, Item, has_jump, with_gaps
from gateway.feeds.page import slice_end
from gateway.feeds.recent import RecentPages

_AT_ONCE = 2000
_BYTES_AT_ONCE = 1 << 20
_HEARTBEAT_S = 5.0
_SHARED_MAX = 64
_KEPT_S = 2.0
_TURNS = 2
_WOKEN_AT_ONCE = 50
_DELETED = b"$JS.EVENT.ADVISORY.STREAM.DELETED."

Key = tuple[str, Filters]
"""Stream and filters."""


class Tail:
    """What of a stream, or of what matches filters, was read last.

    Attributes:
        incarnation, head: the position of the last message.
        base: a sequence; of its incarnation everything behind it, up to `head`, is in the list.
        first, end: the indexes of the list's beginning and end; they only grow.
        error: why it ended; None while it lives.
        shared: what readers at the same index made of the same messages, until there are others.
        recent: pages of readers that are behind the list.
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
        self._ends = [0]  # the bytes in front of each item, and of all, since the beginning
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
        """The index behind the last item."""
        return self.first + len(self._items)

    def start(self, items: int, nbytes: int) -> None:
        """Begin to fill the list, which keeps at most so many items and bytes."""
        self._limit, self._limit_bytes = items, nbytes
        self._pump = spawn(self._fill(), name="tail")

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when there is more, or when it has ended."""
        self._waiting.add(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call `wake` any more."""
        self._waiting.discard(wake)

    def index_behind(self, position: Position) -> int | None:
        """Return the index of what follows a position; None where the list does not cover it.

        A position behind `head` has the index of the end: what comes there may be before it.
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

    def cut(self, index: int, messages: int, nbytes: int) -> tuple[int, int]:
        """Return the end of a slice that begins at an index, and how many bytes it has: messages
        up to a number and until so many bytes are reached or passed, or one gap alone."""
        ends, begin = self._ends, index - self.first
        gap = next((at - self.first for at in self._gaps if at >= index), None)
        end = slice_end(ends, begin, messages, nbytes, gap)
        return self.first + end, ends[end] - ends[begin]

    def item(self, index: int) -> Item:
        """Return the item at an index."""
        return self._items[index - self.first]

    def items(self, begin: int, end: int) -> list[Item]:
        """Return the items from one index to another."""
        return self._items[begin - self.first : end - self.first]

    async def close(self) -> None:
        """End the subscription."""
        # A task that was ended refers to the frames that it ended in, and so to this tail: kept
        # here, it would be a circle with all messages of the list in it.
        pump, self._pump = self._pump, None
        await stop(pump)
        if self._aging is not None:
            self._aging.cancel()
        self.recent.clear()
        self.fail(ConnectionLost())
        try:
            await self._subscription.unsubscribe()
        except (ApiError, ClientError):
            return  # the server forgets the consumer by itself

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
        """Append what was read."""
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
            # A quarter at once, so that trimming costs little for each message.
            over = max(over + self._limit // 4, 0)
            over = max(over, bisect_right(ends, ends[-1] - self._limit_bytes * 3 // 4) - 1)
            self._drop(min(over, count - 1))

    def _drop(self, count: int) -> None:
        """Let go of the oldest items."""
        if not count:
            return
        if self.first + count > self.floor:
            self.base = max(self.base, _seq_of(self._items[count - 1]))
        del self._items[:count], self._ends[:count]
        self.first += count
        self._gaps = [index for index in self._gaps if index >= self.first]
        self.shared.clear()

    def _grow_old(self) -> None:
        """Let go of what was there a while ago already: what is removed from a stream is not to be
        read for long, and tails at rest hold nothing."""
        self._drop(max(self._old_end - self.first, 0))
        self._old_end = self.end
        self._aging = None
        if self._items:
            self._age()

    def _age(self) -> None:
        if self._aging is None and self.error is None:
            loop = asyncio.get_running_loop()
            self._aging = loop.call_later(_KEPT_S, self._grow_old)

    def fail(self, error: Exception) -> None:
        """Let readers take what there is, and then find this."""
        if self.error is None:
            self.error = error
        self._wake()

    def _wake(self) -> None:
        is_waking = bool(self._woken)
        self._woken.extend(self._waiting)
        self._waiting.clear()
        if self._woken and not is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """Wake readers, few in a turn of the loop: who publishes is not to wait for all of them."""
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
"""What comes of opening a tail. A refusal is a result: those who wait for it raise it, and a task
that ends with an exception would be logged as a fault of the server."""


class Tails:
    """The tails that somebody follows over one client: one for each stream and its filters.

    Attributes:
        js: over that client.
        turns: taken by who makes a consumer of his own: of thousands who come back at once each
            waits here for his turn, and not for an answer that comes too late.
    """

    def __init__(self, js: JetStream, items: int, nbytes: int) -> None:
        self.turns = asyncio.Semaphore(_TURNS)
        self.js = js
        self._limits = items, nbytes
        self._open: dict[Key, asyncio.Task[_Outcome]] = {}
        self._deletions: Subscription | None = None

    async def acquire(self, key: Key) -> Tail:
        """Return a tail; `release` has to follow. Raises ApiError and ClientError."""
        if self._deletions is None:
            # Without the right to listen to it, missed heartbeats tell, a little later.
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
        """Follow it no longer; the last one closes it."""
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
        reading = OrderedReading(heartbeat=_HEARTBEAT_S, inactive=3 * _HEARTBEAT_S)
        try:
            subscription = await ordered(self.js, target, reading)
        except (ApiError, ClientError) as error:
            return error
        tail = Tail(self.js, key, subscription)
        tail.start(*self._limits)
        return tail


def _living(opening: "asyncio.Task[_Outcome]") -> Tail | None:
    """Return the tail that was opened, while it has not ended."""
    if not opening.done() or opening.cancelled() or opening.exception() is not None:
        return None
    outcome = opening.result()
    return outcome if isinstance(outcome, Tail) and outcome.error is None else None
