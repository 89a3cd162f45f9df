"""The table of ADR-15: a row for each sentence that says what a client does, and who plays it.

A row is a coroutine function with the section and the sentence, in our words. It gets a `Desk`: the
subscriber under test, another client beside it, and a stream of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from core.client import Connector, JetStream, Link, Msg, connect
from core.client.link import Closed, Receive
from core.client.subscribe import (
    HeartbeatsMissed,
    JsMsg,
    OrderedSettings,
    PushSettings,
    PushSubscription,
    Reason,
    SubscribeError,
    SubscriptionTarget,
    push,
)
from core.errors import ApiError
from core.model.consumer import AckPolicy, ConsumerConfig, ConsumerInfo
from core.model.stream import Storage, StreamConfig
from core.protocol import encoder
from tests.support.eventually import observed

HEARTBEAT = 100_000_000
"""The shortest that servers grant, in nanoseconds."""

_numbers = count(1)


class Spied:
    """A link that keeps what its client writes."""

    def __init__(self, link: Link, written: list[bytes]) -> None:
        self._link = link
        self._written = written

    @property
    def paused(self) -> bool:
        return self._link.paused

    def write(self, data: bytes) -> None:
        self._written.append(data)
        self._link.write(data)

    def pause_reading(self) -> None:
        self._link.pause_reading()

    def resume_reading(self) -> None:
        self._link.resume_reading()

    def abort(self) -> None:
        self._link.abort()

    def close(self) -> None:
        self._link.close()


class Desk:
    """Two clients of one server, and a stream over `<prefix>.>`.

    Attributes:
        js: of the client under test; what it writes is in `written`.
        other: of another client.
        gate: while it is not set, the client under test cannot connect again.
        alarms: what the subscriptions of `reading` told.
    """

    def __init__(
        self, js: JetStream, other: JetStream, written: list[bytes], gate: asyncio.Event
    ) -> None:
        self.receive: Receive = js.client._received
        self.js = js
        self.other = other
        self.gate = gate
        self.client = js.client
        self.alarms: list[Exception] = []
        self._written = written
        number = next(_numbers)
        self.name = f"ADR{number}"
        self.prefix = f"adr{number}"
        self.all = f"{self.prefix}.>"

    async def open(self, **config: Any) -> None:
        """Create the stream."""
        wanted = StreamConfig(
            name=self.name, subjects=(self.all,), storage=Storage.MEMORY, **config
        )
        await self.other.create_stream(wanted)

    def subject(self, rest: str = "a") -> str:
        return f"{self.prefix}.{rest}"

    def written(self) -> bytes:
        """What the client under test has sent so far, in order."""
        return b"".join(self._written)

    async def fill(self, number: int, rest: str = "a", body: bytes = b"x") -> None:
        """Publish messages; they are stored when this returns."""
        subject = self.subject(rest).encode()
        for start in range(0, number, 500):
            some = min(500, number - start)
            answers = self.other.client.request_many([subject] * some, [body] * some)
            assert await answers.settled(30)

    async def consumer(self, name: str = "C", **config: Any) -> ConsumerInfo:
        """Create a consumer as another process would."""
        given = {"durable_name": name, "ack_policy": AckPolicy.EXPLICIT} | config
        return await self.other.create_consumer(self.name, ConsumerConfig(**given))

    async def info(self, name: str) -> ConsumerInfo | None:
        """What the server has of a consumer; None where there is none."""
        try:
            return await self.other.consumer_info(self.name, name)
        except ApiError as error:
            if error.err_code != 10014:
                raise
            return None

    def target(self, **given: Any) -> SubscriptionTarget:
        """A target over the whole stream."""
        return SubscriptionTarget(**{"subject": self.all} | given)

    def reading(self, **given: Any) -> PushSettings:
        return PushSettings(**{"on_alarm": self.alarms.append} | given)

    def ordered(self, **given: Any) -> OrderedSettings:
        return OrderedSettings(**{"on_alarm": self.alarms.append, **given})

    async def push(self, reading: PushSettings | None = None, **given: Any) -> PushSubscription:
        return await push(self.js, self.target(**given), reading or self.reading())

    async def send(
        self, sub: PushSubscription, reply: bytes = b"", headers: bytes = b"", body: bytes = b""
    ) -> None:
        """Put a message in front of a subscription, as if the server sent it.

        Servers take none with the reply of a delivery from a client, so it is read by the client
        between two reads of its link.
        """
        assert sub._sub is not None
        await self.client.flush()
        deliver = sub.info.config.deliver_subject.encode()
        self.receive(encoder.message(deliver, sub._sub.sid, reply, headers, body))

    async def flush(self) -> None:
        """Wait until what both clients sent has arrived."""
        await self.other.client.flush()
        await self.client.flush()
        await self.other.client.flush()

    async def listen(self, subject: str) -> list[Msg]:
        """What is published to a subject from now on."""
        heard: list[Msg] = []
        self.other.client.subscribe(subject.encode(), heard.extend)
        await self.other.client.flush()
        return heard


async def refused(reason: Reason, subscribing: Awaitable[object]) -> None:
    """Expect a refusal of the client's own."""
    with pytest.raises(SubscribeError) as caught:
        await subscribing
    assert caught.value.reason is reason, caught.value


Body = Callable[[Desk], Awaitable[None]]


@dataclass(frozen=True)
class Row:
    """A sentence of the ADR and what shows that it holds.

    One that is hurried proves nothing when the machine stands still meanwhile, and is played again.
    """

    section: str
    sentence: str
    body: Body
    is_hurried: bool = False

    @property
    def name(self) -> str:
        return self.body.__name__


ROWS: list[Row] = []


def row(section: str, sentence: str, *, is_hurried: bool = False) -> Callable[[Body], Body]:
    """Enter a row into the table."""

    def enter(body: Body) -> Body:
        ROWS.append(Row(section, sentence, body, is_hurried))
        return body

    return enter


async def play(connector: Connector, body: Body) -> None:
    """Play a row over links of a connector and leave nothing behind."""
    written: list[bytes] = []
    gate = asyncio.Event()
    gate.set()

    async def spied(receive: Receive, closed: Closed) -> Link:
        await gate.wait()
        return Spied(await connector(receive, closed), written)

    client, other = await connect(spied), await connect(connector)
    desk = Desk(JetStream(client, timeout=30), JetStream(other, timeout=30), written, gate)
    try:
        async with asyncio.timeout(60):
            await desk.open()
            await body(desk)
    finally:
        await desk.other.delete_stream(desk.name)
        await client.close()
        await other.close()


async def play_row(connector: Connector, row: Row) -> None:
    """Play a row; again, if it is hurried, failed, and the machine stood still meanwhile."""
    for left in reversed(range(5 if row.is_hurried else 1)):
        pauses: list[float] = []
        watching = asyncio.create_task(_watch(pauses))
        try:
            return await play(connector, row.body)
        except (AssertionError, HeartbeatsMissed):
            if not left or max(pauses, default=0.0) < HEARTBEAT / 1e9:
                raise
        finally:
            watching.cancel()


async def _watch(pauses: list[float]) -> None:
    """Note how long each tick of the loop and the machine took."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(0.02)
        pauses.append(loop.time() - before)


async def taken(sub: Any, number: int, within: float = 20.0) -> list[JsMsg]:
    """So many messages of a subscription."""
    found: list[JsMsg] = []
    async with asyncio.timeout(within):
        while len(found) < number:
            found += await sub.batch(number - len(found))
    return found


async def gone(desk: Desk, name: str) -> None:
    """Wait until a consumer does not exist any more."""

    async def is_gone() -> bool:
        return await desk.info(name) is None

    await observed(is_gone)


async def until(observe: Callable[[], Any], within: float = 20.0) -> Any:
    """Wait until something is true."""
    return await observed(observe, within=within)


async def consumers(desk: Desk) -> int:
    """How many consumers the stream has."""
    return (await desk.other.stream_info(desk.name)).state.consumer_count
