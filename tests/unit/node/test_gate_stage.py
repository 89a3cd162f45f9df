"""Publishes while nobody leads: held, then refused."""

# Subject: placement

from core.node.gate_stage import Stage, Stages


def test_publishes_wait_from_the_start_until_there_is_a_leader() -> None:
    gate = Stages()

    assert gate.stage(1000, can_refuse=True) is Stage.HELD
    assert gate.found()
    assert gate.stage(1000, can_refuse=True) is Stage.OPEN
    assert gate.until is None


def test_a_first_leader_is_waited_for_until_some_time() -> None:
    gate = Stages()
    gate.expect(10)
    gate.expect(20)

    assert gate.stage(9, can_refuse=True) is Stage.HELD
    assert gate.stage(10, can_refuse=True) is Stage.REFUSING
    gate.found()
    gate.expect(30)
    assert gate.stage(40, can_refuse=True) is Stage.OPEN


def test_after_a_loss_they_are_held_so_long_and_then_refused() -> None:
    gate = Stages()
    gate.found()

    assert gate.lost(12)
    assert gate.stage(11, can_refuse=True) is Stage.HELD
    assert gate.stage(12, can_refuse=True) is Stage.REFUSING
    assert gate.found()
    assert gate.stage(13, can_refuse=True) is Stage.OPEN


def test_a_repeated_state_does_not_restart_the_time() -> None:
    gate = Stages()
    gate.found()
    gate.lost(12)

    assert not gate.lost(20)
    assert gate.until == 12
    assert gate.found()
    assert not gate.found()


def test_a_gate_that_does_not_know_the_streams_keeps_holding() -> None:
    gate = Stages()
    gate.found()
    gate.lost(12)

    assert gate.stage(1000, can_refuse=False) is Stage.HELD
    assert gate.stage(1000, can_refuse=True) is Stage.REFUSING


def test_a_single_node_holds_until_it_leads() -> None:
    gate = Stages()
    gate.found()
    gate.lost(None)

    assert gate.stage(1000, can_refuse=True) is Stage.HELD
    gate.found()
    assert gate.stage(1000, can_refuse=True) is Stage.OPEN


def test_when_one_more_leader_is_gone_they_are_held_longer_never_shorter() -> None:
    gate = Stages()
    gate.found()
    gate.lost(12)

    gate.wait(20)
    assert gate.stage(19, can_refuse=True) is Stage.HELD
    gate.wait(15)
    gate.wait(None)
    assert gate.stage(20, can_refuse=True) is Stage.REFUSING


def test_a_gate_that_holds_without_limit_does_not_refuse() -> None:
    gate = Stages()
    gate.found()
    gate.lost(None)
    gate.wait(20)

    assert gate.stage(1000, can_refuse=True) is Stage.HELD
