"""The shortest duration of an operation, on a machine that other processes also use.

Other load only makes an operation slower, so `best` returns the shortest of several measurements.
`timed` subtracts the time in which the measured process waited for a processor. Limits are in
seconds of an otherwise idle machine with two cores ("quiet"): `best` divides each duration by the
`slowness` of this machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ROUNDS = 200_000
_QUIET = 0.009  # seconds that the loop of `slowness` takes on an idle machine with two cores


def slowness() -> float:
    """Return the factor by which this machine is now slower than an idle one; at least 1.

    The factor is the duration of a fixed calculation, divided by its duration on an idle machine.
    """
    began = time.perf_counter()
    total = 0
    for number in range(_ROUNDS):
        total += number * number % 7
    return max(1.0, (time.perf_counter() - began) / _QUIET)


def best(tries: int, limit: float, measure: Callable[[], float]) -> float:
    """Return the shortest of up to `tries` measurements, in seconds of an otherwise idle machine.

    Stops after the first measurement below `limit` (the same unit). `measure` performs the
    operation and returns its duration in seconds.
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
    """Measure the duration of a block, minus the time in which `pid` waited for a processor.

    Args:
        pid: The process of the server that the block sends requests to.

    Returns:
        A list: empty inside the block, with the duration in seconds after it.
    """
    taken: list[float] = []
    waited, began = runnable_seconds(pid), time.monotonic()
    yield taken
    taken.append(time.monotonic() - began - (runnable_seconds(pid) - waited))


def runnable_seconds(pid: int) -> float:
    """Return the total seconds in which the main thread of a process waited for a processor.

    Returns 0 if the kernel has no `/proc/PID/schedstat`.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
