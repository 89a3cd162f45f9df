"""The command `jetgate` with a wrong wall clock: `python -m tests.support.wrong_clock SECONDS ...`.

The clock is shifted by SECONDS before the first import of a jetgate module; the other arguments
are those of `jetgate`.
"""

import sys
import time


def shift(seconds: int) -> None:
    """Add `seconds`, which may be negative, to `time.time` and `time.time_ns` in this process."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + seconds * 1_000_000_000


if __name__ == "__main__":
    shift(int(sys.argv.pop(1)))
    from jetgate.console import main

    main()
