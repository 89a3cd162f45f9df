"""The nanoseconds that reading a clock takes: the machine's clock, and that of a stream's leader.

    python -m bench.steps_clock

The results are the best of seven rounds with a million readings each.
"""

import timeit

from core.runtime.clock import Clock, SystemClock
from core.storage.database_time import DatabaseClock, DatabaseTime
from core.units import NANOS_PER_SECOND

READINGS = 1_000_000
ROUNDS = 7


def main() -> None:
    """Measure both clocks and print the results."""
    machine = SystemClock()
    time = DatabaseTime(machine)
    time.answered(machine.monotonic(), machine.now())
    clocks: dict[str, Clock] = {"machine": machine, "leader": DatabaseClock(machine, time)}
    for name, clock in clocks.items():
        best = min(timeit.repeat(clock.now, number=READINGS, repeat=ROUNDS))
        print(f"{name:<8} {best / READINGS * NANOS_PER_SECOND:6.0f} ns")


if __name__ == "__main__":
    main()
