"""Push subscriptions, plain and of a queue group (ADR-15).

Messages are passed to a handler, one list per socket read; or they are kept in a bounded buffer
until `batch` returns them. Nothing is created, awaited or scheduled per message.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from core.client.client import Subscription, Watch
from core.client.errors import ClientError, ConnectionLost
from core.client.jetstream import JetStream
from core.client.msg import Msg
from core.client.subscribe import lookup
from core.client.subscribe.acks import PREFIX, Acking, JsMsg
from core.client.subscribe.batched import Batched
from core.client.subscribe.deleting import delete_consumer
from core.client.subscribe.errors import (
    Alarm,
    HandlerFailed,
    HeartbeatsMissed,
    MessagesMissed,
    NotDeleted,
    NotJetStream,
    SlowConsumer,
    StatusRaised,
)
from core.client.subscribe.message_buffer import BufferLimits, MessageBuffer
from core.client.subscribe.status import CONTROL, HIDDEN, Control, HeartbeatWatch, read_status
from core.client.subscribe.target import SubscriptionTarget
from core.model.consumer import AckPolicy, ConsumerInfo
from core.runtime.tasks import spawn
from core.units import NANOS_PER_SECOND, ConsumerSeq

OnMessages = Callable[[list[JsMsg]], None]
OnAlarm = Callable[[ClientError], None]

PUSH_LIMITS = BufferLimits(65_536, 64 * 1024 * 1024)

_ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class PushSettings:
    """The settings of a push subscription.

    Attributes:
        handler: Called with all messages of one socket read. None: `batch` returns the messages.
        on_alarm: Called with each alarm; required with a handler. None: `batch` raises alarms in
            order.
        limits: Capacity of the buffer for `batch`. Messages beyond it are dropped with a
            `SlowConsumer` alarm (and redelivered if they need acknowledgement).
        heartbeats_missed: Number of missed idle heartbeats that raise an alarm.
        finds_gaps: True to raise an alarm for gaps in the consumer's sequences; never in queue
            groups.
    """

    handler: OnMessages | None = None
    on_alarm: OnAlarm | None = None
    limits: BufferLimits = PUSH_LIMITS
    heartbeats_missed: int = 3
    finds_gaps: bool = True

    def __post_init__(self) -> None:
        if self.handler is not None and self.on_alarm is None:
            raise ValueError("a handler without on_alarm: alarms would be lost")


class PushSubscription(Acking, Batched):
    """A subscription to a push consumer; created by `push`.

    *Life cycle*: ends with `unsubscribe`, `drain` or `async with`, or when the client is closed.
    `unsubscribe` and `drain` delete the consumer if it was created for this subscription.

    Attributes:
        stream: Name of the stream.
        consumer: Name of the consumer.
        created: True if the consumer was created for this subscription.
        info: The consumer as found or created.
        dropped: Number of messages dropped because the buffer was full.
    """

    def __init__(self, js: JetStream, reading: PushSettings) -> None:
        super().__init__(js.client, js.timeout)
        self.stream = ""
        self.consumer = ""
        self.created = False
        self.info = ConsumerInfo()
        self.dropped = 0
        self._js = js
        self._reading = reading
        self._handler = reading.handler
        self._inbox: MessageBuffer[JsMsg] = MessageBuffer(
            reading.limits, self._answer, self._on_taken
        )
        self._sub: Subscription | None = None
        self._watch: HeartbeatWatch | None = None
        self._expected: int | None = None
        self._finds_gaps = reading.finds_gaps
        self._takes_acks = True
        self._was_full = False
        self._drained: asyncio.Event | None = None
        self._held: list[Msg] | None = []

    # -- reading -----------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True if no more messages arrive and all were read."""
        return self._inbox.is_over

    async def batch(
        self, messages: int = 1000, nbytes: int = 1 << 20, within: float | None = None
    ) -> list[JsMsg]:
        """Wait for messages, as `Batched.batch` does.

        Raises alarms in order if there is no `on_alarm`, ConnectionLost if the client is closed,
        and RuntimeError if the subscription has a handler.
        """
        if self._handler is not None:
            raise RuntimeError("the messages of this subscription go to its handler")
        return await self._inbox.batch(messages, nbytes, within)

    # -- the end -----------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """End at once; delete the consumer if it was created for this subscription.

        Raises ApiError or ClientError if it could not be deleted.
        """
        self._stop_receiving()
        self._inbox.end(drop=True)
        error = await self._delete()
        if self._drained is not None:
            self._drained.set()
        if error is not None:
            raise error

    async def drain(self) -> None:
        """Stop receiving, and end after all messages sent before were read.

        Returns when no more can arrive. The consumer is deleted after the last message was read; a
        failure raises the alarm `NotDeleted`. Use `over` to wait for the deletion.
        """
        if self._sub is None or self._drained is not None:
            return
        self._drained = asyncio.Event()
        await self._client.drain_subscription(self._sub)
        self._stop_receiving()
        self._inbox.end()
        self._check_drained()

    async def over(self) -> None:
        """Wait until a drain is complete and its consumer is deleted.

        Returns at once if no drain was begun.
        """
        if self._drained is not None:
            await self._drained.wait()

    async def __aexit__(self, *_: object) -> None:
        if self._drained is None or not self._drained.is_set():
            await self.unsubscribe()

    def _check_drained(self) -> None:
        if self._drained is not None and self._inbox.ended and self._inbox.messages == 0:
            spawn(self._end_drain(), name="subscription drained")

    async def _end_drain(self) -> None:
        consumer = self.consumer
        error = await self._delete()
        if error is not None:
            self._report(NotDeleted(consumer, error))
        if self._drained is not None:
            self._drained.set()

    def _stop_receiving(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        if self._sub is not None:
            self._sub.unsubscribe()
            self._sub = None

    async def _delete(self) -> Exception | None:
        if not self.created:
            return None
        self.created = False
        return await delete_consumer(self._js, self.stream, self.consumer)

    # -- the beginning -----------------------------------------------------------------------

    async def _open(self, target: SubscriptionTarget) -> None:
        def subscribe(subject: bytes) -> Subscription:
            watch, queue = Watch(self._on_client_closed), target.queue.encode()
            client = self._js.client
            return client.subscribe(subject, self._on_batch, queue=queue, watch=watch)

        found, sub = await lookup.find_push(self._js, target, subscribe)
        assert found.info is not None
        self.stream, self.consumer, self.created = found.stream, found.consumer, found.created
        self.info = found.info
        self._sub = sub
        config = found.info.config
        self._takes_acks = config.ack_policy is not AckPolicy.NONE
        self._finds_gaps = self._reading.finds_gaps and not config.deliver_group
        seconds = config.idle_heartbeat * self._reading.heartbeats_missed / NANOS_PER_SECOND
        self._watch = HeartbeatWatch(seconds, self._on_silence)
        self._watch.start()
        if found.created:
            self._expected = 1
        held, self._held = self._held or [], None
        if held:
            self._on_batch(held)

    # -- receiving ---------------------------------------------------------------------------

    def _on_batch(self, batch: list[Msg]) -> None:
        if self._held is not None:  # `_open` has not processed the consumer's creation yet
            self._held += batch
            return
        if self._sub is None:
            return
        if self._watch is not None:
            self._watch.reset()
        inbox = self._inbox
        for msg in batch:
            if not msg.reply.startswith(PREFIX):
                self._on_other(msg)
                continue
            try:
                made = JsMsg.of(msg, takes_acks=self._takes_acks)
            except NotJetStream as error:
                self._report(error)
                continue
            if self._finds_gaps:
                self._find_gap(made.consumer_seq)
            if inbox.is_full and self._handler is None:
                self._drop()
            else:
                inbox.put(made)
        self._pass_to_handler()

    def _find_gap(self, consumer_seq: ConsumerSeq) -> None:
        expected = self._expected
        self._expected = consumer_seq + 1
        if expected is not None and consumer_seq > expected:
            self._report(MessagesMissed(expected, consumer_seq))

    def _drop(self) -> None:
        self.dropped += 1
        if not self._was_full:
            self._was_full = True
            if self._reading.on_alarm is not None:
                self._reading.on_alarm(SlowConsumer(self.dropped))

    def _on_taken(self) -> None:
        if self._was_full:  # the reader continues: report the number of dropped messages
            self._was_full = False
            if self._reading.on_alarm is None:
                self._inbox.put_alarm(SlowConsumer(self.dropped))
        self._check_drained()

    def _on_other(self, msg: Msg) -> None:
        code, text = read_status(msg)
        if code == CONTROL:
            control = Control(msg)
            if control.answer:
                self._inbox.put_flow_control(control.answer)
            if self._finds_gaps and control.last_consumer is not None:
                self._find_gap_behind(control.last_consumer)
        elif not code:
            self._report(NotJetStream(msg.reply))
        elif code not in HIDDEN:
            self._report(StatusRaised(code, text))

    def _find_gap_behind(self, last_consumer: int) -> None:
        """Compare the last delivery that a heartbeat reports with the last one that arrived."""
        expected, self._expected = self._expected, last_consumer + 1
        if expected is not None and last_consumer >= expected:
            self._report(MessagesMissed(expected, last_consumer + 1))

    def _pass_to_handler(self) -> None:
        handler = self._handler
        if handler is None:
            self._inbox.wake()
            return
        while self._inbox.messages:
            try:
                handler(self._inbox.pop(_ALL, _ALL))
            except Exception as error:
                self._report(HandlerFailed(error))

    def _on_silence(self, seconds: float) -> None:
        self._report(HeartbeatsMissed(seconds))

    def _on_client_closed(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._inbox.end(ConnectionLost())

    def _answer(self, subject: bytes) -> None:
        self._client.publish(subject, b"")

    def _report(self, alarm: Alarm | NotJetStream) -> None:
        if self._reading.on_alarm is not None:
            self._reading.on_alarm(alarm)
        else:
            self._inbox.put_alarm(alarm)


async def push(
    js: JetStream, target: SubscriptionTarget, reading: PushSettings | None = None
) -> PushSubscription:
    """Subscribe to a push consumer; it is created if it does not exist.

    If this fails, no consumer is left on the server. One exception: if the response to the creation
    is lost, the consumer stays, and the server deletes it when inactive unless it is durable.

    Raises:
        SubscribeError: The target is invalid, or differs from the existing consumer.
        ApiError: The lookup or the creation of the consumer failed.
        ClientError: The server did not answer.
    """
    subscription = PushSubscription(js, reading or PushSettings())
    await subscription._open(target)
    return subscription
