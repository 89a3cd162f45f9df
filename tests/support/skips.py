"""What a run may skip: `--no-skips` fails it for any other test, by name and with its reason.

A test is skipped where something that it needs cannot be had. That is fair on somebody's own
machine; where everything is to run, it would hide that a suite no longer does.
"""

import pytest

_NO_MOUNT = "only root may mount a file system"
_NO_COMMAND = "the `nats` command is no package of PyPI or npm"
_NO_SYSTEMD = "systemd is no package of PyPI or npm"
_NO_IPV6 = "not every machine has IPv6"

ALLOWED = {
    "tests/natspy/test_model.py::test_the_walk_through_with_the_nats_command": _NO_COMMAND,
    "tests/gateway/test_bucket_clients.py::test_keys_go_to_the_nats_command_and_back": _NO_COMMAND,
    "tests/gateway/test_bucket_clients.py::test_objects_go_to_the_nats_command_and_back": (
        _NO_COMMAND
    ),
    "tests/e2e/test_starts.py::test_a_read_only_file_system_is_told_alike": _NO_MOUNT,
    "tests/e2e/test_starts.py::test_a_full_file_system_is_one_line": _NO_MOUNT,
    "tests/e2e/test_operations.py::test_a_full_disk_is_an_outage_until_there_is_room": _NO_MOUNT,
    "tests/e2e/test_deployment.py::test_systemd_takes_the_unit": _NO_SYSTEMD,
    "tests/e2e/test_addresses.py::test_all_addresses_are_those_of_ipv6_too": _NO_IPV6,
    "tests/e2e/test_addresses.py::test_an_address_is_no_other": _NO_IPV6,
    "tests/e2e/test_addresses.py::test_serve_takes_all_addresses_for_all_ports": _NO_IPV6,
}
"""Tests that may be skipped whatever else is asked for, and why; parameters left out mean any."""

_skipped: dict[str, str] = {}


def allowed(test: str) -> bool:
    """Whether a test may be skipped by its id, or by its id without parameters."""
    return test in ALLOWED or test.partition("[")[0] in ALLOWED


def add_option(parser: pytest.Parser) -> None:
    """Add `--no-skips`."""
    parser.addoption("--no-skips", action="store_true", help="fail when a test is skipped")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notice a module that is skipped whole."""
    _note(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notice a test that is skipped; one that is expected to fail is not."""
    if not hasattr(report, "wasxfail"):
        _note(report)


def _note(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.skipped and not allowed(report.nodeid):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _skipped[report.nodeid] = str(reason).removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that passes otherwise, or that had nothing but skips."""
    fine = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if _skipped and fine and session.config.getoption("--no-skips"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what should have run."""
    if terminalreporter.config.getoption("--no-skips"):
        for test, reason in sorted(_skipped.items()):
            terminalreporter.write_line(f"SKIPPED, and must run: {test}: {reason}")
