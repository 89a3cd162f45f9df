"""Time budgets of the suites: printed after each run, a suite that takes longer fails the run.

A suite is a folder below `tests/`; its seconds are in `budget.toml`, 0 when it is not listed. Time
spent in fixtures counts for the suite of the test that asked first. The seconds are twice what the
suite takes in a run of all tests on two quiet cores, where three suites run side by side.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import thorough

BUDGET = Path(__file__).resolve().parents[1] / "budget.toml"


class Budget:
    """What the suites took, and what each of them may take.

    Args:
        seconds: What a suite may take.
    """

    def __init__(self, seconds: Mapping[str, int]) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._seconds = seconds

    def count(self, path: str, seconds: float) -> None:
        """Add what a phase of a test of this file took."""
        parts = Path(path).parts
        inside = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
        self.spent[inside[0] if len(inside) > 1 else "tests"] += seconds

    def over(self) -> list[str]:
        """The suites that took longer than they may."""
        return [suite for suite, spent in self.spent.items() if spent > self._seconds.get(suite, 0)]

    def lines(self) -> list[str]:
        """One line for each suite."""
        over = self.over()
        return [
            f"{suite:12} {spent:7.1f} s of {self._seconds.get(suite, 0):5} s"
            f"{' OVER BUDGET' if suite in over else ''}"
            for suite, spent in sorted(self.spent.items())
        ]


_budget = Budget(tomllib.loads(BUDGET.read_text())["seconds"])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the seconds of setup, call and teardown."""
    _budget.count(report.nodeid.split("::", 1)[0], report.duration)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run whose tests pass fails when a suite is over its budget; not a thorough one."""
    held = not session.config.getoption(thorough.MARK)
    if exitstatus == pytest.ExitCode.OK and held and _budget.over():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each suite took of what it may take."""
    for line in _budget.lines():
        terminalreporter.write_line(line)
