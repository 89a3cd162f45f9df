"""A connection to either server, with the requests that these tests send."""

from collections.abc import Iterator

import pytest

from tests.regressions.desk import Desk, Server
from tests.wire.transcript import clean


@pytest.fixture
def desk(server: Server) -> Iterator[Desk]:
    """At both servers, one after the other; empty afterwards."""
    with Desk(server) as desk:
        yield desk
    clean(server)
