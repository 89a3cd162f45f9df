"""The option `--smoke`: run tests of each folder until one passes, to check an environment.

It takes about a minute and collects all tests. The run fails if a test is skipped for a reason that
does not name a command (`pip install`, `apt-get install`) for the missing program.
"""

import re
from collections import defaultdict
from collections.abc import Generator

import pytest

_COMMAND = re.compile(r"pip install|apt-get install")

_passed: dict[str, str] = {}
_skipped: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)


def add_option(parser: pytest.Parser) -> None:
    """Add the option `--smoke`."""
    helped = "of each folder run tests until one passes; skips have to name a command"
    parser.addoption("--smoke", action="store_true", help=helped)


def folder_of(test: str) -> str:
    """Return the folder of the file in a test id."""
    return test.partition("::")[0].rpartition("/")[0]


def nameless(skips: list[tuple[str, str]]) -> list[str]:
    """Return `test: reason` for each skipped test whose reason names no installation command."""
    return [f"{test}: {reason}" for test, reason in skips if not _COMMAND.search(reason)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """With `--smoke`, do not run a test if another test of its folder has passed."""
    if not item.config.getoption("--smoke") or folder_of(item.nodeid) not in _passed:
        return None
    # Tear down the fixtures that pytest has kept open for this test.
    item.session._setupstate.teardown_exact(nextitem)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record passed and skipped tests."""
    if report.when == "call" and report.passed:
        _passed.setdefault(folder_of(report.nodeid), report.nodeid)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _skipped[folder_of(report.nodeid)].append((report.nodeid, str(reason)))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a test module that is skipped as a whole."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _skipped[folder_of(f"{report.nodeid}::")].append((report.nodeid, str(reason)))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """With `--smoke`, count each skip whose reason names no installation command as a failure."""
    done = yield
    if session.config.getoption("--smoke"):
        session.testsfailed += len(nameless([skip for each in _skipped.values() for skip in each]))
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With `--smoke`, print for each folder the test that passed, or the number of skips."""
    if not terminalreporter.config.getoption("--smoke"):
        return
    for folder in sorted(_passed.keys() | _skipped.keys()):
        skips = _skipped[folder]
        terminalreporter.write_line(f"{folder}: {_passed.get(folder) or f'{len(skips)} skipped'}")
        for line in nameless(skips):
            terminalreporter.write_line(f"  names no command: {line}")
