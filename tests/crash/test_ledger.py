"""The checker finds each kind of violation."""

# Subject: crashes, tests

import pytest

from tests.crash.ledger import Ledger, Stored, check


def sound() -> tuple[Ledger, Stored]:
    """Return a short history and a log that agrees with it."""
    ledger = Ledger()
    stored: Stored = {}
    for seq, value in enumerate((b"p-1", b"ids-1", b"p-2"), 1):
        ledger.attempt(value)
        ledger.ack(value, seq)
        ledger.delivered(seq, value)
        ledger.confirm(seq)
        stored[seq] = (value, seq)
    return ledger, stored


def judge(ledger: Ledger, stored: Stored) -> str:
    return " / ".join(check(ledger, stored, with_id={b"ids"}))


def test_a_sound_run_passes() -> None:
    assert judge(*sound()) == ""


def test_an_unanswered_message_may_be_there() -> None:
    ledger, stored = sound()
    ledger.attempt(b"p-3")
    ledger.delivered(4, b"p-3")
    ledger.confirm(4)

    assert judge(ledger, stored | {4: (b"p-3", 9)}) == ""


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({3: None}, "lost"),
        ({3: (b"ids-1", 3)}, "lost"),
        ({4: (b"q-1", 4)}, "never sent"),
        ({4: (b"ids-1", 4)}, "stored 2 times"),
        ({3: (b"p-2", 0)}, "time goes back"),
        ({5: (b"p-2", 5)}, "gaps"),
        ({4: (b"p-2", 4)}, "never delivered"),
    ],
)
def test_a_wrong_log_is_seen(change: dict[int, tuple[bytes, int] | None], word: str) -> None:
    ledger, stored = sound()
    for seq, entry in change.items():
        stored.pop(seq, None)
        if entry is not None:
            stored[seq] = entry

    assert word in judge(ledger, stored)


def test_a_delivery_after_the_confirmation_is_seen() -> None:
    ledger, stored = sound()
    ledger.delivered(2, b"ids-1")

    assert "delivered again" in judge(ledger, stored)


def test_two_promises_for_one_message_are_seen() -> None:
    ledger, stored = sound()
    ledger.ack(b"ids-1", 7)

    assert "promised at 2 and at 7" in judge(ledger, stored)


def history(
    stored: list[bytes], *, again: tuple[bytes, ...] = (), unanswered: tuple[bytes, ...] = ()
) -> str:
    """Return the checker's findings on values stored in this order.

    Args:
        stored: The values, in the order of their sequences.
        again: Values that were sent twice.
        unanswered: Values without acknowledgement.
    """
    ledger = Ledger()
    log: Stored = {}
    for seq, value in enumerate(stored, 1):
        ledger.attempt(value)
        log[seq] = (value, seq)
        ledger.delivered(seq, value)
        ledger.confirm(seq)
    for value in again:
        ledger.attempt(value)
    # Acknowledgements arrive in the order of sending, which must not hide a wrong order.
    for seq, value in sorted(enumerate(stored, 1), key=lambda pair: pair[1]):
        if value not in unanswered:
            ledger.ack(value, seq)
    return " / ".join(check(ledger, log, with_id={b"ids"}))


def test_the_order_of_sending_is_sound() -> None:
    assert history([b"p-1", b"ids-1", b"p-2", b"ids-2", b"p-3"]) == ""


@pytest.mark.parametrize(
    "stored",
    [
        [b"p-2", b"p-1"],
        [b"p-1", b"p-3", b"p-2"],
        [b"p-2", b"p-3", b"p-1"],
        [b"ids-1", b"p-3", b"ids-2", b"p-1", b"p-2"],
        [b"ids-2", b"ids-1"],
    ],
)
@pytest.mark.parametrize("unanswered", [(), (b"p-1", b"ids-1"), (b"p-2", b"p-3", b"ids-2")])
def test_disorder_of_what_was_sent_once_is_seen(
    stored: list[bytes], unanswered: tuple[bytes, ...]
) -> None:
    assert history(stored, unanswered=unanswered).startswith("order: ")


def test_disorder_is_seen_whatever_the_order_of_acknowledgements() -> None:
    ledger, stored = sound()
    ledger.attempt(b"p-3")
    ledger.acked = {b"p-1": 3, b"p-3": 4, b"p-2": 1, b"ids-1": 2}
    stored |= {1: (b"p-2", 1), 3: (b"p-1", 3), 4: (b"p-3", 4)}

    assert "order: b'p-2' is at 1, b'p'-1 at 3" in judge(ledger, stored)


def test_a_repeated_message_may_stand_behind_one_that_was_sent_after_it() -> None:
    """The values 1, 2 and 3 are sent; 2 is refused; 4 is sent, and 2 again."""
    stored = [b"ids-1", b"ids-3", b"ids-4", b"ids-2"]

    assert history(stored, again=(b"ids-2",)) == ""
    assert history(stored).startswith("order: ")


def test_disorder_around_what_was_sent_again_is_seen() -> None:
    assert "order: b'ids-3'" in history([b"ids-2", b"ids-3", b"ids-1"], again=(b"ids-2",))


def test_a_refused_sending_that_was_stored_after_all_is_a_copy() -> None:
    stored = [b"ids-1", b"ids-2", b"ids-3", b"ids-2"]

    assert "b'ids-2' is stored 2 times" in history(stored)
