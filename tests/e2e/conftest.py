"""Fixtures of the tests of whole processes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dropin import name  # noqa: F401  (a fixture)
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer
from tests.support.scratch import scratch


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory for one test, in memory where there is room; what measures times asks a disk."""
    path = scratch("jetgate-e2e-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def nodes(durable: PostgresServer) -> Iterator[Nodes]:
    """Three nodes over one database."""
    with Nodes(durable.fresh_database(), 3) as nodes:
        yield nodes
