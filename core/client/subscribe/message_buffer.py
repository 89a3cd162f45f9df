"""The bounded buffer of messages that a subscription has received and the user has not read.

It also holds, in order, flow control requests, which are answered when the user has read the
messages before them (ADR-15, "Flow Control"), and alarms, which `pop` raises.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.client.errors import ClientError
from core.client.msg import Msg

M = TypeVar("M", bound=Msg)

_ALARMS_MAX = 64


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Capacity of a buffer, in messages and bytes. The last message may exceed `nbytes`."""

    messages: int
    nbytes: int


class _FlowControl:
    __slots__ = ("subject",)

    def __init__(self, subject: bytes) -> None:
        self.subject = subject


class MessageBuffer(Generic[M]):
    """A bounded queue of received messages, from which one caller reads.

    Args:
        limits: Its capacity.
        answer: Publishes the reply to a flow control request; None: they are ignored.
        on_taken: Called when messages were removed by `pop`.
    """

    def __init__(
        self,
        limits: BufferLimits,
        answer: Callable[[bytes], None] | None = None,
        on_taken: Callable[[], None] | None = None,
    ) -> None:
        self.messages = 0
        self.nbytes = 0
        self.ended = False
        self._on_taken = on_taken or _nothing
        self._limits = limits
        self._answer = answer or _ignore
        self._items: deque[M | _FlowControl | ClientError] = deque()
        self._error: Exception | None = None
        self._alarms = 0
        self._last_answered = b""
        self._change: asyncio.Future[None] | None = None

    # -- filling -----------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """True if the limit of messages or of bytes is reached."""
        return self.messages >= self._limits.messages or self.nbytes >= self._limits.nbytes

    @property
    def room(self) -> BufferLimits:
        """The free capacity, in messages and bytes."""
        limits = self._limits
        return BufferLimits(limits.messages - self.messages, limits.nbytes - self.nbytes)

    @property
    def is_half_empty(self) -> bool:
        """True if at most half of the capacity is used, of messages and of bytes."""
        limits = self._limits
        return self.messages * 2 <= limits.messages and self.nbytes * 2 <= limits.nbytes

    def put(self, msg: M) -> None:
        """Append a message, even beyond the capacity. Call `wake` after the messages of a read."""
        self._items.append(msg)
        self.messages += 1
        self.nbytes += msg.size

    def put_flow_control(self, subject: bytes) -> None:
        """Append a flow control request; its reply goes to `subject`. A repeated one is ignored."""
        if subject != self._last_answered:
            self._last_answered = subject
            if self._items:
                self._items.append(_FlowControl(subject))
            else:
                self._reply(subject)

    def put_alarm(self, alarm: ClientError) -> None:
        """Append an alarm, which `pop` raises in order. More than 64 unread alarms are dropped."""
        if self._alarms < _ALARMS_MAX:
            self._alarms += 1
            self._items.append(alarm)
            self.wake()

    def end(self, error: Exception | None = None, *, drop: bool = False) -> None:
        """End the queue. Buffered messages can still be read, unless `drop`.

        `error` is raised after the last message; None: `pop` then returns an empty list.
        """
        if drop:
            self.clear()
        if not self.ended:
            self.ended, self._error = True, error
        self.wake()

    def clear(self) -> list[M]:
        """Remove all messages, alarms and flow control requests; return the messages."""
        waiting = [item for item in self._items if isinstance(item, Msg)]
        self._items.clear()
        self.messages = self.nbytes = 0
        return waiting

    def wake(self) -> None:
        """Make a waiting `batch` check for messages."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    # -- taking ------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True if neither messages nor alarms nor flow control requests are buffered."""
        return not self._items

    @property
    def is_over(self) -> bool:
        """True if the queue has ended and is empty."""
        return self.ended and not self._items

    def pop(self, messages: int, nbytes: int) -> list[M]:
        """Remove and return buffered messages: at most `messages`, until `nbytes` are reached.

        Raises the next alarm if no message precedes it, and the error of `end` once the queue is
        empty.
        """
        taken: list[M] = []
        size = 0
        items = self._items
        while items:
            item = items[0]
            if isinstance(item, _FlowControl):
                self._reply(item.subject)
            elif isinstance(item, ClientError):
                if taken:
                    break
                items.popleft()
                self._alarms -= 1
                raise item
            elif len(taken) >= messages or size >= nbytes:
                break
            else:
                taken.append(item)
                size += item.size
            items.popleft()
        if taken:
            self.messages -= len(taken)
            self.nbytes -= size
            self._on_taken()
        elif self.ended and not items and self._error is not None:
            raise self._error
        return taken

    async def batch(self, messages: int, nbytes: int, within: float | None) -> list[M]:
        """Wait for messages, remove and return them.

        Returns an empty list after `within` seconds (None: no timeout) and at the end. Raises as
        `pop` does; also ValueError for limits below 1, and RuntimeError if another call is waiting.
        """
        if messages < 1 or nbytes < 1:
            raise ValueError("a batch of nothing")
        if self._change is not None:
            raise RuntimeError("a subscription has one reader")
        try:
            async with asyncio.timeout(within):
                while not (taken := self.pop(messages, nbytes)) and not self.is_over:
                    self._change = asyncio.get_running_loop().create_future()
                    await self._change
        except TimeoutError:
            return self.pop(messages, nbytes)
        finally:
            self._change = None
        return taken

    def _reply(self, subject: bytes) -> None:
        try:
            self._answer(subject)
        except ClientError:
            self._last_answered = b""  # heartbeats repeat the request


def _nothing() -> None:
    """Do nothing."""


def _ignore(subject: bytes) -> None:
    """Ignore a flow control request: the default of `answer`."""
