"""The acknowledgements of one consumer: gathered, applied once per turn, answered when durable.

Plain acknowledgements of a consumer with policy explicit are only noted; everything else (a
double ack, NAK, TERM, ...) is carried out one by one, after the noted ones.
"""

from __future__ import annotations

from contextlib import suppress
from random import randrange
from typing import TYPE_CHECKING, Protocol

from core.consumer import acks
from core.consumer.acks import AckKind
from core.consumer.sampling import Sampler
from core.goinput import text_of
from core.jetstream.state_writer import Stateful

if TYPE_CHECKING:
    from core.consumer.machine import ConsumerMachine
    from core.jetstream.advisories import Advisories
    from core.jetstream.state_writer import StateWriter
    from core.model.consumer import ConsumerConfig
    from core.pubsub.account import Account, Session
    from core.runtime.clock import Clock

_DIGITS_MAX = 20  # of a number of 64 bits


class Consumer(Stateful, Protocol):
    """A consumer, as its acknowledgements, its listeners and CONSUMER.INFO know it."""

    name: str
    config: ConsumerConfig
    created: int
    """When it was created, wall-clock nanoseconds."""
    machine: ConsumerMachine
    closed: bool
    used: int
    """When a client last asked for or acknowledged something, monotonic nanoseconds."""
    last_delivered: int
    """When it last delivered something, wall-clock nanoseconds; 0 = never."""
    last_acked: int
    """When the last acknowledgement came, wall-clock nanoseconds; 0 = never."""
    paused_until: int
    """When to see whether the pause is over, monotonic nanoseconds; 0 = not paused."""

    @property
    def in_memory(self) -> bool:
        """Whether its configuration, or that of its stream, asks for memory storage."""
        ...

    def wake(self) -> None:
        """Have acknowledgements applied in this turn of the loop."""
        ...


class AckIntake:
    """Takes the acknowledgements that clients send to one consumer.

    Args:
        consumer: Who is told what happened.
        machine: The rules.
        account: Where answers go.
        clock: The time.
        states: Stores what acknowledgements change.
        advisories: Tells of what is refused, terminated or sampled.
        names: Of the stream and of the consumer.
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
        """Stream sequences of plain acknowledgements, as they stood in the subject."""
        self.answers: list[bytes] = []
        """Who waits for an answer."""
        self._each = False
        self.configure()

    def configure(self) -> None:
        """Take the machine's configuration: whether every acknowledgement is looked at."""
        machine = self._machine
        self._each = machine.acks_all or machine.sampler is not None

    def take(
        self,
        parts: list[bytes],
        session: Session | None,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Take one acknowledgement; `parts` is its subject (see `AckTaker`)."""
        if payload in acks.PLAIN and not reply and not self._each:
            self.noted.append(parts[2])
            self._consumer.wake()
            return
        try:
            sseq, cseq = number(parts[2]), number(parts[3])
        except ValueError:
            return
        if self.noted:
            self.apply()
        self._act(payload, sseq, cseq, parts, reply)
        self._consumer.wake()

    def take_row(
        self, parted: list[list[bytes]], session: Session | None, payloads: list[bytes]
    ) -> None:
        """Take some acknowledgements without reply and headers, in order."""
        if not self._each and acks.PLAIN.issuperset(payloads):
            self.noted += [parts[2] for parts in parted]
            self._consumer.wake()
            return
        for parts, payload in zip(parted, payloads, strict=True):
            self.take(parts, session, b"", b"", payload)

    def _act(self, payload: bytes, sseq: int, cseq: int, parts: list[bytes], reply: bytes) -> None:
        """Carry out one acknowledgement that is not a plain one."""
        machine, now = self._machine, self._clock.monotonic()
        self._consumer.used = now
        kind, argument = acks.parse(payload)
        known = machine.was_delivered(sseq)
        if kind in (AckKind.ACK, AckKind.NEXT, AckKind.TERM):
            if known:
                self._settle(kind, argument, sseq, cseq, _deliveries(parts))
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

    def _settle(self, kind: AckKind, reason: bytes, sseq: int, cseq: int, count: int) -> None:
        """Finish a message. TERM counts as an acknowledgement of the same kind."""
        machine = self._machine
        # With all acknowledged up to it, it says nothing new.
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
        """Apply the plain acknowledgements that were noted."""
        noted, self.noted = self.noted, []
        if not noted:
            return
        self._machine.ack_each(_numbers(noted))
        self._consumer.used = self._clock.monotonic()
        self._consumer.last_acked = self._clock.now()
        self._states.mark(self._consumer)

    def answer_later(self) -> None:
        """Answer double acks once the state that contains them is durable."""
        answers, self.answers = self.answers, []

        def answer() -> None:
            for reply in answers:
                self._account.publish(reply, b"", b"", b"")

        self._states.sync(self._consumer, answer)


def number(text: bytes) -> int:
    """Read digits. Raises ValueError for anything else, and for more than a sequence has."""
    if not text.isdigit() or len(text) > _DIGITS_MAX:
        raise ValueError("not a sequence")
    return int(text)


def _numbers(texts: list[bytes]) -> list[int]:
    """Read those of the texts that are sequences: as a rule all of them."""
    if all(texts) and b"".join(texts).isdigit():
        with suppress(ValueError):  # Python reads some thousand digits and no more.
            return list(map(int, texts))
    return [int(text) for text in texts if text.isdigit() and len(text) <= _DIGITS_MAX]


def _deliveries(parts: list[bytes]) -> int:
    """How often the message was delivered, as its ack subject says."""
    return int(parts[1]) if parts[1].isdigit() and len(parts[1]) <= _DIGITS_MAX else 0
