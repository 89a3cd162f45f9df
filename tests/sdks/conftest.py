"""One server for the SDKs, and a lossy way to it."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.sdks.lossy import LossyWay
from tests.sdks.packages import built
from tests.support.jetgate import JetgateServer

_numbers = count(1)


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
