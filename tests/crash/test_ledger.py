"""The checker objects to each kind of wrong."""

import pytest

from tests.crash.ledger import Ledger, Stored, check


def sound() -> tuple[Ledger, Stored]:
    """A short history and the log that fits it."""
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


def test_disorder_of_one_publisher_is_seen() -> None:
    ledger, stored = sound()
    ledger.acked = {b"p-1": 3, b"p-2": 1}
    stored[1], stored[3] = (b"p-2", 1), (b"p-1", 3)

    assert "order" in judge(ledger, stored)
