"""`jetgate` on a machine whose clock is wrong: `python -m tests.support.wrong_clock SECONDS ...`.

The clock is shifted before the first import of a jetgate module.
"""

import sys
import time


def shift(seconds: int) -> None:
    """Shift the wall clock of this process by some seconds."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + seconds * 1_000_000_000


if __name__ == "__main__":
    shift(int(sys.argv.pop(1)))
    from jetgate.console import main

    main()
