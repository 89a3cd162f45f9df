"""Time budgets of the suites: printed after each run; a suite over its budget fails the run.

A suite is a folder below `tests/` or `tests/clients/`. Its budget in seconds is in `budget.toml`,
or 0 if it is not listed there. The time of a fixture counts for the suite of the first test that
uses the fixture. A budget is twice the time of the suite in a run of all tests, three suites in
parallel, on an otherwise idle machine with two cores.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import thorough

FILE = Path(__file__).resolve().parents[1] / "budget.toml"

SECONDS: dict[str, int] = tomllib.loads(FILE.read_text())["seconds"]
"""The budget of each suite in seconds, in the order in which a run of all tests takes them."""


def suite_of(test: str) -> str:
    """Return the suite of a test id or path: `unit`, `clients/go`; `tests` without a folder."""
    parts = Path(test.partition("::")[0]).parts
    inside = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    if len(inside) < 2:
        return "tests"
    return "/".join(inside[: 2 if inside[0] == "clients" else 1])


class Budget:
    """The seconds that each suite took, compared with its budget.

    Args:
        seconds: The budget of each suite, in seconds.
    """

    def __init__(self, seconds: Mapping[str, int]) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._seconds = seconds

    def count(self, path: str, seconds: float) -> None:
        """Add the seconds of one phase (setup, call or teardown) of a test to its suite."""
        self.spent[suite_of(path)] += seconds

    def over(self) -> list[str]:
        """Return the names of the suites that exceed their budgets."""
        return [suite for suite, spent in self.spent.items() if spent > self._seconds.get(suite, 0)]

    def lines(self) -> list[str]:
        """Return one line for each suite: name, seconds, budget, `OVER BUDGET` if exceeded."""
        over = self.over()
        return [
            f"{suite:18} {spent:7.1f} s of {self._seconds.get(suite, 0):5} s"
            f"{' OVER BUDGET' if suite in over else ''}"
            for suite, spent in sorted(self.spent.items())
        ]


_budget = Budget(SECONDS)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the duration of a finished phase of a test to the suite of the test."""
    _budget.count(report.nodeid.split("::", 1)[0], report.duration)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run without failed tests if a suite exceeds its budget; not with `--thorough`."""
    held = not session.config.getoption(thorough.MARK)
    if exitstatus == pytest.ExitCode.OK and held and _budget.over():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds and the budget of each suite at the end of the run."""
    for line in _budget.lines():
        terminalreporter.write_line(line)
