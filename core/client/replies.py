"""The shared inbox: one subscription for the answers to all requests of a connection.

A single request has a token, the last of its reply subject, and a future. A batch of requests has
one `ReplyBatch` with tokens `<batch>-<index>`, so nothing is created or awaited per message.
"""

import asyncio
from collections.abc import Callable, Sequence

from core.client.errors import ConnectionLost, NotPermitted, RequestTimeout
from core.client.msg import Msg, status_of
from core.runtime.nuid import nuid

FORBIDDEN = b"NATS/1.0 403\r\n\r\n"
"""What stands for the answer to a request of a batch that was refused."""

_CLOCK_STEP = 0.002
"""Timers of the loop may be early by as much."""

_Waiting = tuple["asyncio.Future[Msg]", float, bytes, float]
"""The answer's future, when it is late, and what its error says: subject and seconds."""


class ReplyBatch:
    """The answers to a batch of requests, by index.

    `payloads[i]` is None until request i is answered; `statuses[i]` is there when the answer was a
    status (503 no responders, 429 too many requests, 403 refused), `headers[i]` when it had any;
    `subjects[i]` is what was asked, `refused[i]` why that was not permitted, where it was not for
    its subject. `missing` counts the unanswered; `done` is set when there are none. `on_answer` is
    called with the index of each answer; those that were there when it was set are not told.
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
        """Wait for all answers; return False on timeout (seconds), and ignore later ones.

        Raises ConnectionLost.
        """
        try:
            async with asyncio.timeout(within):
                await self.done
        except TimeoutError:
            return False
        return True

    def put(self, index: int, headers: bytes, payload: bytes) -> None:
        """Record an answer; a second one to the same request is ignored."""
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
    """The requests of one connection that wait for answers.

    Attributes:
        base: how inboxes begin.
        prefix: the inbox of the answers, with a dot behind it.
    """

    def __init__(self) -> None:
        self.base = b""
        self.use_base(b"_INBOX.")
        self._next = 0
        self._requests: dict[bytes, _Waiting] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._batches: dict[bytes, ReplyBatch] = {}

    def use_base(self, base: bytes) -> None:
        """Begin inboxes otherwise, while nothing waits for an answer."""
        if base != self.base:
            self.base = base
            self.prefix = base + nuid().encode() + b"."
            self._start = len(self.prefix)

    def expect(self, subject: bytes, within: float) -> tuple[bytes, "asyncio.Future[Msg]"]:
        """Return a token for a request, and the future of its answer.

        The future fails with RequestTimeout after so many seconds.
        """
        self._next += 1
        token = b"%d" % self._next
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Msg] = loop.create_future()
        deadline = loop.time() + within
        self._requests[token] = (future, deadline, subject, within)
        # One timer for all requests: most are answered long before, and need none.
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
        """Return the prefix `<head>` of the tokens `<head>-<index>`, and the batch of answers."""
        self._next += 1
        head = b"%d" % self._next
        batch = ReplyBatch(subjects, asyncio.get_running_loop().create_future())
        self._batches[head] = batch
        return head, batch

    def forget(self, token: bytes) -> None:
        """Stop waiting for a request or batch; late answers are dropped."""
        self._requests.pop(token, None)
        self._batches.pop(token, None)

    def on_reply(self, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Pass an answer on to its request."""
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
        """End the requests on a subject that the server refuses."""
        for future, _, asked, _ in list(self._requests.values()):
            if asked == subject and not future.done():
                future.set_exception(NotPermitted(subject))
        for batch in list(self._batches.values()):
            for index, asked in enumerate(batch.subjects):
                if asked == subject:
                    batch.put(index, FORBIDDEN, b"")

    def fail_all(self) -> None:
        """Fail all requests with ConnectionLost."""
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
        future.exception()  # marks it as retrieved: asyncio would log one that nobody awaits
