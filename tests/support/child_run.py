"""A run of some tests in a fresh process, whose reports come back as those of this run.

The child writes each report as a line of JSON to a pipe. What it prints goes to a file. A test of
which it sends no report, because it ended before, is reported as failed.
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
    """Plugin of the child: send every report.

    Args:
        config: Of the child.
        descriptor: Where the parent reads.
    """

    def __init__(self, config: pytest.Config, descriptor: int) -> None:
        self._config = config
        self._pipe = os.fdopen(descriptor, "w", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the report of a phase of a test."""
        self._send(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send the report of a file that could not be collected or is skipped whole."""
        if not report.passed:
            self._send(report)

    def _send(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.write(json.dumps(data, default=repr) + "\n")
        self._pipe.flush()


def pytest_configure(config: pytest.Config) -> None:
    """Register the sender in a child, and keep its pipe from what the tests start."""
    descriptor = config.getoption(OPTION)
    if descriptor is not None:
        os.set_inheritable(descriptor, False)
        config.pluginmanager.register(ReportSender(config, descriptor), _PLUGIN)


def run(
    config: pytest.Config, tests: Sequence[str], output: Path
) -> Iterator[pytest.TestReport | pytest.CollectReport]:
    """Run tests one after the other in a fresh process; yield their reports as they come.

    Args:
        config: Of this run, which has the options that the child is to have.
        tests: Their ids.
        output: The file that gets what the child prints.
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
            if isinstance(report.longrepr, list):  # a skip's place and reason, a tuple before
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
