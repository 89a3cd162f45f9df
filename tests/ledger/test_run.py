"""Short runs: one that must be clean, one without a guard that must not.

`python -m tests.ledger` runs longer, with every fault and with other seeds.
"""

from collections import Counter
from pathlib import Path

from tests.ledger.controls import CONTROLS, controlled
from tests.ledger.faults import KINDS, Fault, schedule
from tests.ledger.run import Plan, play


def test_nothing_is_lost_when_leaders_are_killed_and_leave_and_a_link_is_cut(
    tmp_path: Path,
) -> None:
    faults = (
        Fault(1.5, "kill", 0.0, 0),
        Fault(3.0, "link-cut", 0.5, 0),
        Fault(4.0, "term", 0.0, 0),
    )

    outcome = play(Plan(6.0, 20261123, 2, faults), tmp_path, print)

    done = Counter((event.kind, event.phase) for event in outcome.events)
    assert done["fault", "ok"] == len(faults)
    assert min(done["publish", "ok"], done["ack", "ok"], done["stored", ""]) > 100
    assert outcome.violations == []


def test_without_a_guard_the_checker_objects(tmp_path: Path) -> None:
    outcome = play(controlled("no-rivals", 20261123), tmp_path, print)

    assert {violation.kind for violation in outcome.violations} == CONTROLS["no-rivals"].kinds


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 600, 3) == schedule(7, 600, 3) != schedule(8, 600, 3)
    assert len({fault.kind for fault in schedule(7, 600, 3)}) == len(KINDS)
    assert all(fault.at + fault.seconds <= 600 for fault in schedule(7, 600, 3))
