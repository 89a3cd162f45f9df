"""The budgets of the suites keep a whole run short."""

# Subject: tests

from tests.support.budget import FILE, SECONDS, Budget, suite_of
from tests.support.side_by_side import WORKERS


def test_every_suite_has_one_and_nothing_else() -> None:
    suites = {suite_of(str(path)) for path in FILE.parent.rglob("test_*.py")}

    assert suites == set(SECONDS)


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


def test_a_suite_that_is_not_listed_has_no_budget() -> None:
    budget = Budget({"unit": 10})
    budget.count("tests/new/test_a.py", 0.1)
    assert budget.over() == ["new"]
