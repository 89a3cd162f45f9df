"""The role of a process in a test run: the process that was started, or a worker or child of it."""

import argparse
from collections.abc import Generator
from typing import Any

import pytest

OPTION = "--reports-to"


def add_option(parser: pytest.Parser) -> None:
    """Add the internal option `--reports-to FD`, which `tests.support.child_run` gives a child."""
    parser.addoption(OPTION, type=int, metavar="FD", help=argparse.SUPPRESS)


def judges(config: pytest.Config) -> bool:
    """Return True if this process gets the report of every test and decides the run's outcome.

    False for a worker of pytest-xdist and a child run, which send their reports to that process.
    """
    return not hasattr(config, "workerinput") and config.getoption(OPTION) is None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any], dict[str, Any]]:
    """Escape surrogates in a serialized report, because it is sent as UTF-8.

    The message of a failed test may contain bytes that are not UTF-8.
    """
    data = yield
    escaped = _escaped(data)
    assert isinstance(escaped, dict)
    return escaped


def _escaped(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_escaped(item) for item in value)
    return value
