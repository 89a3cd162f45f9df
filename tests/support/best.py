"""How soon something is done, on a machine that also does something else.

What else the machine does only makes it slower. So the best of some tries is what it takes, and
where a process is still there to be asked, without the time in which others had its processor.
A limit is that of a quiet machine of two cores: what a slower one takes is divided by its slowness.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ROUNDS = 200_000
_QUIET = 0.009  # seconds that so many rounds take on the quiet machine that budgets are for


def slowness() -> float:
    """How many times slower this machine is now than a quiet one; at least 1.

    A fixed piece of work is timed, in which others may have the processor for a while.
    """
    began = time.perf_counter()
    total = 0
    for number in range(_ROUNDS):
        total += number * number % 7
    return max(1.0, (time.perf_counter() - began) / _QUIET)


def best(tries: int, limit: float, measure: Callable[[], float]) -> float:
    """The shortest of some measurements, in seconds of a quiet machine.

    The first within the limit will do.
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
    """Measure what a block takes, without the time in which a process was kept waiting meanwhile.

    Args:
        pid: Of the server that the block asks.

    Returns:
        A list that holds the seconds once the block is over.
    """
    taken: list[float] = []
    waited, began = kept_waiting(pid), time.monotonic()
    yield taken
    taken.append(time.monotonic() - began - (kept_waiting(pid) - waited))


def kept_waiting(pid: int) -> float:
    """Seconds in which a process was ready to run while others had the processor.

    Of its first thread alone; 0 where Linux does not tell.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
