"""Endless consuming of a consumer's messages over HTTP: a loop of fetches that wait for messages.

The loop continues after lost connections and restarts of the server.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from jetgate_client.errors import JetgateError, OutcomeUnknown, is_passing, problem_from
from jetgate_client.payloads import Message, members, origin
from jetgate_client.retrying import Backoff
from jetgate_client.transport import NDJSON, Transport, path_of
from jetgate_client.units import NANOS_PER_SECOND

_TOKENS = 10_000
_DRAIN_S = 1.0


@dataclass(frozen=True)
class Delivery(Message):
    """A delivery of a message to a consumer.

    Attributes:
        delivered: Number of deliveries of this message, including this one.
        pending: Number of messages that follow.
        token: Token that acknowledges the delivery; empty if the consumer needs none.
    """

    consumer: str
    consumer_seq: int
    delivered: int
    pending: int
    token: str
    _transport: Transport = field(repr=False, compare=False)

    async def ack(self, *, sync: bool = False) -> None:
        """Acknowledge the message. With `sync`, return after the server has recorded it.

        Raises Problem if the server refuses, OutcomeUnknown if it does not confirm: the message may
        be redelivered.
        """
        await send_acks(self._transport, "ack", [self], sync=sync)

    async def nak(self, *, delay: float = 0.0, sync: bool = False) -> None:
        """Request redelivery of the message, after `delay` seconds. Raises as `ack` does."""
        await send_acks(
            self._transport, "nak", [self], sync=sync, delay=int(delay * NANOS_PER_SECOND)
        )

    async def term(self, reason: str = "", *, sync: bool = False) -> None:
        """Terminate the message: it is never redelivered. Raises as `ack` does."""
        await send_acks(self._transport, "term", [self], sync=sync, reason=reason)

    async def progress(self, *, sync: bool = False) -> None:
        """Report work in progress, which restarts the ack wait. Raises as `ack` does."""
        await send_acks(self._transport, "progress", [self], sync=sync)


async def send_acks(
    transport: Transport, verb: str, deliveries: Iterable[Delivery], **fields: Any
) -> None:
    """Send the acknowledgement `verb` (such as `ack`) for deliveries.

    One request contains up to 10,000 deliveries of one consumer. A request without an answer is
    repeated. Tokens that the server could not confirm are sent once more. Raises the first Problem
    of a delivery, or OutcomeUnknown without a confirmation: such a message may be redelivered.
    """
    tokens: dict[tuple[str, str], list[str]] = {}
    for each in deliveries:
        if each.token:
            tokens.setdefault((each.stream, each.consumer), []).append(each.token)
    for (stream, consumer), all_of_them in tokens.items():
        path = path_of("streams", stream, "consumers", consumer, verb=verb)
        for begin in range(0, len(all_of_them), _TOKENS):
            await _send_acks(transport, path, all_of_them[begin : begin + _TOKENS], fields)


async def _send_acks(
    transport: Transport, path: str, tokens: list[str], fields: dict[str, Any]
) -> None:
    for _ in range(2):
        body = {"tokens": tokens, **fields}
        answer = await transport.repeat("POST", path, what=tokens[0], json=body)
        failed = {each["token"]: each["problem"] for each in answer.json()["failed"]}
        for members_of_it in failed.values():
            problem = problem_from(members_of_it)
            if not is_passing(problem):
                raise problem
        tokens = list(failed)
        if not tokens:
            return
    raise OutcomeUnknown(tokens[0]) from problem


@dataclass(frozen=True, slots=True)
class Fetch:
    """The parameters of a fetch, sent with each request of a `Consumption`.

    Attributes:
        batch: Maximum number of messages.
        expires: Time to wait for messages, in seconds.
        heartbeat: Interval of heartbeats, in seconds.
        max_bytes: Maximum size of the messages, in bytes; None: the server's limit.
        place: Further members of the request, for a priority group.
    """

    stream: str
    consumer: str
    batch: int
    expires: float
    heartbeat: float
    max_bytes: int | None
    place: dict[str, Any]

    def body(self) -> dict[str, Any]:
        """Return the members of the JSON request."""
        body = {
            "batch": self.batch,
            "expires": int(self.expires * NANOS_PER_SECOND),
            "heartbeat": int(self.heartbeat * NANOS_PER_SECOND),
            **self.place,
        }
        return body if self.max_bytes is None else body | {"max_bytes": self.max_bytes}


class Consumption:
    """An endless iteration over the messages of a consumer.

    Fetching resumes after lost connections, restarts, and two missing heartbeats. Errors that a
    retry cannot cure are raised. `aclose`, or the end of `async with`, naks the fetched messages
    that were not yielded.
    """

    def __init__(self, transport: Transport, fetch: Fetch) -> None:
        self._deliveries = transport.tracked(_Fetching(transport, fetch).run())

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._deliveries

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
        """Stop fetching, and nak the fetched messages that were not yielded."""
        await self._deliveries.aclose()


class _Fetching:
    """The loop of fetches. It has no reference to its iterator, so a dropped iterator ends it."""

    def __init__(self, transport: Transport, fetch: Fetch) -> None:
        self._transport = transport
        self._fetch = fetch

    async def run(self) -> AsyncGenerator[Delivery, None]:
        """Yield the deliveries, without end."""
        backoff = Backoff(self._transport.retry)
        while True:
            try:
                async with aclosing(self._once()) as deliveries:
                    async for delivery in deliveries:
                        backoff.reset()
                        yield delivery
                backoff.reset()
            except JetgateError as error:
                if not is_passing(error):
                    raise
                await backoff.wait(error)

    async def _once(self) -> AsyncGenerator[Delivery, None]:
        """Yield the deliveries of one fetch."""
        fetch = self._fetch
        path = path_of("streams", fetch.stream, "consumers", fetch.consumer, verb="fetch")
        async with self._transport.stream(
            "POST",
            path,
            silence=2 * fetch.heartbeat + 1,
            json=fetch.body(),
            headers={"Accept": NDJSON},
        ) as answer:
            waiting: deque[Delivery] = deque()
            pieces = answer.lines()
            any_came = False
            try:
                async for piece in pieces:
                    waiting += [self._delivery(line) for line in piece if line]
                    any_came = any_came or bool(waiting)
                    while waiting:
                        yield waiting.popleft()
            except GeneratorExit:
                if any_came:
                    await self._give_back(waiting, pieces)
                raise

    async def _give_back(self, waiting: deque[Delivery], pieces: AsyncIterator[list[str]]) -> None:
        """Nak the messages that were received but not yielded, and those that still arrive.

        A response ends soon after its first message, so the rest of it is awaited, for up to one
        second.
        """
        with suppress(JetgateError, TimeoutError, OSError):
            async with asyncio.timeout(_DRAIN_S):
                async for piece in pieces:
                    waiting += [self._delivery(line) for line in piece if line]
        with suppress(JetgateError):
            await send_acks(self._transport, "nak", waiting)

    def _delivery(self, line: str) -> Delivery:
        shown, payload = members(line)
        return Delivery(
            **origin(shown),
            payload=payload,
            consumer=self._fetch.consumer,
            consumer_seq=shown.get("consumer_seq", 0),
            delivered=shown.get("delivered", 0),
            pending=shown.get("pending", 0),
            token=shown.get("token", ""),
            _transport=self._transport,
        )
