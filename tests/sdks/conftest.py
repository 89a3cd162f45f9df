"""One server for the SDKs, and a lossy way to it.

The Python SDK is generated from the contract as it is now. Where that is not possible, each file is
skipped with the command that cures it.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import generate
import pytest

from tests.sdks.lossy import LossyWay
from tests.sdks.packages import built
from tests.support.jetgate import JetgateServer

_numbers = count(1)
_missing = ""
try:
    generate.python()
except generate.GeneratorMissing as _error:
    _missing = str(_error)


class _Skipped(pytest.Module):
    """A test file that cannot be imported."""

    def collect(self) -> list[pytest.Item]:
        """Skip the file."""
        pytest.skip(_missing)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> _Skipped | None:
    """Skip the files of this folder while the generated code is missing."""
    return _Skipped.from_parent(parent, path=module_path) if _missing else None


@pytest.fixture
def url(jetgate_server: JetgateServer) -> str:
    """Where the HTTP side is."""
    return "http://{}:{}".format(*jetgate_server.http)


@pytest.fixture
def nats_url(jetgate_server: JetgateServer) -> str:
    """Where the NATS side is."""
    return "nats://{}:{}".format(*jetgate_server.address)


@pytest.fixture
def way(jetgate_server: JetgateServer) -> Iterator[LossyWay]:
    """A way to the server that can lose answers."""
    with LossyWay(jetgate_server.http) as way:
        yield way


@pytest.fixture
def name() -> str:
    """A name for the streams, subjects and buckets of one test."""
    return f"SDK{next(_numbers)}"


@pytest.fixture(scope="session")
def typescript_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module of the TypeScript SDK, built."""
    return built(tmp_path_factory.mktemp("sdk"))
