"""Endings and the letters that are made of them."""

# Subject: dead letters

import pytest

from core.errors import ApiError
from core.model.consumer import AckPolicy, ConsumerConfig
from core.rules.consumer.dead_letter import (
    DeadLetter,
    EndedMessage,
    EndingReason,
    PendingDeadLetters,
    check,
    dead_letter_headers,
    dead_letter_subject,
)
from core.rules.consumer.machine import ConsumerMachine
from core.units import ConsumerSeq, Seq

SECOND = 1_000_000_000
ORIGIN = EndedMessage("S", "C", b"a.b", 1_700_000_000_000_000_000, b"NATS/1.0\r\nX: y\r\n\r\n")


def machine(*, watched: bool = True, **config: object) -> ConsumerMachine:
    settings: dict[str, object] = {
        "ack_policy": AckPolicy.EXPLICIT,
        "ack_wait": SECOND,
        "metadata": {"jetgate.dead_letter": "DEAD"},
    }
    made = ConsumerMachine(ConsumerConfig(**(settings | config)), 1, new_pin=lambda: "era")  # type: ignore[arg-type]
    if watched:
        made.settled = []
    made.stored(10)
    return made


def sseqs(reasons: PendingDeadLetters) -> list[int]:
    return [ending.sseq for ending in reasons.all()]


@pytest.mark.parametrize("char", ["x", "é", "\U0001f600", "."])
def test_a_letter_always_has_a_subject_that_can_be_stored(char: str) -> None:
    name = "c" * 255
    subject = b"s." + char.encode() * ((65535 - 2) // len(char.encode()))
    origin = EndedMessage(name, name, subject, 1)

    whole = dead_letter_subject("DEAD", ORIGIN, 65535)
    cut = dead_letter_subject("DEAD", origin, 65535)

    assert whole == b"DEAD.S.C.a.b"
    assert len(cut) <= 65535
    assert cut.decode().startswith(f"DEAD.{name}.{name}.s")
    assert not cut.endswith(b".")
    block = dead_letter_headers(origin, DeadLetter(7, 1, EndingReason.TERMINATED))
    assert b"\r\nJetgate-Dead-Subject: " + subject + b"\r\n" in block
    stripped = dead_letter_headers(
        origin, DeadLetter(7, 1, EndingReason.TERMINATED, b"r" * 1024), lacks="too-large"
    )
    assert len(stripped) < 2500
    assert b"\r\nJetgate-Dead-Subject: s." in stripped


def test_endings_are_numbered_and_taken_in_order() -> None:
    reasons = PendingDeadLetters()
    for sseq in (5, 3, 5, 9):
        reasons.add(DeadLetter(sseq, 1, EndingReason.TERMINATED), lambda: "era")

    assert [(number, ending.sseq) for number, ending in reasons.oldest(2, 9)] == [(1, 5), (2, 3)]
    assert [number for number, _ in reasons.oldest(9, 1)] == [1]
    assert reasons.oldest(9, 0) == []
    assert [ending.sseq for ending in reasons.remove_through(2)] == [5, 3]
    assert reasons.remove_through(2) == []
    assert (sseqs(reasons), reasons.last, reasons.era) == ([9], 3, "era")
    again = PendingDeadLetters("era", 3, reasons.all())
    assert [number for number, _ in again.oldest(9, 9)] == [3]


def test_a_message_is_settled_once_its_letter_is_stored() -> None:
    consumer = machine()
    consumer.deliver([1, 2], 0)

    consumer.terminate(Seq(1), ConsumerSeq(1), b"why")
    consumer.ack_each([1, 2])  # an acknowledgement that comes too late changes nothing
    assert (consumer.settled, sseqs(consumer.pending_dead_letters)) == ([2], [1])
    assert consumer.needs(1, b"a")

    consumer.remove_dead_letters(1)
    assert (consumer.settled, sseqs(consumer.pending_dead_letters)) == ([2, 1], [])
    assert not consumer.needs(1, b"a")


def test_abandoned_messages_are_recorded_and_then_settled() -> None:
    consumer = machine(max_deliver=1)
    consumer.deliver([1], 0)

    consumer.expire(2 * SECOND)
    assert consumer.pending_dead_letters.all() == [DeadLetter(1, 1, EndingReason.MAX_DELIVER)]
    assert consumer.is_open(1)

    consumer.remove_dead_letters(1)
    assert not consumer.is_open(1)
    assert consumer.pending.floor() == (1, 1)


def test_endings_hold_up_deliveries() -> None:
    consumer = machine(max_ack_pending=2)
    consumer.deliver([1, 2], 0)
    consumer.terminate(Seq(1), ConsumerSeq(1), b"")
    assert consumer.ack_pending_left() == 0
    consumer.remove_dead_letters(1)
    assert consumer.ack_pending_left() == 1


def test_a_reset_delivers_again_what_waits_for_its_letter() -> None:
    consumer = machine()
    consumer.deliver([1], 0)
    consumer.terminate(Seq(1), ConsumerSeq(1), b"")
    consumer.reset(1)

    consumer.remove_dead_letters(1)

    assert consumer.settled == []
    assert consumer.needs(1, b"a")


def test_without_the_option_nothing_is_noted() -> None:
    consumer = machine(metadata={}, max_deliver=1)
    consumer.deliver([1, 2], 0)
    consumer.terminate(Seq(1), ConsumerSeq(1), b"")
    consumer.expire(2 * SECOND)

    assert (len(consumer.pending_dead_letters), consumer.pending_dead_letters.era) == (0, "")


def test_giving_up_the_option_settles_what_waits() -> None:
    consumer = machine()
    consumer.deliver([1], 0)
    consumer.terminate(Seq(1), ConsumerSeq(1), b"")

    consumer.configure(ConsumerConfig(ack_policy=AckPolicy.EXPLICIT))

    assert (consumer.settled, len(consumer.pending_dead_letters)) == ([1], 0)


def test_a_dead_letter_has_headers_about_its_message() -> None:
    block = dead_letter_headers(
        ORIGIN, DeadLetter(7, 3, EndingReason.TERMINATED, b"no\r\nway")
    ).split(b"\r\n")

    assert block[:2] == [b"NATS/1.0", b"X: y"]
    assert b"Jetgate-Dead-Reason-Text: no  way" in block
    assert block[-2:] == [b"", b""]
    assert dead_letter_subject("DEAD", ORIGIN, 65535) == b"DEAD.S.C.a.b"
    assert dead_letter_subject("DEAD", EndedMessage("S", "C"), 65535) == b"DEAD.S.C"


def test_headers_that_have_an_effect_are_kept_without_it() -> None:
    headers = b"NATS/1.0\r\nNats-TTL: 1s\r\nJetgate-Dead-Stream: OLD\r\nA: b\r\n\r\n"
    lines = dead_letter_headers(ORIGIN._replace(headers=headers), DeadLetter(1, 1, 0)).split(
        b"\r\n"
    )

    assert lines[1:3] == [b"Jetgate-Dead-Kept-Nats-TTL: 1s", b"A: b"]
    assert [line for line in lines if b"Stream:" in line] == [b"Jetgate-Dead-Stream: S"]


@pytest.mark.parametrize(
    ("target", "policy"),
    [
        ("", AckPolicy.EXPLICIT),
        ("a b", AckPolicy.EXPLICIT),
        ("S", AckPolicy.EXPLICIT),
        ("DEAD", AckPolicy.NONE),
        ("DEAD", AckPolicy.FLOW_CONTROL),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: str, policy: AckPolicy) -> None:
    config = ConsumerConfig(ack_policy=policy, metadata={"jetgate.dead_letter": target})
    with pytest.raises(ApiError) as caught:
        check(config, "S")
    assert caught.value.err_code == 10012
