"""Two servers for histories, whose streams may have any subjects."""

from collections.abc import Iterator

import pytest

from tests.differential.comparing import reference
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer


@pytest.fixture(scope="module")
def ours() -> Iterator[JetgateServer]:
    """Yield a jetgate server without streams."""
    with JetgateServer(in_memory=True) as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[NatsServer]:
    """Yield a nats-server without other streams on the subjects of the tests."""
    with reference() as server:
        yield server
