"""How soon something is done, on a machine that also does something else.

What else the machine does only makes it slower. So the best of some tries is what it takes, and
where a process is still there to be asked, without the time in which others had its processor.
"""

from collections.abc import Callable
from pathlib import Path


def best(tries: int, limit: float, measure: Callable[[], float]) -> float:
    """The shortest of some measurements; the first within the limit will do."""
    taken = float("inf")
    for _ in range(tries):
        taken = min(taken, measure())
        if taken < limit:
            break
    return taken


def kept_waiting(pid: int) -> float:
    """Seconds in which a process was ready to run while others had the processor.

    Of its first thread alone; 0 where Linux does not tell.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0
