"""A time of a wall clock, waited for with a loop that counts otherwise."""

# Subject: expiry, costs

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.runtime.wall_timer import WallTimer
from tests.support.driven_loop import DrivenLoop
from tests.support.sessions import ManualClock

MS = 1_000_000
DAY = 86_400_000 * MS


@given(
    left=st.one_of(st.integers(-DAY, 0), st.integers(0, 1000 * MS), st.integers(0, 3 * DAY)),
    rate=st.floats(0.9, 1.1),
    early=st.floats(0, 0.002),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_it_fires_within_20_ms_and_never_before(
    monkeypatch: pytest.MonkeyPatch, left: int, rate: float, early: float
) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock, rate=rate, early=early)
    loop.install(monkeypatch)
    fired: list[int] = []
    due = clock.now() + left
    timer = WallTimer(clock, lambda: fired.append(clock.now()))

    timer.arm(due)
    begun = clock.now()
    while loop.wake_next():
        assert timer.is_armed == (not fired)

    assert len(fired) == 1
    assert 0 <= fired[0] - max(due, begun) <= 20 * MS


def test_a_clock_that_is_set_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock)
    loop.install(monkeypatch)
    fired: list[int] = []
    due = clock.now() + 5000 * MS
    WallTimer(clock, lambda: fired.append(clock.now())).arm(due)
    loop.wake_next()

    clock.time -= 3600_000 * MS
    while loop.wake_next():
        pass

    assert 0 <= fired[0] - due <= 20 * MS


def test_a_machine_that_slept_is_late_by_a_minute_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock)
    loop.install(monkeypatch)
    fired: list[int] = []
    due = clock.now() + DAY
    WallTimer(clock, lambda: fired.append(clock.now())).arm(due)

    clock.time = due
    while loop.wake_next():
        pass

    assert fired[0] - due <= 60_000 * MS


def test_a_timer_that_is_armed_anew_fires_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock)
    loop.install(monkeypatch)
    fired: list[int] = []
    timer = WallTimer(clock, lambda: fired.append(clock.now()))
    begun = clock.now()

    timer.arm(begun + 50 * MS)
    timer.arm(begun + 20 * MS)
    while loop.wake_next():
        pass

    assert [(at - begun) // MS for at in fired] == [20]
    timer.arm(begun + 90 * MS)
    timer.cancel()
    assert not loop.wake_next()
