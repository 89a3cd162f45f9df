"""A place for the data of servers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scratch import scratch


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory for one test, in memory where there is room; what measures times asks a disk."""
    path = scratch("jetgate-e2e-")
    yield path
    shutil.rmtree(path, ignore_errors=True)
