"""Time budgets of the suites: printed after each run, a suite that is far over fails the run.

A suite is a folder below `tests/`; its seconds are in `budget.toml`, 0 when it is not listed. Time
spent in fixtures counts for the suite of the test that asked first. The seconds are those of a
quiet machine of two cores: while a suite runs, the machine's slowness is measured again and again,
and the suite may take as many times longer. Not everything that slows a suite slows what is timed
(disks, caches and memory that others use, bursts: suites of pure Python have taken 2.2 times as
long beside them), so one that is over is said to be, and fails the run once it takes `TOLERANCE`
times as long.
"""

import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import thorough
from tests.support.best import slowness

BUDGET = Path(__file__).resolve().parents[1] / "budget.toml"
TOLERANCE = 3.0
_EVERY = 2.0  # seconds between two looks at the machine, of which each takes a hundredth of it


class Budget:
    """What the suites took, and what each of them may take on this machine.

    Args:
        seconds: What a suite may take on a quiet machine.
        slow: Measures how many times slower the machine is at the moment.
    """

    def __init__(self, seconds: Mapping[str, int], slow: Callable[[], float] = slowness) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._seconds, self._slow = seconds, slow
        self._looks: defaultdict[str, list[float]] = defaultdict(list)
        self._looked = 0.0

    def count(self, path: str, seconds: float) -> None:
        """Add what a phase of a test of this file took, and now and then look at the machine."""
        parts = Path(path).parts
        inside = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
        suite = inside[0] if len(inside) > 1 else "tests"
        self.spent[suite] += seconds
        if suite not in self._looks or time.monotonic() > self._looked + _EVERY:
            self._looks[suite].append(self._slow())
            self._looked = time.monotonic()

    def slower(self, suite: str) -> float:
        """How many times slower the machine was while the suite ran; 1 on a quiet one."""
        looks = self._looks[suite]
        return sum(looks) / len(looks) if looks else 1.0

    def allowed(self, suite: str) -> float:
        """Seconds that the suite may take on this machine."""
        return self._seconds.get(suite, 0) * self.slower(suite)

    def over(self, times: float = 1.0) -> list[str]:
        """The suites that took so many times longer than they may."""
        return [suite for suite, spent in self.spent.items() if spent > times * self.allowed(suite)]

    def lines(self) -> list[str]:
        """One line for each suite."""
        return [
            f"{suite:12} {spent:7.1f} s of {self.allowed(suite):7.1f} s"
            f" (machine {self.slower(suite):.1f} times slower)"
            f"{' FAR' if suite in self.over(TOLERANCE) else ''}"
            f"{' OVER BUDGET' if suite in self.over() else ''}"
            for suite, spent in sorted(self.spent.items())
        ]


_budget = Budget(tomllib.loads(BUDGET.read_text())["seconds"])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the seconds of setup, call and teardown."""
    _budget.count(report.nodeid.split("::", 1)[0], report.duration)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run whose tests pass fails when a suite is far over its budget; not a thorough one."""
    held = not session.config.getoption(thorough.MARK)
    if exitstatus == pytest.ExitCode.OK and held and _budget.over(TOLERANCE):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each suite took of what it may take."""
    for line in _budget.lines():
        terminalreporter.write_line(line)
