"""Repetition of failed tests, one after the other, at the end of a test run with workers.

A test that passes in the second run is "unsteady": the run prints its name and writes both outputs
to the report directory. The run passes if all failed tests are unsteady and excusable, and at most
`EXCUSED`. Tests of durability and of exactly-once guarantees are not excusable: the suites `crash`
and `histories`, files that declare one of the subjects in `PROMISES`, and tests whose name has a
word such as "lost" or "doubled".
"""

import re
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import child_run, report_files
from tests.support.budget import suite_of
from tests.support.jetgate import ROOT
from tests.tools.subjects import declared

EXCUSED = 3
_AGAIN = 10  # more failures than this have a common cause, so they do not run again
_NEVER = re.compile(
    r"""(?<![a-z])(?:
        lost | loses? | losing | loss(?:es|less)? | doubl(?:e|es|ed|ing|y) | duplicate[sd]?
        | twice | once | durab(?:le|les|ly|ility) | (?:un)?acknowledged | redeliver(?:s|ed|ing)
        | surviv(?:e|es|ed|ing|al) | outlives? | kill(?:s|ed|ing)? | crash(?:es|ed)? | come_back
    )(?![a-z])""",
    re.VERBOSE,
)
PROMISES = frozenset({"crashes", "deduplication", "random histories"})
"""Subjects of files whose tests are never excused (`tests/tools/subjects.py`)."""

unsteady: dict[str, None] = {}
"""Ids of the tests of this run that failed, passed in the second run, and are excused."""


def excusable(test: str) -> bool:
    """Return True if a run may pass although this test failed once."""
    file, _, name = test.partition("::")
    if suite_of(test) in ("crash", "histories") or _NEVER.search(name):
        return False
    path = ROOT / file
    return not path.is_file() or PROMISES.isdisjoint(declared(path))


class SecondRun:
    """The pytest plugin that runs failed tests again, in the controller of pytest-xdist.

    Args:
        config: pytest configuration of the controller.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the report of a failed test."""
        if report.failed:
            self._failed[report.nodeid].append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """After the run, run failed tests again and subtract the excused ones from the failures."""
        done = yield
        if self._failed and len(self._failed) <= _AGAIN:
            self._judge(session)
        elif self._failed:
            self._lines.append(f"{len(self._failed)} tests failed: too many to run them once more")
        return done

    def _judge(self, session: pytest.Session) -> None:
        failed = dict(self._failed)
        passed = self._run_again(list(failed))
        for test in failed:
            self._lines.append(f"UNSTEADY: {test}" if test in passed else f"fails again: {test}")
        excused = [test for test in passed if excusable(test)]
        for test in passed:
            if test not in excused:
                self._lines.append(f"never excused: {test}")
        if len(excused) > EXCUSED:
            self._lines.append(f"{len(excused)} unsteady tests: at most {EXCUSED} are excused")
            return
        unsteady.update(dict.fromkeys(excused))
        session.testsfailed -= sum(len(failed[test]) for test in excused)
        self._take_back(set(excused))

    def _run_again(self, tests: list[str]) -> list[str]:
        """Run tests in a child process; return those that pass.

        Writes the first failure of each test to a file in the report directory.
        """
        directory = report_files.directory(self._config)
        for number, test in enumerate(tests, 1):
            _write(directory / f"failed-{number}.txt", test, self._failed[test])
        self._lines.append(f"the outputs of {len(tests)} tests that failed: {directory}")
        again: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)
        for report in child_run.run(self._config, tests, directory / "again.txt"):
            if isinstance(report, pytest.TestReport):
                again[report.nodeid].append(report)
        return [test for test in tests if again[test] and all(r.passed for r in again[test])]

    def _take_back(self, tests: set[str]) -> None:
        """Move the reports of excused tests from "failed" to "unsteady" in pytest's summary."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None:
            return
        for outcome in ("failed", "error"):
            reports = terminal.stats.pop(outcome, [])
            left = [report for report in reports if report.nodeid not in tests]
            if left:
                terminal.stats[outcome] = left
            taken = [report for report in reports if report.nodeid in tests]
            if taken:
                terminal.stats.setdefault("unsteady", []).extend(taken)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tests that ran again, each with its result."""
        for line in self._lines:
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Register `SecondRun` in a run with workers.

    A run without workers, as of a single file, reports each failure.
    """
    if config.option.dist != "no":
        config.pluginmanager.register(SecondRun(config), "second_run")


def _write(file: Path, test: str, reports: list[pytest.TestReport]) -> None:
    parts = [test]
    for report in reports:
        parts.append(f"\n== {report.when}\n{report.longreprtext}")
        parts += [f"\n-- {name}\n{text}" for name, text in report.sections]
    file.write_text("\n".join(parts))
