"""The budgets of the suites keep a whole run short."""

import tomllib

from tests.support.budget import BUDGET, Budget
from tests.support.side_by_side import WORKERS

SECONDS: dict[str, int] = tomllib.loads(BUDGET.read_text())["seconds"]


def test_every_suite_has_one_and_nothing_else() -> None:
    folders = [path for path in BUDGET.parent.iterdir() if path.is_dir()]
    assert set(SECONDS) == {path.name for path in folders if any(path.rglob("test_*.py"))}


def test_together_they_leave_a_run_of_fifteen_minutes() -> None:
    """They are twice what suites take, of which three run at a time."""
    assert sum(SECONDS.values()) <= 2 * WORKERS * 15 * 60


def test_a_suite_is_over_when_it_takes_longer_than_it_may() -> None:
    budget = Budget({"unit": 10, "wire": 10})
    budget.count("tests/unit/x/test_a.py", 6)
    budget.count("tests/wire/test_b.py", 9)
    assert budget.over() == []
    budget.count("tests/unit/test_c.py", 5)
    assert budget.over() == ["unit"]
    assert [line.endswith(" OVER BUDGET") for line in budget.lines()] == [True, False]


def test_what_is_not_listed_may_take_nothing() -> None:
    budget = Budget({"unit": 10})
    budget.count("tests/new/test_a.py", 0.1)
    assert budget.over() == ["new"]
