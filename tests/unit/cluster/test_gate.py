"""Publishes while nobody leads: held, then refused."""

from core.cluster.gate import Gate, Stage

SECOND = 1_000_000_000
PATIENCE = 2 * SECOND


def test_publishes_wait_from_the_start_until_somebody_leads() -> None:
    gate = Gate(PATIENCE, 0)

    assert gate.stage(SECOND, can_refuse=True) is Stage.HELD
    assert gate.change(True, SECOND)
    assert gate.stage(SECOND, can_refuse=True) is Stage.OPEN
    assert gate.stage(60 * SECOND, can_refuse=True) is Stage.OPEN
    assert gate.until is None


def test_after_a_loss_they_are_held_so_long_and_then_refused() -> None:
    gate = Gate(PATIENCE, 0)
    gate.change(True, 1)

    assert gate.change(False, 10 * SECOND)
    assert gate.until == 12 * SECOND
    assert gate.stage(12 * SECOND - 1, can_refuse=True) is Stage.HELD
    assert gate.stage(12 * SECOND, can_refuse=True) is Stage.REFUSING


def test_what_is_no_news_does_not_begin_the_time_anew() -> None:
    gate = Gate(PATIENCE, 0)

    assert not gate.change(False, SECOND)
    assert gate.until == PATIENCE
    gate.change(True, 3 * SECOND)
    assert not gate.change(True, 4 * SECOND)


def test_who_does_not_know_what_to_refuse_holds_on() -> None:
    gate = Gate(PATIENCE, 0)

    assert gate.stage(60 * SECOND, can_refuse=False) is Stage.HELD
    assert gate.stage(60 * SECOND, can_refuse=True) is Stage.REFUSING


def test_who_is_alone_holds_until_it_leads() -> None:
    gate = Gate(None, 0)

    assert gate.until is None
    assert gate.stage(3600 * SECOND, can_refuse=True) is Stage.HELD
    gate.change(True, 3600 * SECOND)
    assert gate.stage(3600 * SECOND, can_refuse=True) is Stage.OPEN
