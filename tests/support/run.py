"""The role of this process in a run: the started process, or one that runs tests for it."""

import argparse
from collections.abc import Generator
from typing import Any

import pytest

OPTION = "--reports-to"


def add_option(parser: pytest.Parser) -> None:
    """Add `--reports-to`, with which `tests/support/child_run.py` starts a child run."""
    parser.addoption(OPTION, type=int, metavar="FD", help=argparse.SUPPRESS)


def judges(config: pytest.Config) -> bool:
    """Return True if this process decides the outcome of the run: it gets the report of every test.

    A worker of pytest-xdist and a child run get some reports, which they send to that process.
    """
    return not hasattr(config, "workerinput") and config.getoption(OPTION) is None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any], dict[str, Any]]:
    """Escape text that cannot be sent: a failed test may show bytes that are not UTF-8."""
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
