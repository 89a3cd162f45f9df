"""Which process of a run this is: the one that was started, or one that runs tests for it."""

import argparse

import pytest

OPTION = "--reports-to"


def add_option(parser: pytest.Parser) -> None:
    """Add `--reports-to`, with which `tests/support/child_run.py` starts a run of its own."""
    parser.addoption(OPTION, type=int, metavar="FD", help=argparse.SUPPRESS)


def judges(config: pytest.Config) -> bool:
    """Whether this process judges the run: it sees the report of every test.

    A worker of pytest-xdist and a child run see some of them, and report to that process.
    """
    return not hasattr(config, "workerinput") and config.getoption(OPTION) is None
