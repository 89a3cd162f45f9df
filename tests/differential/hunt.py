"""Search for differences between the servers: play random histories for some minutes.

Histories with an even seed are those of `histories`, with an odd seed those of `volleys`, in real
time. A history that differs twice in a row is shortened and printed; the exit code is 1 if any did.
"""

import argparse
import itertools
import sys
import time

from tests.differential.common import Step
from tests.differential.comparing import Address, difference, reference, shortest
from tests.differential.histories import history
from tests.differential.volleys import timed_history
from tests.support.jetgate import JetgateServer

LENGTH = 30


def steps_of(seed: int) -> list[Step]:
    """Return the history of a seed."""
    return (timed_history if seed % 2 else history)(seed // 2, LENGTH)


def differs(seed: int, ours: Address, theirs: Address) -> bool:
    """Play one history; print its difference and return True if the servers differ."""
    steps = steps_of(seed)
    first = difference(steps, ours, theirs)
    if first is None or difference(steps, ours, theirs) is None:
        return False
    steps = shortest(steps, first, ours, theirs)
    found = difference(steps, ours, theirs)
    told = found[1] if found is not None else f"it does not differ each time; first: {first[1]}"
    print(f"seed {seed}:", *steps, told, sep="\n  ", flush=True)
    return True


def main() -> int:
    """Play histories from the first seed on; return 1 if any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.hunt", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="the first seed (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="how long (%(default)s)")
    options = parser.parse_args()
    end, found, played = time.monotonic() + 60 * options.minutes, 0, 0
    with JetgateServer() as ours, reference() as theirs:
        for seed in itertools.count(options.seeds):
            if time.monotonic() > end:
                break
            found += differs(seed, ours.address, theirs.address)
            played += 1
    print(f"{played} histories, {found} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
