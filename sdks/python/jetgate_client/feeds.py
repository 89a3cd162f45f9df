"""Feeds over a WebSocket: what comes by itself, and goes on where it was after a break."""

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

T = TypeVar("T")
Frame = dict[str, Any]


class Credit(NamedTuple):
    """How many messages of a feed may wait to be taken, and how many bytes they may have.

    The bytes are those of subjects, headers and payloads; the last message may exceed them.
    """

    msgs: int
    bytes: int

    def after(self, msgs: int, nbytes: int) -> "Credit":
        """The totals to grant when so much was taken."""
        return Credit(self.msgs + msgs, self.bytes + nbytes)


CREDIT = 1000
CREDIT_BYTES = 4 << 20


class Line(Protocol):
    """What feeds and deliveries see of a socket."""

    def follow(self, feed: "Feed[Any]") -> int:
        """Begin a feed, now and after every break; its number."""
        ...

    async def leave(self, feed: "Feed[Any]") -> None:
        """End a feed; it still takes what was on its way to it."""
        ...

    def send(self, frame: Frame) -> None:
        """Send a frame without an answer, if there is a connection."""
        ...

    async def confirm(self, frame: Frame, what: str) -> Frame:
        """Send a frame until it is answered. Raises Problem, OutcomeUnknown."""
        ...


@dataclass(frozen=True)
class CoreMessage(Message):
    """A message that nobody keeps: no stream, `seq` 0. `reply`: where an answer is awaited."""

    reply: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """So many messages of a subject were not sent; -1 after a break: nobody knows how many."""

    count: int


@dataclass(frozen=True)
class SocketDelivery(Message):
    """A delivery over a socket. Its token is good on any connection.

    `delivered`: how often it was, this time included; `pending`: how many messages follow.
    """

    delivered: int
    pending: int
    token: str
    _line: Line = field(repr=False, compare=False)

    async def ack(self) -> None:
        """It is done; recorded by the server when this returns.

        Raises Problem, and OutcomeUnknown when nobody confirms it: it may be delivered again.
        """
        await self._settle("ack")

    async def nak(self, *, delay: float = 0.0) -> None:
        """Give it back, to be delivered again after `delay` seconds."""
        await self._settle("nak", delay=int(delay * 1e9))

    async def term(self, reason: str = "") -> None:
        """Never deliver it again."""
        await self._settle("term", reason=reason)

    async def progress(self) -> None:
        """Still working: the ack wait begins again."""
        await self._settle("progress")

    async def _settle(self, verb: str, **said: object) -> None:
        if not self.token:
            return
        frame = {"type": verb, "tokens": [self.token], "sync": True, **said}
        answer = await self._line.confirm(frame, self.token)
        for failed in answer["failed"]:
            problem = problem_from(failed["problem"])
            if is_passing(problem):
                raise OutcomeUnknown(self.token) from problem
            raise problem


class Feed(ABC, Generic[T]):
    """What comes, for as long as one iterates, across lost connections and restarts.

    `aclose`, or the end of `async with`, ends it.
    """

    def __init__(self, line: Line, credit: Credit) -> None:
        self._line = line
        self._credit = credit
        # The bytes of a frame are those of its last message: the others of it have 0.
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
        """End it, and give back what came and was not taken."""
        await self._items.aclose()

    # -- what the socket calls ---------------------------------------------------------------

    def wanted(self) -> Frame:
        """The members of `sub`. Totals of credit begin again with it."""
        self._taken = -len(self._waiting), -sum(nbytes for _, nbytes in self._waiting)
        self._granted = self._credit
        return {**self._asked(), "credit": self._credit._asdict()}

    def take(self, frame: Frame) -> None:
        """Something came: `subscribed`, `msg`, `gap` or `dropped`."""
        if found := self._read(frame):
            self._waiting += [(each, 0) for each in found[:-1]]
            self._waiting.append((found[-1], frame.get("bytes", 0)))
        self._changed.set()

    def fail(self, error: JetgateError) -> None:
        """Nothing more will come."""
        self._failure = error
        self._changed.set()

    # -- what kinds of feeds say --------------------------------------------------------------

    @abstractmethod
    def _asked(self) -> Frame:
        """What to follow, and from where."""

    @abstractmethod
    def _read(self, frame: Frame) -> list[T]:
        """What a frame means."""

    def _left(self, waiting: list[T]) -> None:
        """These came and were not taken."""

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
        """One was taken: grant more when half of the credit is used up."""
        credit, granted = self._credit, self._granted
        msgs, taken = self._taken[0] + 1, self._taken[1] + nbytes
        self._taken = msgs, taken
        if msgs > granted.msgs - (credit.msgs + 1) // 2 or taken > granted.bytes - credit.bytes / 2:
            self._granted = granted = credit.after(msgs, taken)
            self._line.send({"type": "credit", "sid": self._sid, **granted._asdict()})


class Tail(Feed[Message | Gap]):
    """Every message of a stream from a place on, and a Gap where some are missing."""

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
    """The messages of a consumer."""

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
    """What is published to a subject from now on, stored or not."""

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
    """What all messages have."""
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
