"""Streams in memory: over a restart the reference has forgotten them, jetgate has not."""

# Subject: storage

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

STREAM = {"name": "M", "subjects": ["m.>"], "storage": "memory"}
PULL = {"stream_name": "M", "config": {"durable_name": "C", "ack_policy": "explicit"}}


@pytest.fixture(
    params=[partial(JetgateServer, in_memory=True), NatsServer], ids=["jetgate", "nats-server"]
)
def own(request: pytest.FixtureRequest) -> Iterator[JetgateServer | NatsServer]:
    """A server of its own, which may be restarted."""
    with request.param() as server:
        yield server


def test_the_contents_after_a_restart(own: JetgateServer | NatsServer) -> None:
    with Wire(own.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.M", STREAM)
        wire.api("CONSUMER.CREATE.M.C", PULL)
        for text in (b"one", b"two"):
            wire.request("m.a", text)
        before = wire.api("STREAM.INFO.M")["state"]
        assert before["bytes"] == 2 * (16 + len("m.a") + 3)

    own.restart()

    with Wire(own.address) as wire:
        wire.hello()
        found = wire.api("STREAM.INFO.M")
        if isinstance(own, NatsServer):
            assert found["error"]["err_code"] == 10059
        else:
            assert found["state"] == before
            assert wire.api("CONSUMER.INFO.M.C")["num_pending"] == 2
