"""The budgets of the suites keep a whole run short."""

import tomllib

from tests.support.budget import BUDGET

SECONDS: dict[str, int] = tomllib.loads(BUDGET.read_text())["seconds"]


def test_together_they_leave_a_minute_of_twenty_five() -> None:
    assert sum(SECONDS.values()) <= 24 * 60


def test_every_suite_has_one_and_nothing_else() -> None:
    folders = [path for path in BUDGET.parent.iterdir() if path.is_dir()]
    assert set(SECONDS) == {path.name for path in folders if any(path.rglob("test_*.py"))}
