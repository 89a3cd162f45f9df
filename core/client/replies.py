"""The muxed inbox: one subscription that takes the answers to all requests of a connection.

A lone request has a future under its token. A run of publishes has one `ReplyBatch`; its tokens
are `<batch>-<index>`, so nothing is stored, created or awaited per message.
"""

import asyncio

from core.client.msg import Msg, status_of
from core.client.refusals import ConnectionLost
from core.runtime.nuid import nuid


class ReplyBatch:
    """Answers to a run of requests, by position.

    `payloads[i]` is None until answered; `statuses[i]` is present when the answer was a status
    (503 nobody there, 429 too many) instead of a payload.
    """

    __slots__ = ("done", "missing", "payloads", "statuses")

    def __init__(self, size: int, done: "asyncio.Future[None]") -> None:
        self.payloads: list[bytes | None] = [None] * size
        self.statuses: dict[int, int] = {}
        self.missing = size
        self.done = done

    async def settled(self, within: float) -> bool:
        """Wait for all answers; False when the time is up first, and nothing more is noted.

        Raises ConnectionLost.
        """
        try:
            async with asyncio.timeout(within):
                await self.done
        except TimeoutError:
            return False
        return True

    def put(self, index: int, headers: bytes, payload: bytes) -> None:
        """Note one answer; a second one to the same request is ignored."""
        payloads = self.payloads
        if index >= len(payloads) or payloads[index] is not None:
            return
        payloads[index] = payload
        if headers and (code := status_of(headers)[0]):
            self.statuses[index] = code
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class Replies:
    """Waiting requests of one connection."""

    def __init__(self) -> None:
        self.prefix = b"_INBOX." + nuid().encode() + b"."
        self._start = len(self.prefix)
        self._next = 0
        self._requests: dict[bytes, asyncio.Future[Msg]] = {}
        self._batches: dict[bytes, ReplyBatch] = {}

    def expect(self) -> tuple[bytes, "asyncio.Future[Msg]"]:
        """A token for one request and the future of its answer."""
        self._next += 1
        token = b"%d" % self._next
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._requests[token] = future
        return token, future

    def expect_batch(self, size: int) -> tuple[bytes, ReplyBatch]:
        """A head for the tokens `<head>-<index>` of `size` requests, and their answers."""
        self._next += 1
        head = b"%d" % self._next
        batch = ReplyBatch(size, asyncio.get_running_loop().create_future())
        self._batches[head] = batch
        return head, batch

    def forget(self, token: bytes) -> None:
        """Wait no longer; late answers are dropped."""
        self._requests.pop(token, None)
        self._batches.pop(token, None)

    def on_reply(self, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Give an answer to whoever waits for it."""
        token = subject[self._start :]
        head, dash, index = token.partition(b"-")
        if dash:
            batch = self._batches.get(head)
            if batch is not None and index.isdigit():
                batch.put(int(index), headers, payload)
            return
        future = self._requests.pop(token, None)
        if future is not None and not future.done():
            future.set_result(Msg(subject, b"", headers, payload))

    def fail_all(self) -> None:
        """The connection is gone: nobody will be answered."""
        requests, self._requests = self._requests, {}
        batches, self._batches = self._batches, {}
        for future in requests.values():
            _fail(future)
        for batch in batches.values():
            _fail(batch.done)


def _fail(future: "asyncio.Future[Msg] | asyncio.Future[None]") -> None:
    if not future.done():
        future.set_exception(ConnectionLost())
        future.exception()  # an answer that nobody awaits any more is not an error
