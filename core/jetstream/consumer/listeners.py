"""The subscribers of a push consumer: it delivers while its deliver subject has a subscriber."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.goinput import parse_uint
from core.model.consumer import AckPolicy, ConsumerConfig
from core.rules.consumer.delivery.push import Push
from core.rules.stream.headers import publish_headers
from core.units import ConsumerSeq

if TYPE_CHECKING:
    from core.jetstream.consumer.acks import Consumer
    from core.jetstream.state_writer import StateWriter
    from core.pubsub.account import Account, ServiceSubscription, Session
    from core.rules.consumer.machine import ConsumerMachine
    from core.runtime.clock import Clock

MAX_PAYLOAD = 1 << 20
_LAST_CONSUMER = b"Nats-Last-Consumer"
_LAST_STREAM = b"Nats-Last-Stream"


class Listeners:
    """Watches the subscribers and the flow-control answers of one push consumer.

    Args:
        consumer: The consumer; for a pull consumer all methods do nothing.
        machine: The state machine of the consumer (`core.rules.consumer.machine`).
        account: The account of the subscribers.
        clock: The clock.
        states: Writes changed consumer states to storage.
    """

    def __init__(
        self,
        consumer: Consumer,
        machine: ConsumerMachine,
        account: Account,
        clock: Clock,
        states: StateWriter,
    ) -> None:
        self._consumer = consumer
        self._machine = machine
        self._account = account
        self._clock = clock
        self._states = states

    def start(self) -> list[ServiceSubscription]:
        """Begin to watch the deliver subject.

        Returns the subscriptions to flow-control answers, which the caller has to end.
        """
        push = self._machine.push
        if push is None:
            return []
        found = []
        if push.prefix:
            found.append(self._account.subscribe(push.prefix + b"*", self._on_flow_control))
        self._account.on_interest.append(self._on_interest)
        self.watch()
        return found

    def close(self) -> None:
        """Stop watching the deliver subject."""
        if self._on_interest in self._account.on_interest:
            self._account.on_interest.remove(self._on_interest)

    def present(self) -> bool:
        """Return whether the deliver subject has a subscriber, in the configured queue group.

        As in nats-server, a wildcard subscription that covers the subject does not count.
        """
        config = self._consumer.config
        subject = config.deliver_subject.encode()
        if not subject:
            return False
        receivers = self._account.receivers(subject)
        if not config.deliver_group:
            direct = any(target.subject == subject for target in receivers.targets)
            if receivers.forwarder is not None and subject in receivers.forwarder.subjects:
                return True
            return direct or any(service.subject == subject for service in receivers.services)
        group = config.deliver_group.encode()
        if receivers.forwarder is not None and (group, subject) in receivers.forwarder.grouped:
            return True
        return any(
            member.queue == group and member.subject == subject
            for members in receivers.groups
            for member in members
        )

    def watch(self) -> None:
        """Start deliveries if the deliver subject has a subscriber, stop them otherwise."""
        push = self._machine.push
        if push is None:
            return
        bound, now = self.present(), self._clock.monotonic()
        if bound and not push.active:
            push.start(now)
        elif not bound and push.active:
            push.stop()
            self._consumer.used = now
        self._consumer.wake()

    def _on_interest(self, subject: bytes) -> None:
        deliver = self._consumer.config.deliver_subject
        if not deliver or self._consumer.closed:
            return
        if subject == deliver.encode():
            self.watch()

    def _on_flow_control(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        push = self._machine.push
        if push is not None and push.answered(subject):
            if headers and self._machine.flow_acks:
                self._acknowledged(publish_headers(headers))
            self._consumer.wake()

    def _acknowledged(self, told: dict[bytes, bytes]) -> None:
        """Apply the acknowledgement in the headers of a flow-control answer (ADR-60).

        The answer of a mirror or source may name a sequence beyond the last delivery, if this
        consumer lost its position. Then all deliveries are acknowledged.
        """
        machine = self._machine
        cseq, sseq = (parse_uint(told.get(name, b"")) for name in (_LAST_CONSUMER, _LAST_STREAM))
        if cseq is not None and sseq is not None:
            machine.ack_all(min(sseq, machine.delivered_sseq), ConsumerSeq(cseq))
            self._consumer.last_acked = self._clock.now()
            self._states.mark(self._consumer)


def make_push(config: ConsumerConfig, stream: bytes, name: str, burst: int = 0) -> Push | None:
    """Return the push state of a new consumer; None for a pull consumer.

    Args:
        config: Complete configuration.
        stream: Name of the stream.
        name: Name of the consumer.
        burst: Bytes of the largest message, which a rate limit lets pass at once; 0 or less: 1 MiB
            (`MAX_PAYLOAD`).
    """
    if not config.deliver_subject:
        return None
    flow = config.flow_control or config.ack_policy is AckPolicy.FLOW_CONTROL
    prefix = b"$JS.FC.%b.%b." % (stream, name.encode()) if flow else b""
    return Push(
        prefix, config.idle_heartbeat, config.rate_limit_bps, burst if burst > 0 else MAX_PAYLOAD
    )
