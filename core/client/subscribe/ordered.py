"""Ordered subscriptions: every matching message of a stream, each once, in order, without acks.

Source: ADR-15, "Ordered Consumers", and the parts of ADR-17 and ADR-37 that are in use.

The consumer is recreated after the last received message whenever deliveries may be missing: after
a gap, missed heartbeats, its deletion, a lost connection, or a change of leader. A position is a
pair (incarnation, sequence); the incarnation of a stream is its creation time in nanoseconds.

Messages are requested (pulled) only as far as the buffer has free capacity, so a slow reader needs
bounded memory and loses nothing. A push consumer would send megabytes before flow control stops it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from core.client.errors import ClientError, ConnectionLost, NotPermitted
from core.client.jetstream import JetStream
from core.client.subscribe.acks import JsMsg
from core.client.subscribe.batched import Batched
from core.client.subscribe.deleting import delete_consumer
from core.client.subscribe.errors import (
    Interrupted,
    NotJetStream,
    PositionLost,
    Reason,
    SubscribeError,
)
from core.client.subscribe.lookup import find_stream
from core.client.subscribe.message_buffer import BufferLimits, MessageBuffer
from core.client.subscribe.puller import ANY_SIZE, Puller
from core.client.subscribe.push import OnAlarm
from core.client.subscribe.target import DeliveryKind, SubscriptionTarget
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy
from core.model.stream import StreamInfo
from core.runtime.tasks import spawn, stop
from core.units import NANOS_PER_SECOND

ORDERED_LIMITS = BufferLimits(8192, 4 * 1024 * 1024)

NOTHING = BufferLimits(0, 0)
_FEW_FIRST = 8
_FEW_MOST = 64
_STREAM_NOT_FOUND = err_code("JSStreamNotFound")
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 2.0
_OWN = (
    "ack_policy",
    "deliver_subject",
    "flow_control",
    "idle_heartbeat",
    "inactive_threshold",
    "max_deliver",
    "mem_storage",
    "num_replicas",
)


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a stream: the message after which reading continues.

    Attributes:
        incarnation: Creation time of the stream, in nanoseconds since the Unix epoch; 0: unknown.
        seq: Sequence of the last message read.
    """

    incarnation: int
    seq: int

    def __str__(self) -> str:
        """Return the position as `<incarnation>:<seq>`, the form of event ids of the gateway."""
        return f"{self.incarnation}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Parse the text `<incarnation>:<seq>`. Raises ValueError for any other text."""
        incarnation, colon, seq = text.partition(":")
        if not (colon and _is_number(incarnation) and _is_number(seq)):
            raise ValueError(f"not a position: {text[:60]!r}")
        return cls(int(incarnation), int(seq))


@dataclass(frozen=True, slots=True)
class OrderedSettings:
    """The settings of an ordered subscription.

    Attributes:
        after: Continue after this position; None: begin as the target's configuration selects.
        on_alarm: Called with each alarm. None: `batch` raises `PositionLost`; other alarms are
            ignored, since the subscription recovers by itself.
        limits: Capacity of the buffer, which limits the messages requested ahead.
        heartbeat: Seconds between the server's idle heartbeats, at least 0.1.
        inactive: Seconds without a pull request after which the server deletes the consumer. The
            subscription then recreates it.
        finite: True to end after the messages that exist now. The incarnation of the stream is then
            not checked.
    """

    after: Position | None = None
    on_alarm: OnAlarm | None = None
    limits: BufferLimits = ORDERED_LIMITS
    heartbeat: float = 5.0
    inactive: float = 30.0
    finite: bool = False


class OrderedSubscription(Batched):
    """An ordered subscription to a stream; created by `ordered`.

    *Life cycle*: ends with `unsubscribe` or `async with`, or when the client is closed. Also when
    the stream is deleted (`batch` raises the ApiError), or when the server refuses a request that
    it needs (NotPermitted).

    Attributes:
        stream: Name of the stream.
        incarnation: Creation time of the stream, in nanoseconds since the Unix epoch.
        start: Sequence after which the subscription began.
        pending: Number of matching messages when the current consumer was created.
        recovered: False once a position was lost, at the beginning (`OrderedSettings.after`) or
            later.
        restarts: Number of times the consumer was recreated.
    """

    def __init__(self, js: JetStream, target: SubscriptionTarget, reading: OrderedSettings) -> None:
        self.stream = target.stream
        self.consumer = ""
        self.incarnation = reading.after.incarnation if reading.after else 0
        self.start = 0
        self.pending = 0
        self.recovered = True
        self.restarts = 0
        self._js = js
        self._client = js.client
        self._target = target
        self._reading = reading
        self.inbox: MessageBuffer[JsMsg] = MessageBuffer(reading.limits, on_taken=self._ask)
        self._position: int | None = reading.after.seq if reading.after else None
        self._is_moved = reading.after is not None
        self._expected = 1
        self._few = 0
        self._largest = 1
        self._puller: Puller | None = None
        self._restart: asyncio.Task[None] | None = None

    # -- reading -----------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The position of the last message that arrived; before the first one, of the start."""
        return Position(self.incarnation, self._position or 0)

    @property
    def is_over(self) -> bool:
        """True if no more messages can be read, for example at the end of a finite subscription."""
        return self.inbox.is_over

    async def batch(
        self, messages: int = 1000, nbytes: int = 1 << 20, within: float | None = None
    ) -> list[JsMsg]:
        """Wait for messages, as `Batched.batch` does.

        Raises ConnectionLost if the client is closed, ApiError if the stream was deleted,
        NotPermitted if a needed request is refused, and PositionLost without `on_alarm`.
        """
        return await self.inbox.batch(messages, nbytes, within)

    # -- the end -----------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Drop the buffered messages; `batch` returns an empty list from now on."""
        self.inbox.end(drop=True)

    def end(self, error: Exception) -> None:
        """Stop receiving; `batch` raises `error` after the buffered messages."""
        self._stop_receiving()
        self.inbox.end(error)

    async def unsubscribe(self) -> None:
        """End at once and delete the consumer. Raises ApiError or ClientError if that failed.

        Without a connection the server deletes the consumer after `OrderedSettings.inactive`
        seconds.
        """
        self.inbox.end(drop=True)
        self._stop_receiving()
        await stop(self._restart)
        self._stop_receiving()
        consumer, self.consumer = self.consumer, ""
        if consumer:
            error = await delete_consumer(self._js, self.stream, consumer)
            if error is not None and not _is_gone(error):
                raise error

    def _stop_receiving(self) -> None:
        if self._puller is not None:
            self._puller.close()
            self._puller = None

    def _ask(self) -> None:
        if self._puller is not None:
            self._puller.ask()

    # -- creation of the consumer ------------------------------------------------------------

    async def _open(self) -> None:
        self.stream = await find_stream(self._js, self._target)
        try:
            await self._make()
            while self._puller is None:
                await self._make()  # the position was lost: read from the first message on
            self.start = self._position or 0
        except BaseException:
            with suppress(ApiError, ClientError):
                await self.unsubscribe()
            raise

    async def _make(self) -> None:
        """Create a consumer after the position; check that the stream still has the position."""
        js, stale = self._js, self.consumer
        self._expected = 1
        try:
            made = await js.create_ephemeral(self.stream, self._config())
            self.consumer, self.pending = made.name, made.num_pending
            info = None if self._reading.finite else await js.stream_info(self.stream)
        finally:
            if stale and stale != self.consumer:
                await delete_consumer(js, self.stream, stale)
        behind = made.delivered.stream_seq
        if info is None:
            self._position = max(self._position or 0, behind)
        elif not self._is_recovered(info, behind):
            return
        if self.inbox.ended:
            return
        config = made.config
        of_subjects = config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT
        self._few = _FEW_FIRST if of_subjects and not config.headers_only else 0
        self._puller = Puller(
            js,
            self,
            f"{self.stream}.{made.name}",
            batch_max=config.max_batch,
            heartbeat=self._reading.heartbeat,
            waits=not self._reading.finite,
        )
        self._puller.ask()

    def _config(self) -> ConsumerConfig:
        wanted: dict[str, Any] = dict(self._target.config)
        if self._is_moved:
            for name in ("deliver_policy", "opt_start_seq", "opt_start_time"):
                wanted.pop(name, None)
            if self._position is not None:
                wanted["deliver_policy"] = DeliverPolicy.BY_START_SEQUENCE
                wanted["opt_start_seq"] = self._position + 1
        wanted |= {
            "ack_policy": AckPolicy.NONE,
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": round(self._reading.inactive * NANOS_PER_SECOND),
        }
        target = replace(self._target, config=wanted)
        return target.new_config("")

    def _is_recovered(self, info: StreamInfo, behind: int) -> bool:
        """Check that the stream still has the position after which reading continues.

        Returns False if not: the position is of another incarnation, or beyond the end of the
        stream. All messages are then read, by another consumer than the new one. `behind` is the
        sequence after which the new consumer begins.
        """
        known, self.incarnation = self.incarnation, info.created
        wanted, state = self._position, info.state
        if wanted is None:
            self._position = behind
            policy = self._target.config.get("deliver_policy")
            self._is_moved = self._is_moved or policy is not DeliverPolicy.LAST_PER_SUBJECT
            return True
        is_other = known not in (0, info.created) or wanted > state.last_seq
        if is_other or (behind > wanted and state.first_seq > wanted + 1):
            self.recovered = False
            self._report(PositionLost(wanted, info.created, state.first_seq, state.last_seq))
        if is_other:
            self._position, self._is_moved = None, True
        else:
            self._position = max(wanted, behind)
        return not is_other

    # -- restarts ----------------------------------------------------------------------------

    def _begin_restart(self) -> None:
        self._stop_receiving()
        if self._restart is None or self._restart.done():
            self._restart = spawn(self._remake(), name="ordered subscription")

    async def _remake(self) -> None:
        """Recreate the consumer; retry until one delivers."""
        wait = _RETRY_FIRST_S
        while not self.inbox.ended and self._puller is None:
            try:
                await self._client.wait_connected()
                await self._make()
                self.restarts += 1
            except (ApiError, ClientError) as error:
                if self._client.closed:
                    return self.end(ConnectionLost())
                if isinstance(error, NotPermitted) or (
                    isinstance(error, ApiError) and error.err_code == _STREAM_NOT_FOUND
                ):
                    return self.end(error)
                self._report(Interrupted(error))
            if self._puller is None:
                await asyncio.sleep(wait)
                wait = min(wait * 2, _RETRY_MAX_S)

    # -- the puller's receiver ------------------------------------------------------------------

    def room(self) -> BufferLimits:
        """Return the number of messages and bytes to request from the consumer now.

        Both are 0 while the buffer is more than half full, to avoid many small requests. A consumer
        of the last message per subject gets small requests without a byte limit, because
        nats-server 2.15.1 skips a message that exceeds the limit.
        """
        if not self.inbox.is_half_empty:
            return NOTHING
        room = self.inbox.room
        if not self._few:
            return room
        few = max(1, min(self._few, room.messages, room.nbytes // self._largest))
        self._few = min(self._few * 2, _FEW_MOST)
        return BufferLimits(few, ANY_SIZE)

    def on_message(self, msg: JsMsg) -> None:
        if msg.consumer_seq != self._expected:
            self._begin_restart()
            return
        self._expected += 1
        self._position = msg.stream_seq
        self._is_moved = True
        if self._few:
            self._largest = max(self._largest, msg.size)
        self.inbox.put(msg)

    def on_heartbeat(self, last_consumer: int | None) -> None:
        if last_consumer not in (None, self._expected - 1):
            self._begin_restart()

    def on_nothing(self) -> None:
        self._stop_receiving()
        self.inbox.end()

    def on_read(self) -> None:
        self.inbox.wake()

    def on_failure(self, error: ClientError) -> None:
        if isinstance(error, NotPermitted):
            self.end(error)
            return
        self._report(error)
        self._begin_restart()

    def on_stray(self, error: NotJetStream) -> None:
        self._report(error)

    def on_restored(self) -> None:
        self._begin_restart()

    def on_closed(self) -> None:
        self.end(ConnectionLost())

    def _report(self, alarm: ClientError) -> None:
        if self._reading.on_alarm is not None:
            self._reading.on_alarm(alarm)
        elif isinstance(alarm, PositionLost):
            self.inbox.put_alarm(alarm)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _is_gone(error: Exception) -> bool:
    """Return whether a failed deletion is no fault: the consumer or the connection is missing."""
    return isinstance(error, ConnectionLost) or (isinstance(error, ApiError) and error.code == 404)


def _check(target: SubscriptionTarget) -> None:
    for name in ("consumer", "durable", "queue"):
        if getattr(target, name):
            raise SubscribeError(Reason.RESERVED, name)
    for name in _OWN:
        if name in target.config:
            raise SubscribeError(Reason.RESERVED, name)
    target.check(DeliveryKind.PUSH)


async def ordered(
    js: JetStream, target: SubscriptionTarget, reading: OrderedSettings | None = None
) -> OrderedSubscription:
    """Open an ordered subscription to a stream.

    Raises:
        SubscribeError: The target is invalid, or no stream has its subject.
        ApiError: The server refused the consumer.
        ClientError: The server did not answer.
    """
    _check(target)
    subscription = OrderedSubscription(js, target, reading or OrderedSettings())
    await subscription._open()
    return subscription
