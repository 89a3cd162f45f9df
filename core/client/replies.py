"""The shared inbox of a connection: one subscription for the replies to all requests.

A single request has a token, which is the last token of its reply subject, and a future. A batch of
requests has one `ReplyBatch` and the tokens `<batch>-<index>`, so nothing is created or awaited per
message.
"""

import asyncio
from collections.abc import Callable, Sequence

from core.client.errors import ConnectionLost, NotPermitted, RequestTimeout
from core.client.msg import Msg, status_of
from core.runtime.nuid import nuid

FORBIDDEN = b"NATS/1.0 403\r\n\r\n"
"""Header block that stands for the reply to a request refused for lack of permission."""

_CLOCK_STEP = 0.002
"""Seconds by which timers of the event loop may fire too early."""

_Waiting = tuple["asyncio.Future[Msg]", float, bytes, float]
"""The reply's future, its deadline (loop time), and subject and seconds for the timeout error."""


class ReplyBatch:
    """The replies to a batch of requests, by index of the request.

    Attributes:
        payloads: Payload of each reply; None until it arrives.
        statuses: Status codes, by index, of replies with one (503 no responders, 429 too many
            requests, 403 no permission).
        headers: Header blocks, by index, of replies with one.
        subjects: Subject of each request.
        refused: Errors, by index, of requests whose headers require a missing permission.
        missing: Number of requests without a reply.
        done: Future, set when no reply is missing.
        on_answer: Called with the index of each reply; None: not called.
    """

    __slots__ = (
        "done",
        "headers",
        "missing",
        "on_answer",
        "payloads",
        "refused",
        "statuses",
        "subjects",
    )

    def __init__(self, subjects: Sequence[bytes], done: "asyncio.Future[None]") -> None:
        size = len(subjects)
        self.subjects = subjects
        self.payloads: list[bytes | None] = [None] * size
        self.statuses: dict[int, int] = {}
        self.headers: dict[int, bytes] = {}
        self.refused: dict[int, NotPermitted] = {}
        self.on_answer: Callable[[int], None] | None = None
        self.missing = size
        self.done = done

    async def settled(self, within: float) -> bool:
        """Wait for all replies; return False after `within` seconds.

        Raises ConnectionLost if the connection is lost.
        """
        try:
            async with asyncio.timeout(within):
                await self.done
        except TimeoutError:
            return False
        return True

    def put(self, index: int, headers: bytes, payload: bytes) -> None:
        """Record the reply to the request at `index`; a second one is ignored."""
        payloads = self.payloads
        if index >= len(payloads) or payloads[index] is not None:
            return
        payloads[index] = payload
        if headers:
            self.headers[index] = headers
            if code := status_of(headers)[0]:
                self.statuses[index] = code
        self.missing -= 1
        if self.on_answer is not None:
            self.on_answer(index)
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class Replies:
    """The requests of one connection that wait for replies.

    Attributes:
        base: Prefix of inbox subjects, with a final dot.
        prefix: Prefix of the reply subjects of this connection; a token follows.
    """

    def __init__(self) -> None:
        self.base = b""
        self.use_base(b"_INBOX.")
        self._next = 0
        self._requests: dict[bytes, _Waiting] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._batches: dict[bytes, ReplyBatch] = {}

    def use_base(self, base: bytes) -> None:
        """Change the prefix of inbox subjects. May be called only while no request is pending."""
        if base != self.base:
            self.base = base
            self.prefix = base + nuid().encode() + b"."
            self._start = len(self.prefix)

    def expect(self, subject: bytes, within: float) -> tuple[bytes, "asyncio.Future[Msg]"]:
        """Register a request; return its token, and the future of its reply.

        The future fails with RequestTimeout after `within` seconds.
        """
        self._next += 1
        token = b"%d" % self._next
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Msg] = loop.create_future()
        deadline = loop.time() + within
        self._requests[token] = (future, deadline, subject, within)
        # One timer for all requests: most get their reply long before the deadline.
        if self._expiry is None or deadline < self._expiry.when():
            self._arm(loop, deadline)
        return token, future

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = loop.call_at(deadline, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._expiry = None
        now = loop.time() + _CLOCK_STEP
        for future, deadline, subject, within in list(self._requests.values()):
            if deadline <= now and not future.done():
                future.set_exception(RequestTimeout(subject, within))
        later = [waiting[1] for waiting in self._requests.values() if waiting[1] > now]
        if later:
            self._arm(loop, min(later))

    def expect_batch(self, subjects: Sequence[bytes]) -> tuple[bytes, ReplyBatch]:
        """Register a batch of requests; return its token `<head>` and the object for the replies.

        The reply subject of each request ends with `<head>-<index>`.
        """
        self._next += 1
        head = b"%d" % self._next
        batch = ReplyBatch(subjects, asyncio.get_running_loop().create_future())
        self._batches[head] = batch
        return head, batch

    def forget(self, token: bytes) -> None:
        """Stop waiting for a request or a batch; later replies are dropped."""
        self._requests.pop(token, None)
        self._batches.pop(token, None)

    def on_reply(self, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Pass a received reply to its request; dropped if no request waits for it."""
        token = subject[self._start :]
        head, dash, index = token.partition(b"-")
        if dash:
            batch = self._batches.get(head)
            if batch is not None and index.isdigit():
                batch.put(int(index), headers, payload)
            return
        waiting = self._requests.pop(token, None)
        if waiting is not None and not waiting[0].done():
            waiting[0].set_result(Msg(subject, b"", headers, payload))

    def deny(self, subject: bytes) -> None:
        """Fail all requests on a subject with NotPermitted, because the server has refused them."""
        for future, _, asked, _ in list(self._requests.values()):
            if asked == subject and not future.done():
                future.set_exception(NotPermitted(subject))
        for batch in list(self._batches.values()):
            for index, asked in enumerate(batch.subjects):
                if asked == subject:
                    batch.put(index, FORBIDDEN, b"")

    def fail_all(self) -> None:
        """Fail all pending requests with ConnectionLost."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        requests, self._requests = self._requests, {}
        batches, self._batches = self._batches, {}
        for waiting in requests.values():
            _fail(waiting[0])
        for batch in batches.values():
            _fail(batch.done)


def _fail(future: "asyncio.Future[Msg] | asyncio.Future[None]") -> None:
    if not future.done():
        future.set_exception(ConnectionLost())
        future.exception()  # marks it as retrieved: asyncio logs exceptions never retrieved
