"""The offset to the database's clock, and the clock of a leader, under any answers it may get."""

# Subject: storage, leadership

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.storage.database_time import DRIFT_PPM, READINGS_MAX, SLEW, DatabaseClock, DatabaseTime
from core.units import Nanos

MS, SECOND, HOUR = 10**6, 10**9, 3600 * 10**9
START = 1_800_000_000 * SECOND


class Machine:
    """The clocks of a machine, and a database that is asked from there.

    Attributes:
        passed: monotonic nanoseconds.
        wall: what the machine's wall clock is wrong by.
        database: what the database's is wrong by.
    """

    def __init__(self, wall: int = 0) -> None:
        self.passed = 5 * HOUR
        self.wall = wall
        self.database = 0
        self.time = DatabaseTime(self)

    def now(self) -> Nanos:
        return Nanos(START + self.passed + self.wall)

    def monotonic(self) -> Nanos:
        return Nanos(self.passed)

    @property
    def offset(self) -> int:
        """What is to be found."""
        return START + self.database

    def ask(self, there: int = MS, back: int = MS) -> None:
        """One round trip, so long on each way; the database knows microseconds."""
        sent = self.passed
        self.passed += there
        told = (START + self.passed + self.database) // 1000 * 1000
        self.passed += back
        self.time.answered(Nanos(sent), Nanos(told))

    def beats(self, clock: DatabaseClock, count: int) -> None:
        for _ in range(count):
            self.passed += SECOND
            self.ask()
            clock.follow()


ways = st.integers(0, 2 * SECOND)
trips = st.lists(
    st.tuples(ways, ways, st.integers(0, 5 * SECOND)), min_size=1, max_size=3 * READINGS_MAX
)


@given(trips, st.integers(-HOUR, HOUR))
def test_the_offset_is_wrong_by_half_the_best_round_trip_at_most(
    trips: list[tuple[int, int, int]], wall: int
) -> None:
    machine = Machine(wall)
    for there, back, pause in trips:
        machine.ask(there, back)
        assert abs(machine.time.offset - machine.offset) <= machine.time.error + 1000
        machine.passed += pause

    last = trips[-READINGS_MAX:]
    passed = sum(there + back + pause for there, back, pause in last)
    best = min(there + back for there, back, _ in last)
    assert machine.time.error <= best // 2 + 1 + passed * DRIFT_PPM // 10**6
    assert machine.time.ahead == pytest.approx(
        (wall - machine.time.offset + machine.offset) / SECOND, abs=1e-6
    )


@given(st.lists(st.tuples(ways, ways), max_size=READINGS_MAX - 1))
def test_slow_answers_after_a_quick_one_change_nothing(slow: list[tuple[int, int]]) -> None:
    machine = Machine()
    machine.ask(MS // 10, MS // 10)
    quick = machine.time.offset
    for there, back in slow:
        machine.ask(there + 50 * MS, back + 50 * MS)

        assert machine.time.offset == quick


def test_a_database_whose_clock_was_set_is_noticed_with_the_next_answer() -> None:
    machine = Machine()
    for _ in range(READINGS_MAX):
        machine.ask()
    machine.database = HOUR
    machine.ask(3 * MS, 5 * MS)

    assert abs(machine.time.offset - machine.offset) <= 4 * MS


happenings = st.lists(
    st.tuples(
        st.sampled_from(["ask", "slow", "read", "wall", "database", "both"]),
        st.integers(-2 * HOUR, 2 * HOUR),
    ),
    max_size=60,
)


@given(happenings)
def test_a_leaders_clock_never_goes_back_and_keeps_its_pace(
    happenings: list[tuple[str, int]],
) -> None:
    """Whatever clocks are set to, and however long answers take; a machine that slept is apart."""
    machine = Machine()
    machine.ask()
    clock = DatabaseClock(machine, machine.time)
    last, began, first = clock.now(), machine.passed, clock.now()
    slept = 0
    for what, size in happenings:
        if what in ("wall", "both"):
            machine.wall += size
        if what in ("database", "both"):
            machine.database += size
        if what in ("wall", "database", "both", "ask", "slow"):
            machine.passed += SECOND
            wait = abs(size) % SECOND if what == "slow" else MS
            machine.ask(wait, MS)
            before = clock.behind
            clock.follow()
            if before - clock.behind > SECOND:
                slept += before - clock.behind
        else:
            machine.passed += abs(size) % SECOND
        now = clock.now()
        assert now >= last
        last = now
    passed = machine.passed - began
    assert abs(last - first - slept - passed) <= passed // SLEW + SECOND // SLEW


@pytest.mark.parametrize("step", [360 * SECOND, -360 * SECOND])
def test_a_leader_follows_a_database_that_was_set_within_ten_times_as_long(
    step: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    machine.ask()
    clock = DatabaseClock(machine, machine.time)
    machine.beats(clock, 3)
    machine.database = step
    before = clock.now() - machine.passed
    with caplog.at_level(logging.WARNING):
        machine.beats(clock, 180)

        assert (clock.now() - machine.passed - before) * (1 if step > 0 else -1) == pytest.approx(
            18 * SECOND, rel=0.01
        )

        machine.beats(clock, 3600)

    assert abs(clock.behind) < MS
    lines = [record.getMessage() for record in caplog.records]
    way, side = ("forward", "behind") if step > 0 else ("back", "ahead of")
    assert lines == [
        f"the clock of this machine is 360.0 s {side} PostgreSQL's, which messages go by",
        f"the clock of PostgreSQL went {way} by 360.0 s; messages follow it slowly",
    ]


def test_setting_the_machines_clock_changes_nothing_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()
    machine.ask()
    clock = DatabaseClock(machine, machine.time)
    with caplog.at_level(logging.WARNING):
        for wall in (HOUR, -HOUR):
            machine.wall = wall
            machine.beats(clock, 20)

            assert abs(clock.now() - machine.passed - START) < 2 * MS
            assert machine.time.ahead == pytest.approx(wall / SECOND, abs=0.01)

        machine.wall = 0
        machine.beats(clock, 1)
        machine.wall = 2 * SECOND
        machine.beats(clock, 5)

    assert [record.getMessage() for record in caplog.records] == [
        "the clock of this machine is 3600.0 s ahead of PostgreSQL's, which messages go by",
        "the clock of this machine is 2.0 s ahead of PostgreSQL's, which messages go by",
    ]


def test_a_machine_that_slept_catches_up_at_once() -> None:
    """Its monotonic clock stood still, its wall clock and the database's went on."""
    machine = Machine(wall=7 * SECOND)
    machine.ask()
    clock = DatabaseClock(machine, machine.time)
    machine.beats(clock, 3)
    machine.wall += HOUR
    machine.database += HOUR
    machine.beats(clock, 1)

    assert abs(clock.behind) < 2 * MS
