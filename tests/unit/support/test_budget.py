"""The budgets of the suites keep a whole run short."""

import tomllib

from tests.support.best import slowness
from tests.support.budget import BUDGET, TOLERANCE, Budget

SECONDS: dict[str, int] = tomllib.loads(BUDGET.read_text())["seconds"]


def test_together_they_leave_five_minutes_of_forty() -> None:
    assert sum(SECONDS.values()) <= 35 * 60


def test_every_suite_has_one_and_nothing_else() -> None:
    folders = [path for path in BUDGET.parent.iterdir() if path.is_dir()]
    assert set(SECONDS) == {path.name for path in folders if any(path.rglob("test_*.py"))}


def test_a_suite_is_over_when_it_takes_longer_than_it_may() -> None:
    budget = Budget({"unit": 10, "wire": 10}, lambda: 1.0)
    budget.count("tests/unit/x/test_a.py", 6)
    budget.count("tests/wire/test_b.py", 9)
    assert budget.over() == []
    budget.count("tests/unit/test_c.py", 5)
    assert budget.over() == ["unit"]
    assert [line.endswith("slower) OVER BUDGET") for line in budget.lines()] == [True, False]


def test_a_suite_that_is_far_over_fails_the_run() -> None:
    budget = Budget({"unit": 10}, lambda: 2.0)
    budget.count("tests/unit/test_a.py", 60)
    assert budget.over(TOLERANCE) == []
    budget.count("tests/unit/test_a.py", 0.1)
    assert budget.over(TOLERANCE) == ["unit"]
    assert budget.lines()[0].endswith("slower) FAR OVER BUDGET")


def test_what_is_not_listed_may_take_nothing() -> None:
    budget = Budget({"unit": 10}, lambda: 1.0)
    budget.count("tests/new/test_a.py", 0.1)
    assert budget.over() == ["new"]


def test_a_slow_machine_may_take_longer_in_proportion() -> None:
    budget = Budget({"unit": 10}, lambda: 3.0)
    budget.count("tests/unit/test_a.py", 29)
    assert budget.over() == []
    budget.count("tests/unit/test_a.py", 2)
    assert budget.over() == ["unit"]


def test_no_machine_is_quicker_than_a_quiet_one() -> None:
    assert slowness() >= 1
