"""Fetching without end: a loop of long polls that outlives servers and connections."""

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

_TOKENS = 10_000
_DRAIN_S = 1.0


@dataclass(frozen=True)
class Delivery(Message):
    """A delivery of a message to a consumer.

    `delivered`: how often it was, this time included; `pending`: how many messages follow;
    `token`: what acknowledges it, empty where the consumer wants no acknowledgement.
    """

    consumer: str
    consumer_seq: int
    delivered: int
    pending: int
    token: str
    _transport: Transport = field(repr=False, compare=False)

    async def ack(self, *, sync: bool = False) -> None:
        """It is done. `sync`: return when the server has recorded it.

        Raises Problem, and OutcomeUnknown when nobody confirms it: it may be delivered again.
        """
        await settle(self._transport, "ack", [self], sync=sync)

    async def nak(self, *, delay: float = 0.0, sync: bool = False) -> None:
        """Give it back, to be delivered again after `delay` seconds."""
        await settle(self._transport, "nak", [self], sync=sync, delay=int(delay * 1e9))

    async def term(self, reason: str = "", *, sync: bool = False) -> None:
        """Never deliver it again."""
        await settle(self._transport, "term", [self], sync=sync, reason=reason)

    async def progress(self, *, sync: bool = False) -> None:
        """Still working: the ack wait begins again."""
        await settle(self._transport, "progress", [self], sync=sync)


async def settle(
    transport: Transport, verb: str, deliveries: Iterable[Delivery], **said: Any
) -> None:
    """Acknowledge deliveries, in one request for each consumer and 10,000 of them.

    A request without an answer is repeated, and so is, once, what the server could not confirm.
    Raises the first Problem of those that had no effect, and OutcomeUnknown for what nobody
    confirms: it may be delivered again.
    """
    tokens: dict[tuple[str, str], list[str]] = {}
    for each in deliveries:
        if each.token:
            tokens.setdefault((each.stream, each.consumer), []).append(each.token)
    for (stream, consumer), all_of_them in tokens.items():
        path = path_of("streams", stream, "consumers", consumer, verb=verb)
        for begin in range(0, len(all_of_them), _TOKENS):
            await _settle(transport, path, all_of_them[begin : begin + _TOKENS], said)


async def _settle(transport: Transport, path: str, tokens: list[str], said: dict[str, Any]) -> None:
    for _ in range(2):
        body = {"tokens": tokens, **said}
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
    """How a consumer is fetched from. Times in seconds."""

    stream: str
    consumer: str
    batch: int
    expires: float
    heartbeat: float
    max_bytes: int | None
    place: dict[str, Any]

    def body(self) -> dict[str, Any]:
        """The request."""
        body = {
            "batch": self.batch,
            "expires": int(self.expires * 1e9),
            "heartbeat": int(self.heartbeat * 1e9),
            **self.place,
        }
        return body if self.max_bytes is None else body | {"max_bytes": self.max_bytes}


class Consumption:
    """The messages of a consumer as they come, for as long as one iterates.

    Lost connections, restarts and a silence of two heartbeats are waited for and begun again; what
    cannot pass by itself is raised. `aclose`, or the end of `async with`, gives back what was
    fetched and not yet taken.
    """

    def __init__(self, transport: Transport, fetch: Fetch) -> None:
        self._deliveries = transport.kept(_Fetching(transport, fetch).run())

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
        """Stop, and give back what was fetched and not taken."""
        await self._deliveries.aclose()


class _Fetching:
    """One fetch after the other; it knows nothing of who iterates, and so ends when he is gone."""

    def __init__(self, transport: Transport, fetch: Fetch) -> None:
        self._transport = transport
        self._fetch = fetch

    async def run(self) -> AsyncGenerator[Delivery, None]:
        """The deliveries, without end."""
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
        """One long poll."""
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
        """Give back what is here and what is on its way: an answer ends soon after it began."""
        with suppress(JetgateError, TimeoutError, OSError):
            async with asyncio.timeout(_DRAIN_S):
                async for piece in pieces:
                    waiting += [self._delivery(line) for line in piece if line]
        with suppress(JetgateError):
            await settle(self._transport, "nak", waiting)

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
