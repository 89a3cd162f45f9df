"""The shortest duration of an operation, on a machine that other processes also use.

Other load only makes an operation slower, so the best of several tries counts. Where the measured
process can be inspected, the time it waited for a processor is subtracted. A limit is stated in
seconds of a quiet machine with two cores: a duration is divided by the slowness of this machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ROUNDS = 200_000
_QUIET = 0.009  # seconds that so many rounds take on the quiet machine of the budgets


def slowness() -> float:
    """Return the factor by which this machine is slower than a quiet one now; at least 1.

    The factor comes from timing a fixed piece of work, which other processes may interrupt.
    """
    began = time.perf_counter()
    total = 0
    for number in range(_ROUNDS):
        total += number * number % 7
    return max(1.0, (time.perf_counter() - began) / _QUIET)


def best(tries: int, limit: float, measure: Callable[[], float]) -> float:
    """Return the shortest of up to `tries` measurements, in seconds of a quiet machine.

    No further measurement follows one that is below `limit` (seconds of a quiet machine).
    """
    taken = float("inf")
    for _ in range(tries):
        before = slowness()
        seconds = measure()
        taken = min(taken, 2 * seconds / (before + slowness()))
        if taken < limit:
            break
    return taken


@contextmanager
def timed(pid: int) -> Iterator[list[float]]:
    """Measure the duration of a block, less the time in which a process waited for a processor.

    Args:
        pid: The process of the server that the block sends requests to.

    Returns:
        A list that holds the seconds once the block has ended.
    """
    taken: list[float] = []
    waited, began = runnable_seconds(pid), time.monotonic()
    yield taken
    taken.append(time.monotonic() - began - (runnable_seconds(pid) - waited))


def runnable_seconds(pid: int) -> float:
    """Return the seconds in which the first thread of a process was ready to run but did not run.

    Returns 0 where Linux does not report it (/proc/PID/schedstat).
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
