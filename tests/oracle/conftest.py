"""Two servers for histories, whose streams take any subject."""

from collections.abc import Iterator

import pytest

from tests.oracle.comparing import reference
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer


@pytest.fixture(scope="module")
def ours() -> Iterator[JetgateServer]:
    """jetgate without a stream."""
    with JetgateServer(in_memory=True) as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[NatsServer]:
    """The reference server without a stream."""
    with reference() as server:
        yield server
