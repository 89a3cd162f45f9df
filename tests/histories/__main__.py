"""The command for one run: clients and faults on a cluster, and the check of the recorded history.

`python -m tests.histories --seconds 60 --seed 1 --nodes 3`
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.histories.checker import Violation, check
from tests.histories.controls import CONTROLS, controlled
from tests.histories.faults import KINDS, schedule
from tests.histories.history import Event, read_history, read_rules
from tests.histories.run import Outcome, Plan, play

SHOWN = 10  # violations of each kind


def main() -> int:
    """Run once and print the violations; return the exit code: 0 if the result is as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of load (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the faults (%(default)s)")
    parser.add_argument("--nodes", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=KINDS, help="these faults; else all")
    parser.add_argument(
        "--control", choices=CONTROLS, help="take out a guard, with faults of its own, and object"
    )
    parser.add_argument("--check", type=Path, help="judge the histories in a directory once more")
    options = parser.parse_args()
    if options.check:
        events = read_history(options.check)
        outcome = Outcome(events, check(events, read_rules(options.check)))
        print_line(outcome)
        return int(bool(outcome.violations))
    if options.control:
        plan = controlled(options.control, options.seed)
    else:
        faults = schedule(options.seed, options.seconds, options.nodes, options.only or ())
        plan = Plan(options.seconds, options.seed, options.nodes, tuple(faults))
    print(f"seed {plan.seed}, {plan.nodes} nodes, {plan.seconds:g} s", flush=True)
    for fault in plan.faults:
        print(f"  {fault}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="jetgate-histories-"))
    outcome = play(plan, directory, lambda text: print(text, flush=True))
    print(summary(outcome.events))
    print_line(outcome)
    if options.control:
        missing = CONTROLS[options.control].kinds.isdisjoint(kinds(outcome))
        print(f"{options.control} was {'NOT ' if missing else ''}noticed")
        shutil.rmtree(directory)
        return 0 if missing else 1
    if outcome.violations:
        print(f"seed {options.seed}; histories are in {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


def kinds(outcome: Outcome) -> Counter[str]:
    """Return the number of violations of each kind (`Violation.kind`)."""
    return Counter(violation.kind for violation in outcome.violations)


def summary(events: list[Event]) -> str:
    """Return the number of events of each kind and phase, as text."""
    counts = Counter(f"{event.kind} {event.phase}".strip() for event in events)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def print_line(outcome: Outcome) -> None:
    """Print the violations, with the events of the first `SHOWN` of each kind."""
    print(f"violations: {dict(kinds(outcome)) or 'none'}")
    shown: Counter[str] = Counter()
    for violation in outcome.violations:
        shown[violation.kind] += 1
        if shown[violation.kind] <= SHOWN:
            _print(violation)


def _print(violation: Violation) -> None:
    print(f"{violation.kind}: {violation.text}")
    for event in violation.events:
        print(f"    {event.told()}")


if __name__ == "__main__":
    sys.exit(main())
