"""A WebSocket feed of a pull consumer: one pull request at a time, within the client's credit.

Messages that were fetched but not written when the feed ends are returned with `-NAK`.
"""

import asyncio
from collections import deque
from contextlib import suppress

from core.client import ClientError, Msg, Pull
from core.client.subscribe import JsMsg, NotJetStream
from core.errors import ApiError
from core.model.consumer import ConsumerConfig, NextRequest
from core.runtime.tasks import spawn, stop
from core.units import NANOS_PER_SECOND
from gateway.formats.validation import name
from gateway.http.problems import Problem, problem_of
from gateway.ws.credit import FeedCredit
from gateway.ws.frames import Interrupted, Subscribe, Subscribed
from gateway.ws.link import SLICE_BYTES, SLICE_MESSAGES, Feed, Link

_PULL_MESSAGES = 256
_PULL_BYTES = 256 * 1024
_EXPIRES_S = 30
_HEARTBEAT_S = 5
_SILENCE_S = 3.0 * _HEARTBEAT_S
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 2.0
_QUIET = (0, 404, 408)
_TOO_LARGE = "Message Size Exceeds MaxBytes"
_DELETED = "Consumer Deleted"


class DurableFeed(Feed):
    """A WebSocket feed that reads a pull consumer.

    Each message has a token that acknowledges it, even after the feed has ended.
    """

    kind = "durable"

    def __init__(self, link: Link, wanted: Subscribe, credit: FeedCredit) -> None:
        super().__init__(link, wanted, credit)
        self._id = wanted.id
        self._names = wanted.stream, wanted.consumer
        self._waiting: deque[JsMsg] = deque()
        self._may_ask = asyncio.Event()
        self._taken = asyncio.Event()
        self._taken.set()
        self._stopping = False
        self._pull: Pull | None = None
        self._reading: asyncio.Task[None] | None = None
        self._one_of_any_size = False
        self._most = _PULL_MESSAGES
        self._most_bytes = _PULL_BYTES
        self._expires = _EXPIRES_S * NANOS_PER_SECOND

    async def open(self) -> Subscribed:
        """Check the consumer, and start to read it.

        Raises Problem for a push consumer or a consumer with priority groups, ApiError if the
        consumer does not exist.
        """
        self._link.require_replies()
        stream, consumer = name(self._names[0], "stream"), name(self._names[1], "consumer")
        info = await self._link.gateway.js.consumer_info(stream, consumer)
        if info.config.is_push:
            raise Problem(409, "push-consumer", f"consumer {consumer!r} is not a pull consumer")
        if info.config.priority_groups:
            raise Problem(
                409,
                "priority-groups",
                f"consumer {consumer!r} has priority groups: use fetch over HTTP",
            )
        self._respect(info.config)
        self._reading = spawn(self._read(), name="durable feed")
        return Subscribed(self._id, self.sid, stream)

    def next_frames(self) -> bytes | None:
        """Return frames with the buffered messages; None if there are none."""
        waiting, codec = self._waiting, self._link.codec
        seal = self._link.gateway.tokens.seal
        bodies: list[bytes] = []
        size = 0
        while waiting and len(bodies) < SLICE_MESSAGES and size < SLICE_BYTES:
            msg = waiting.popleft()
            size += msg.size
            bodies.append(codec.delivered(msg, seal(msg.reply)))
        if not waiting:
            self._taken.set()
        self.count.sent += len(bodies)
        return self._frames(bodies, size) if bodies else None

    def granted(self) -> None:
        """Continue to pull after the client has granted more credit."""
        self._may_ask.set()

    async def drain(self) -> None:
        """Send no more pull requests; messages of the current pull request are still written."""
        self._stopping = True
        if self._pull is not None:
            self._pull.interrupt()
        self._may_ask.set()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def close(self) -> None:
        """Stop reading at once, and return unwritten messages to the consumer (`-NAK`)."""
        await super().close()
        await stop(self._reading)
        waiting, self._waiting = self._waiting, deque()
        with suppress(ClientError):  # the consumer redelivers after its ack wait
            await self._return_undelivered(list(waiting))

    def _respect(self, config: ConsumerConfig) -> None:
        """Limit pull requests to the batch, bytes and expiry that the consumer allows."""
        self._most = min(self._most, config.max_batch or self._most)
        self._most_bytes = min(self._most_bytes, config.max_bytes or self._most_bytes)
        self._expires = min(self._expires, config.max_expires or self._expires)

    async def _read(self) -> None:
        wait = _RETRY_FIRST_S
        while not self._stopping:
            try:
                problem = await self._ask()
            except (ApiError, ClientError) as error:
                if self._link.gateway.client.closed:
                    return
                problem = problem_of(error)
            if problem is None:
                wait = _RETRY_FIRST_S
                continue
            if not await self._still_there():
                return
            self._link.send_frame(Interrupted(self.sid, problem.members()))
            await asyncio.sleep(wait)
            wait = min(wait * 2, _RETRY_MAX_S)

    async def _ask(self) -> Problem | None:
        """Run one pull request within the credit.

        Returns the problem, or None if the pull request ended normally.
        """
        await self._taken.wait()
        messages, nbytes = self.credit.left()
        if not messages:
            self._may_ask.clear()
            await self._may_ask.wait()
            return None
        one, self._one_of_any_size = self._one_of_any_size, False
        request = NextRequest(
            batch=1 if one else min(messages, self._most),
            max_bytes=0 if one else min(nbytes, self._most_bytes),
            expires=self._expires,
            idle_heartbeat=min(_HEARTBEAT_S * NANOS_PER_SECOND, self._expires // 2),
        )
        pull = self._pull = self._link.gateway.js.pull(*self._names, request)
        silent = False
        try:
            while not pull.ended and not pull.interrupted and not silent:
                beats = pull.heartbeats
                silent = not await pull.changed(_SILENCE_S) and pull.heartbeats == beats
                self._put(pull.pop_messages())
        except BaseException:
            await pull.release()
            await self._return_undelivered(pull.pop_messages())
            raise
        finally:
            self._pull = None
        await pull.release()
        self._put(pull.pop_messages())
        return self._judge(pull, silent=silent)

    def _judge(self, pull: Pull, *, silent: bool) -> Problem | None:
        if pull.text == _TOO_LARGE:
            self._one_of_any_size = True
        elif silent:
            return Problem(503, "no-heartbeats", "no heartbeat of the consumer came in time")
        elif pull.status not in _QUIET and pull.text not in ("Batch Completed", ""):
            return Problem(503, "consumer-busy", f"{pull.status} {pull.text}")
        elif pull.status not in _QUIET:
            return Problem(
                503, "no-responders", "no server responds for this consumer at the moment"
            )
        return None

    async def _still_there(self) -> bool:
        """Return True if the consumer still exists; end the feed if it does not."""
        try:
            info = await self._link.gateway.js.consumer_info(*self._names)
            self._respect(info.config)
        except ApiError as error:
            if error.code == 404:
                self._ended(error)
                return False
        except ClientError:
            return not self._link.gateway.client.closed
        return True

    def _put(self, messages: list[Msg]) -> None:
        size = 0
        for msg in messages:
            try:
                made = JsMsg.of(msg, takes_acks=True)
            except NotJetStream:
                continue
            self._waiting.append(made)
            size += made.size
        if messages:
            self.credit.use(len(messages), size)
            self._taken.clear()
            self._wake()

    async def _return_undelivered(self, messages: list[Msg] | list[JsMsg]) -> None:
        if messages:
            with suppress(ClientError):
                replies = [msg.reply for msg in messages]
                await self._link.gateway.js.ack(replies, [b"-NAK"] * len(replies))
