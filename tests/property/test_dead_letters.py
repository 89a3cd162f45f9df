"""Dead letters across crashes: every message that ended has one letter, whatever is lost.

The consumer is the real one; storage is a model of what is durable: the consumer's state, written
late, and a target that stores letters together with the number of the last.
"""

# Subject: dead letters

from collections import Counter
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.model.consumer import AckPolicy, ConsumerConfig
from core.rules.consumer.dead_letter import DeadLetter
from core.rules.consumer.machine import ConsumerMachine
from core.rules.consumer.state import decode, encode
from core.units import Seq

SECOND = 1_000_000_000
STORED = 12
CONFIG = ConsumerConfig(
    ack_policy=AckPolicy.EXPLICIT,
    ack_wait=SECOND,
    max_deliver=2,
    max_ack_pending=1000,
    metadata={"jetgate.dead_letter": "DEAD"},
)


class DeadLetters(RuleBasedStateMachine):
    """A consumer of twelve messages, its stored state, and the target."""

    def __init__(self) -> None:
        super().__init__()
        self.now = SECOND
        self.eras = map("era{}".format, count())
        self.machine = self._new()
        self.stored = encode(self.machine.state(0))
        self.dead_letters: list[int] = []
        self.position: tuple[str, int] = ("", 0)
        self.planned: tuple[str, list[tuple[int, DeadLetter]]] | None = None
        self.due = 0
        self.acked: set[int] = set()

    def _new(self) -> ConsumerMachine:
        made = ConsumerMachine(CONFIG, 1, new_pin=lambda: next(self.eras))
        made.settled = []
        made.stored(STORED)
        return made

    # -- what clients and time do --------------------------------------------------------------

    @rule()
    def deliver(self) -> None:
        machine = self.machine
        if (again := machine.next_redelivery()) is not None:
            machine.redeliver(again, self.now)
        elif machine.next_seq <= STORED:
            machine.deliver([machine.next_seq], self.now)

    @rule(place=st.integers(0, 3), what=st.sampled_from(["ack", "term", "nak"]))
    def answer(self, place: int, what: str) -> None:
        pending = list(self.machine.pending.first.items())
        if place >= len(pending):
            return
        sseq, cseq = pending[place]
        if what == "ack":
            self.machine.ack_each([sseq])
            self.acked.add(sseq)
        elif what == "term":
            self.machine.terminate(Seq(sseq), cseq, b"why")
        else:
            self.machine.nak(Seq(sseq), cseq, b"", self.now)

    @rule()
    def wait(self) -> None:
        self.now += 2 * SECOND
        self.machine.expire(self.now)

    # -- what the node does --------------------------------------------------------------------

    @rule()
    def write_state(self) -> None:
        self.stored = encode(self.machine.state(0))
        self.due = self.machine.pending_dead_letters.last

    @rule()
    def plan(self) -> None:
        """Later: more messages may have ended, of which no durable state tells."""
        if self.planned is None and (
            batch := self.machine.pending_dead_letters.oldest(3, self.due)
        ):
            self.planned = self.machine.pending_dead_letters.era, batch

    @rule(told=st.booleans())
    def commit(self, told: bool) -> None:
        """The target stores what was planned; perhaps the node never hears of it."""
        if self.planned is None:
            return
        era, batch = self.planned
        known = self.position[1] if self.position[0] == era else 0
        self.dead_letters += [ending.sseq for number, ending in batch if number > known]
        self.position = era, max(known, batch[-1][0])
        self.planned = None
        if told:
            self.machine.remove_dead_letters(self.position[1])
        else:
            self.crash()

    @rule()
    def crash(self) -> None:
        self.planned = None
        self.machine = self._new()
        self.machine.restored(decode(self.stored), 0, lambda seq: True)
        self.due = self.machine.pending_dead_letters.last

    @invariant()
    def no_message_has_two_dead_letters(self) -> None:
        assert max(Counter(self.dead_letters).values(), default=0) <= 1

    def teardown(self) -> None:
        """Left to itself, every message ends: acknowledged, or with a letter."""
        for _ in range(20 * STORED):
            self.deliver()
            self.wait()
            self.write_state()
            self.plan()
            self.commit(told=True)
        self.no_message_has_two_dead_letters()
        assert set(self.dead_letters) | self.acked == set(range(1, STORED + 1))
        assert sorted(self.machine.settled or []) == sorted(set(self.machine.settled or []))


DeadLetters.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestDeadLetters = DeadLetters.TestCase
