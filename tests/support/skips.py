"""The option `--no-skips`: a run fails if it skips a test that is not in `ALLOWED`.

A test is skipped if a program or package that it needs is missing. This is acceptable on the
machine of a developer. In a run for a release a skip could hide that a suite no longer runs.
"""

import pytest

_NO_MOUNT = "only root may mount a file system"
_NO_COMMAND = "the `nats` command is no package of PyPI or npm"
_NO_SYSTEMD = "systemd is no package of PyPI or npm"
_NO_IPV6 = "not every machine has IPv6"

ALLOWED = {
    "tests/clients/python/test_model.py::test_the_walk_through_with_the_nats_command": _NO_COMMAND,
    "tests/gateway/test_bucket_clients.py::test_keys_go_to_the_nats_command_and_back": _NO_COMMAND,
    "tests/gateway/test_bucket_clients.py::test_objects_go_to_the_nats_command_and_back": (
        _NO_COMMAND
    ),
    "tests/e2e/test_starts.py::test_a_read_only_file_system_is_reported_as_by_nats_server": (
        _NO_MOUNT
    ),
    "tests/e2e/test_starts.py::test_a_full_file_system_is_one_line": _NO_MOUNT,
    "tests/e2e/test_operations.py::test_a_full_disk_is_an_outage_until_there_is_room": _NO_MOUNT,
    "tests/e2e/test_deployment.py::test_systemd_takes_the_unit": _NO_SYSTEMD,
    "tests/e2e/test_addresses.py::test_all_addresses_are_those_of_ipv6_too": _NO_IPV6,
    "tests/e2e/test_addresses.py::test_an_address_is_no_other": _NO_IPV6,
    "tests/e2e/test_addresses.py::test_serve_takes_all_addresses_for_all_ports": _NO_IPV6,
}
"""Ids of tests that may be skipped even with `--no-skips`, and the reason.

An id without parameters stands for the test with any parameters.
"""

_skipped: dict[str, str] = {}


def allowed(test: str) -> bool:
    """Return True if `ALLOWED` has the id of a test, with or without its parameters."""
    return test in ALLOWED or test.partition("[")[0] in ALLOWED


def add_option(parser: pytest.Parser) -> None:
    """Add the option `--no-skips`."""
    parser.addoption("--no-skips", action="store_true", help="fail when a test is skipped")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a test module that is skipped as a whole."""
    _note(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a skipped test; pytest reports expected failures as skipped too, they are ignored."""
    if not hasattr(report, "wasxfail"):
        _note(report)


def _note(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.skipped and not allowed(report.nodeid):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _skipped[report.nodeid] = str(reason).removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With `--no-skips`, fail a run without failures if it skipped a test not in `ALLOWED`."""
    fine = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if _skipped and fine and session.config.getoption("--no-skips"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With `--no-skips`, print the skipped tests that are not in `ALLOWED`, with the reasons."""
    if terminalreporter.config.getoption("--no-skips"):
        for test, reason in sorted(_skipped.items()):
            terminalreporter.write_line(f"SKIPPED, and must run: {test}: {reason}")
