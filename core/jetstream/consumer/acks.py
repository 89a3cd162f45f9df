"""The acknowledgements that clients send to one consumer: how they are applied and answered.

Plain acks of a consumer with ack policy explicit are collected, and applied together once per pass
of the event loop. All others (double acks, NAK, TERM, ...) are applied one by one, after the
collected ones. A double ack is answered once the consumer's state is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import randrange
from typing import TYPE_CHECKING, Protocol, cast

from core.goinput import text_of
from core.jetstream.state_writer import Stateful
from core.rules.consumer.acks.payloads import PLAIN, AckKind, parse
from core.rules.consumer.acks.sampling import Sampler
from core.units import ConsumerSeq, Seq

if TYPE_CHECKING:
    from core.jetstream.advisories import Advisories
    from core.jetstream.state_writer import StateWriter
    from core.model.consumer import ConsumerConfig
    from core.pubsub.account import Account, Session
    from core.rules.consumer.machine import ConsumerMachine
    from core.runtime.clock import Clock

_DIGITS_MAX = 20  # digits of a 64-bit number


class Consumer(Stateful, Protocol):
    """The interface of a consumer for the modules that process its acks, subscribers and info."""

    name: str
    config: ConsumerConfig
    created: int
    """Time of the consumer's creation, in nanoseconds since the Unix epoch."""
    machine: ConsumerMachine
    closed: bool
    used: int
    """Time of a client's last request or acknowledgement, in monotonic nanoseconds."""
    last_delivered: int
    """Time of the last delivery, in nanoseconds since the Unix epoch; 0: none yet."""
    last_acked: int
    """Time of the last acknowledgement, in nanoseconds since the Unix epoch; 0: none yet."""
    paused_until: int
    """Time at which to check whether the pause is over, monotonic nanoseconds; 0: not paused."""

    @property
    def in_memory(self) -> bool:
        """True if the configuration of the consumer or its stream asks for memory storage."""
        ...

    def wake(self) -> None:
        """Schedule the processing of collected acks for the end of this pass of the event loop."""
        ...


class AckIntake:
    """Applies the acknowledgements that clients send to one consumer.

    Args:
        consumer: The consumer.
        machine: The state machine of the consumer (`core.rules.consumer.machine`).
        account: The account to which answers are published.
        clock: The clock.
        states: Writes changed consumer states to storage.
        advisories: Publishes advisories on NAK, TERM and sampled acknowledgements.
        names: (stream name, consumer name).
    """

    def __init__(
        self,
        consumer: Consumer,
        machine: ConsumerMachine,
        account: Account,
        clock: Clock,
        states: StateWriter,
        advisories: Advisories,
        names: tuple[str, str],
    ) -> None:
        self._consumer = consumer
        self._machine = machine
        self._account = account
        self._clock = clock
        self._states = states
        self._advisories = advisories
        self._names = names
        self.noted: list[bytes] = []
        """Stream sequences of collected plain acks, as digits from the ack subject."""
        self.answers: list[bytes] = []
        """Reply subjects of double acks that wait for an answer."""
        self._each = False
        self.configure()

    def configure(self) -> None:
        """Choose from the consumer's configuration whether acks are applied one by one.

        Ack policy all and ack sampling require it; otherwise plain acks are collected.
        """
        machine = self._machine
        self._each = machine.acks_all or machine.sampler is not None

    def handle(
        self,
        parts: list[bytes],
        session: Session | None,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Apply one acknowledgement, or collect a plain one.

        `parts` is the ack subject in six parts: `$JS.ACK.<stream>.<consumer>`, delivery count,
        stream sequence, consumer sequence, time, messages left.
        """
        if payload in PLAIN and not reply and not self._each:
            self.noted.append(parts[2])
            self._consumer.wake()
            return
        try:
            sseq, cseq = _stream_seq(parts[2]), _consumer_seq(parts[3])
        except ValueError:
            return
        if self.noted:
            self.apply()
        self._apply_one(payload, sseq, cseq, parts, reply)
        self._consumer.wake()

    def handle_row(
        self, parted: list[list[bytes]], session: Session | None, payloads: list[bytes]
    ) -> None:
        """Apply or collect several acknowledgements without reply and headers, in order.

        `parted` are their ack subjects, each in six parts as for `handle`.
        """
        if not self._each and PLAIN.issuperset(payloads):
            self.noted += [parts[2] for parts in parted]
            self._consumer.wake()
            return
        for parts, payload in zip(parted, payloads, strict=True):
            self.handle(parts, session, b"", b"", payload)

    def _apply_one(
        self, payload: bytes, sseq: Seq, cseq: ConsumerSeq, parts: list[bytes], reply: bytes
    ) -> None:
        """Apply one acknowledgement according to its kind."""
        machine, now = self._machine, self._clock.monotonic()
        self._consumer.used = now
        kind, argument = parse(payload)
        known = machine.was_delivered(sseq)
        if kind in (AckKind.ACK, AckKind.NEXT, AckKind.TERM):
            if known:
                self._apply_plain(kind, argument, sseq, cseq, _deliveries(parts))
            if kind is AckKind.NEXT:
                machine.request(argument, reply, now)
                reply = b""
        elif kind is AckKind.NAK:
            if machine.nak(sseq, cseq, argument, now):
                self._advisories.naked(*self._names, cseq, sseq, _deliveries(parts))
        elif kind is AckKind.PROGRESS:
            machine.in_progress(sseq, now)
        if reply and (known or kind not in (AckKind.ACK, AckKind.TERM)):
            self.answers.append(reply)
        self._states.mark(self._consumer)

    def _apply_plain(
        self, kind: AckKind, reason: bytes, sseq: Seq, cseq: ConsumerSeq, count: int
    ) -> None:
        """Acknowledge or terminate a message in the state, and publish its advisories."""
        machine = self._machine
        # With ack policy all, an ack at or below the ack floor changes nothing.
        if not machine.acks_all or sseq > machine.pending.floor()[1]:
            self._consumer.last_acked = self._clock.now()
        sampler: Sampler | None = machine.sampler
        counts = kind is not AckKind.TERM and not machine.acks_all and machine.is_open(sseq)
        if counts and sampler is not None and sampler.wants(randrange(100)):
            waited = sampler.waited(sseq, self._clock.monotonic())
            self._advisories.acked(*self._names, cseq, sseq, waited, count)
        if kind is not AckKind.TERM:
            machine.ack(sseq, cseq)
        else:
            machine.terminate(sseq, cseq, reason)
            text = text_of(reason)
            self._advisories.terminated(*self._names, cseq, sseq, count, text)

    def apply(self) -> None:
        """Apply the collected plain acks to the consumer's state."""
        noted, self.noted = self.noted, []
        if not noted:
            return
        self._machine.ack_each(_numbers(noted))
        self._consumer.used = self._clock.monotonic()
        self._consumer.last_acked = self._clock.now()
        self._states.mark(self._consumer)

    def answer_later(self) -> None:
        """Answer the waiting double acks once the state that contains them is committed."""
        answers, self.answers = self.answers, []

        def answer() -> None:
            for reply in answers:
                self._account.publish(reply, b"", b"", b"")

        self._states.sync(self._consumer, answer)


def number(text: bytes) -> int:
    """Parse up to 20 ASCII digits as an int. Raises ValueError for any other text."""
    if not text.isdigit() or len(text) > _DIGITS_MAX:
        raise ValueError("not a sequence")
    return int(text)


# One function under the types of both numbers: a conversion would cost each acknowledgement a call.
_stream_seq = cast("Callable[[bytes], Seq]", number)
_consumer_seq = cast("Callable[[bytes], ConsumerSeq]", number)


def _numbers(texts: list[bytes]) -> list[int]:
    """Parse texts of up to 20 digits as ints; leave out other texts."""
    if all(texts) and b"".join(texts).isdigit():
        with suppress(ValueError):  # Python limits the digits that `int` parses.
            return list(map(int, texts))
    return [int(text) for text in texts if text.isdigit() and len(text) <= _DIGITS_MAX]


def _deliveries(parts: list[bytes]) -> int:
    """Return the delivery count in an ack subject; 0 if it is not a valid number."""
    return int(parts[1]) if parts[1].isdigit() and len(parts[1]) <= _DIGITS_MAX else 0
