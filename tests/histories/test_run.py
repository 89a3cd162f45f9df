"""Two runs: one with all clients and faults must be clean, one without a guard must not be.

`python -m tests.histories` runs longer, with every fault and with other seeds.
"""

# Subject: crashes

from collections import Counter
from pathlib import Path

from tests.histories.controls import CONTROLS, controlled
from tests.histories.faults import KINDS, schedule
from tests.histories.run import Plan, play

_SECONDS = 45.0


def test_nothing_is_lost_by_any_fault_of_three_nodes(tmp_path: Path) -> None:
    faults = tuple(schedule(20261127, _SECONDS, 3))
    assert {fault.kind for fault in faults} == KINDS.keys()

    outcome = play(Plan(_SECONDS, 20261127, 3, faults), tmp_path, print)

    assert outcome.violations == []
    done = Counter((event.kind, event.phase) for event in outcome.events)
    assert done["fault", "invoke"] >= len(faults) / 2  # each node has one fault at a time
    assert min(done["publish", "ok"], done["ack", "ok"], done["stored", ""]) > 1000


def test_without_a_guard_the_checker_objects(tmp_path: Path) -> None:
    outcome = play(controlled("no-rivals", 20261123), tmp_path, print)

    assert {violation.kind for violation in outcome.violations} == CONTROLS["no-rivals"].kinds


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 600, 3) == schedule(7, 600, 3) != schedule(8, 600, 3)
    assert len({fault.kind for fault in schedule(7, 600, 3)}) == len(KINDS)
    assert all(fault.at + fault.seconds <= 600 for fault in schedule(7, 600, 3))
