"""Feeds over a WebSocket: endless iterations over messages, which resume after a reconnect."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from jetgate_client.errors import JetgateError, OutcomeUnknown, is_passing, problem_from
from jetgate_client.payloads import Message
from jetgate_client.tail import Gap
from jetgate_client.units import NANOS_PER_SECOND

T = TypeVar("T")
Frame = dict[str, Any]


class Credit(NamedTuple):
    """Limits of the messages of a feed that wait in the client: their number and their bytes.

    The bytes are those of subjects, headers and payloads; the last message may exceed the limit.
    """

    msgs: int
    bytes: int

    def after(self, msgs: int, nbytes: int) -> "Credit":
        """Return the totals to grant to the server after `msgs` messages with `nbytes` bytes were
        yielded.
        """
        return Credit(self.msgs + msgs, self.bytes + nbytes)


CREDIT = 1000
CREDIT_BYTES = 4 << 20


class Line(Protocol):
    """The methods of a socket that feeds and deliveries use (`jetgate_client.socket.Socket`)."""

    def follow(self, feed: "Feed[Any]") -> int:
        """Start a feed, now and after every reconnect. Returns the feed's number."""
        ...

    async def leave(self, feed: "Feed[Any]") -> None:
        """End a feed. Until the server confirms, the feed still receives messages."""
        ...

    def send(self, frame: Frame) -> None:
        """Send a frame without an answer; drop it if there is no connection."""
        ...

    async def confirm(self, frame: Frame, what: str) -> Frame:
        """Send a frame, and send it again after a reconnect, until it is answered; return the
        answer.

        Raises Problem if the server refuses, OutcomeUnknown without an answer within the limit of
        retries. `what` is the id in OutcomeUnknown.
        """
        ...


@dataclass(frozen=True)
class CoreMessage(Message):
    """A message of core NATS. It has no stream, and `seq` is 0.

    `reply` is the reply subject; "" if there is none.
    """

    reply: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An item of a feed of core NATS messages: `count` messages before it were not delivered.

    `count` is -1 after a reconnect, because their number is unknown then.
    """

    count: int


@dataclass(frozen=True)
class SocketDelivery(Message):
    """A delivery of a message to a consumer, over a WebSocket. Its token is valid on any
    connection.

    Attributes:
        delivered: Number of deliveries of this message, including this one.
        pending: Number of messages that follow.
        token: Token that acknowledges the delivery; empty if the consumer needs none.
    """

    delivered: int
    pending: int
    token: str
    _line: Line = field(repr=False, compare=False)

    async def ack(self) -> None:
        """Acknowledge the message; return after the server has recorded it.

        Raises Problem if the server refuses, OutcomeUnknown if it does not confirm: the message may
        be redelivered.
        """
        await self._send_ack("ack")

    async def nak(self, *, delay: float = 0.0) -> None:
        """Request redelivery of the message, after `delay` seconds. Raises as `ack` does."""
        await self._send_ack("nak", delay=int(delay * NANOS_PER_SECOND))

    async def term(self, reason: str = "") -> None:
        """Terminate the message: it is never redelivered. Raises as `ack` does."""
        await self._send_ack("term", reason=reason)

    async def progress(self) -> None:
        """Report work in progress, which restarts the ack wait. Raises as `ack` does."""
        await self._send_ack("progress")

    async def _send_ack(self, verb: str, **fields: object) -> None:
        if not self.token:
            return
        frame = {"type": verb, "tokens": [self.token], "sync": True, **fields}
        answer = await self._line.confirm(frame, self.token)
        for failed in answer["failed"]:
            problem = problem_from(failed["problem"])
            if is_passing(problem):
                raise OutcomeUnknown(self.token) from problem
            raise problem


class Feed(ABC, Generic[T]):
    """An endless iteration over the messages of a WebSocket feed.

    It resumes after lost connections and restarts of the server. `aclose`, or the end of `async
    with`, ends it.
    """

    def __init__(self, line: Line, credit: Credit) -> None:
        self._line = line
        self._credit = credit
        # The last message of a frame has the bytes of the whole frame, the others have 0.
        self._waiting: deque[tuple[T, int]] = deque()
        self._changed = asyncio.Event()
        self._failure: JetgateError | None = None
        self._sid = 0
        self._taken = (0, 0)
        self._granted = credit
        self._items = self._run()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._items

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the feed. A feed of a consumer naks the messages that were not yielded."""
        await self._items.aclose()

    # -- callbacks for the socket -------------------------------------------------------------

    def wanted(self) -> Frame:
        """Return the members of the frame `sub`; the totals of credit start again."""
        self._taken = -len(self._waiting), -sum(nbytes for _, nbytes in self._waiting)
        self._granted = self._credit
        return {**self._asked(), "credit": self._credit._asdict()}

    def receive(self, frame: Frame) -> None:
        """Process a frame of the server: `subscribed`, `msg`, `gap` or `dropped`."""
        if found := self._read(frame):
            self._waiting += [(each, 0) for each in found[:-1]]
            self._waiting.append((found[-1], frame.get("bytes", 0)))
        self._changed.set()

    def fail(self, error: JetgateError) -> None:
        """End the feed with an error, which the iteration raises after the waiting items."""
        self._failure = error
        self._changed.set()

    # -- methods of each kind of feed ---------------------------------------------------------

    @abstractmethod
    def _asked(self) -> Frame:
        """Return the members of the frame `sub` that select subject or stream, and the start."""

    @abstractmethod
    def _read(self, frame: Frame) -> list[T]:
        """Convert a frame to the items to yield."""

    def _left(self, waiting: list[T]) -> None:
        """Handle the items that were not yielded when the feed ended."""

    async def _run(self) -> AsyncGenerator[T, None]:
        self._sid = self._line.follow(self)
        try:
            while True:
                while self._waiting:
                    item, nbytes = self._waiting.popleft()
                    self._count(nbytes)
                    yield item
                if self._failure is not None:
                    raise self._failure
                self._changed.clear()
                await self._changed.wait()
        finally:
            await self._line.leave(self)
            self._left([item for item, _ in self._waiting])

    def _count(self, nbytes: int) -> None:
        """Count a yielded item; grant new credit after half of it is used."""
        credit, granted = self._credit, self._granted
        msgs, taken = self._taken[0] + 1, self._taken[1] + nbytes
        self._taken = msgs, taken
        if msgs > granted.msgs - (credit.msgs + 1) // 2 or taken > granted.bytes - credit.bytes / 2:
            self._granted = granted = credit.after(msgs, taken)
            self._line.send({"type": "credit", "sid": self._sid, **granted._asdict()})


class Tail(Feed[Message | Gap]):
    """A feed of a stream's messages from a position on, with a Gap for missing messages."""

    def __init__(self, line: Line, credit: Credit, stream: str, subject: str, begin: str) -> None:
        super().__init__(line, credit)
        self._stream = stream
        self._filter = {"filter": subject} if subject else {}
        self._begin = _beginning(begin)
        self._incarnation = ""
        self._seq = 0

    def _asked(self) -> Frame:
        place: Frame = {"from": self._begin}
        if self._incarnation:
            place = {"after": {"incarnation": self._incarnation, "seq": self._seq}}
        return {"stream": self._stream, **self._filter, **place}

    def _read(self, frame: Frame) -> list[Message | Gap]:
        if frame["type"] == "msg":
            self._seq = frame["messages"][-1]["seq"]
            return [Message(**_origin(each, self._stream)) for each in frame["messages"]]
        found: list[Message | Gap] = []
        if not frame["recovered"]:
            after = frame.get("after", self._seq)
            first, last = frame.get("first_seq", 0), frame.get("last_seq", 0)
            found.append(Gap(after, frame["seq"], first, last))
        self._incarnation, self._seq = frame["incarnation"], frame["seq"]
        return found


class Durable(Feed[SocketDelivery]):
    """A feed of the messages of a consumer."""

    def __init__(self, line: Line, credit: Credit, stream: str, consumer: str) -> None:
        super().__init__(line, credit)
        self._stream = stream
        self._consumer = consumer

    def _asked(self) -> Frame:
        return {"stream": self._stream, "consumer": self._consumer}

    def _read(self, frame: Frame) -> list[SocketDelivery]:
        return [
            SocketDelivery(
                **_origin(each, self._stream),
                delivered=each["delivered"],
                pending=each.get("pending", 0),
                token=each.get("token", ""),
                _line=self._line,
            )
            for each in frame.get("messages", ())
        ]

    def _left(self, waiting: list[SocketDelivery]) -> None:
        tokens = [each.token for each in waiting if each.token]
        if tokens:
            self._line.send({"type": "nak", "tokens": tokens})


class Core(Feed[CoreMessage | Dropped]):
    """A feed of the messages published to a subject from now on, stored or not."""

    def __init__(self, line: Line, credit: Credit, subject: str, queue: str) -> None:
        super().__init__(line, credit)
        self._subject = {"subject": subject, **({"queue": queue} if queue else {})}
        self._began = False

    def _asked(self) -> Frame:
        return self._subject

    def _read(self, frame: Frame) -> list[CoreMessage | Dropped]:
        if frame["type"] == "dropped":
            return [Dropped(frame["count"])]
        if frame["type"] == "msg":
            return [
                CoreMessage(**_origin(each, ""), reply=each.get("reply", ""))
                for each in frame["messages"]
            ]
        missed: list[CoreMessage | Dropped] = [Dropped(-1)] if self._began else []
        self._began = True
        return missed


def _origin(shown: Frame, stream: str) -> Frame:
    """Return the arguments for a message object of any class, from a message in a frame.

    `stream` is the name of its stream; "" for a message of core NATS.
    """
    return {
        "stream": stream,
        "subject": shown["subject"],
        "seq": shown.get("seq", 0),
        "time": shown.get("time", ""),
        "headers": shown.get("headers", {}),
        "payload": shown["data"],
    }


def _beginning(begin: str) -> str | Frame:
    if begin in ("new", "all", "last", "last_per_subject"):
        return begin
    return {"seq": int(begin)} if begin.isdecimal() else {"time": begin}
