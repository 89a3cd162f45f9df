"""Hooks of pytest that record the results of a run and check the page of compatibility."""

import re
from collections.abc import Generator
from difflib import unified_diff
from itertools import islice

import pytest

from tests.compat.page import PAGE, NotRun, Run, load, render
from tests.support import second_run, side_by_side
from tests.support.natsserver import Asked

FIXTURES = {"nats_server", "pair"}
"""Fixtures that use nats-server, even when another test has started it."""

_SHOWN = 40  # lines of the difference
_LINES_MAX = "compatibility/run"
_PARAMETER = re.compile(r"\[nats-server[-\]]")
_COMPARED = "compared"
_run = Run()
_outputs: list[str] = []


class Comparisons:
    """The plugin of every process that runs tests: its reports mark tests that use nats-server."""

    def __init__(self) -> None:
        self._before = 0

    def pytest_runtest_setup(self) -> None:
        """Remember the number of starts before the test."""
        self._before = Asked.times

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark the last report of a test that uses nats-server."""
        report = yield
        fixtures = set(getattr(item, "fixturenames", ()))
        asked = Asked.times > self._before
        if report.when == "teardown" and (
            asked or fixtures & FIXTURES or _PARAMETER.search(item.nodeid)
        ):
            report.user_properties.append((_COMPARED, True))
        return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the worst outcome of setup, call and teardown."""
    if report.when == "call" or report.outcome != "passed":
        kept = _run.outcomes.get(report.nodeid)
        _run.outcomes[report.nodeid] = "failed" if kept == "failed" else report.outcome
    for name, value in report.user_properties:
        if name == "refusal":
            _run.refusals[report.nodeid] = str(value)
        elif name == _COMPARED:
            _run.compared.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that covers the page and has other results."""
    config = session.config
    _run.outcomes.update(dict.fromkeys(second_run.unsteady, "passed"))
    writes = config.getoption("--compatibility", default=None)
    if writes:
        _keep(config, writes == "again")
    try:
        page = render(load(), _run)
    except NotRun as missing:
        if writes:
            _outputs.append(f"docs/compatibility.md is not written: {missing}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif _covers_all(config):
            _outputs.append(f"docs/compatibility.md is not compared, no test ran of {missing}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return
    if writes:
        PAGE.write_text(page)
        _outputs.append("docs/compatibility.md is written")
    elif not PAGE.exists() or PAGE.read_text() != page:
        _outputs.append("docs/compatibility.md is not what this run found: python -m tests.compat")
        written = PAGE.read_text() if PAGE.exists() else ""
        changes = unified_diff(written.splitlines(), page.splitlines(), lineterm="", n=0)
        _outputs.extend(islice(changes, 2, _SHOWN))
        if exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _covers_all(config: pytest.Config) -> bool:
    """Return True if a run must include a test of every feature."""
    is_complete = config.getoption("--no-skips") and not config.getoption("--smoke")
    return bool(is_complete and side_by_side.is_whole(config))


def _keep(config: pytest.Config, again: bool) -> None:
    """Store the results for a later run of some tests, or add the stored ones."""
    assert config.cache is not None
    kept = config.cache.get(_LINES_MAX, {}) if again else {}
    _run.outcomes = kept.get("outcomes", {}) | _run.outcomes
    _run.compared |= set(kept.get("compared", ()))
    _run.refusals = kept.get("refusals", {}) | _run.refusals
    found = {"outcomes": _run.outcomes, "refusals": _run.refusals}
    config.cache.set(_LINES_MAX, found | {"compared": sorted(_run.compared)})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print whether the page was written or compared."""
    for line in _outputs:
        terminalreporter.write_line(line)
