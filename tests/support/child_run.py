"""Run of some tests in a child process, whose reports this pytest run receives.

The child writes each report to a pipe, as a line of JSON. Its output goes to a file. If the child
ends early, `run` reports each test without a teardown report as failed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.run import OPTION

_PLUGIN = "report_sender"


class ReportSender:
    """The pytest plugin of the child process: it sends every report to the parent.

    Args:
        config: pytest configuration of the child.
        descriptor: File descriptor of the writing end of the pipe that the parent reads.
    """

    def __init__(self, config: pytest.Config, descriptor: int) -> None:
        self._config = config
        self._pipe = os.fdopen(descriptor, "w", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the report of a phase (setup, call or teardown) of a test."""
        self._send(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send the report of a file that pytest fails to collect or skips as a whole."""
        if not report.passed:
            self._send(report)

    def _send(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.write(json.dumps(data, default=repr) + "\n")
        self._pipe.flush()


def pytest_configure(config: pytest.Config) -> None:
    """Register `ReportSender` in a child process, and hide its pipe from processes of tests."""
    descriptor = config.getoption(OPTION)
    if descriptor is not None:
        os.set_inheritable(descriptor, False)
        config.pluginmanager.register(ReportSender(config, descriptor), _PLUGIN)


def run(
    config: pytest.Config, tests: Sequence[str], output: Path
) -> Iterator[pytest.TestReport | pytest.CollectReport]:
    """Run tests one after the other in a child process; yield their reports as they arrive.

    Args:
        config: Configuration of this run; the child gets the same `--thorough` option.
        tests: Ids of the tests.
        output: The file to which the child prints.
    """
    reading, writing = os.pipe()
    with (
        tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as names,
        output.open("w") as log,
        os.fdopen(reading, encoding="utf-8") as reports,
    ):
        names.write("\n".join(tests))
        names.flush()
        command = [sys.executable, "-m", "pytest", f"{OPTION}={writing}", f"@{names.name}"]
        command += ["--thorough"] if config.getoption("--thorough") else []
        child = subprocess.Popen(
            command, cwd=config.rootpath, pass_fds=[writing], stdout=log, stderr=log
        )
        os.close(writing)
        missing = dict.fromkeys(tests)
        for line in reports:
            data = json.loads(line)
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            if isinstance(report.longrepr, list):  # a skip: JSON turned its tuple into a list
                report.longrepr = tuple(report.longrepr)
            if getattr(report, "when", "") == "teardown":
                missing.pop(report.nodeid, None)
            yield report
        code = child.wait()
    yield from (_unreported(test, code, output) for test in missing)


def _unreported(test: str, code: int, output: Path) -> pytest.TestReport:
    file = test.partition("::")[0]
    told = f"the run of it ended with {code} and no report: {output}"
    return pytest.TestReport(test, (file, None, test), {}, "failed", told, "call")
