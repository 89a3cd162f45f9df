"""Time budgets of the suites: printed after each run, a suite that is over fails the run.

A suite is a folder below `tests/`; its seconds are in `budget.toml`, 0 when it is not listed. Time
spent in fixtures counts for the suite of the test that asked first.
"""

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

BUDGET = Path(__file__).resolve().parents[1] / "budget.toml"
_SECONDS: dict[str, int] = tomllib.loads(BUDGET.read_text())["seconds"]

_spent: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the seconds of setup, call and teardown."""
    parts = Path(report.nodeid.split("::", 1)[0]).parts
    inside = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    _spent[inside[0] if len(inside) > 1 else "tests"] += report.duration


def _over() -> list[str]:
    return [suite for suite, spent in _spent.items() if spent > _SECONDS.get(suite, 0)]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run whose tests pass fails when a suite took longer than its budget."""
    if exitstatus == pytest.ExitCode.OK and _over():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each suite took of what it may take."""
    for suite, spent in sorted(_spent.items()):
        allowed = _SECONDS.get(suite, 0)
        verdict = "OVER BUDGET" if spent > allowed else ""
        terminalreporter.write_line(f"{suite:12} {spent:7.1f} s of {allowed:5} s {verdict}")
