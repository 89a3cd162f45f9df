"""A server outlives the leaderships of its process: each adds JetStream and takes it out again."""

# Subject: leadership

import asyncio

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig, StreamSource
from nats.js.errors import ServiceUnavailableError

from core.node.runtime import RuntimeOptions
from core.node.server import Server, ServerOptions
from core.pubsub.account import Account
from core.remote.settings import Remote
from core.runtime.clock import SystemClock
from core.storage.postgres.connect import Connector
from tests.support.node import lead


def left_of_jetstream(account: Account) -> tuple[object, ...]:
    """What JetStream registers in an account."""
    subscriptions, _ = account.subscription_counts()
    services = subscriptions - account.client_subscriptions
    return services, dict(account.ack_handlers), list(account.on_interest), account.is_silent


@pytest.mark.parametrize("name", ["$G", "TENANT"])
def test_a_term_takes_everything_of_jetstream_out_of_its_account(database: str, name: str) -> None:
    async def scenario() -> None:
        server = Server(ServerOptions(port=0, domain="hub"), SystemClock())
        account = server.hub.accounts.get(name) or server.hub.add_account(name)
        before = left_of_jetstream(account)
        nowhere = Remote("away", "nats://127.0.0.1:9")
        runtime = await lead(
            server, Connector(database), RuntimeOptions(account=name, remotes=(nowhere,)), name="n"
        )
        runtime.remotes.start()
        assert left_of_jetstream(account) != before

        await runtime.retire()
        await runtime.stop()

        assert left_of_jetstream(account) == before

    asyncio.run(scenario())


def test_connections_stay_from_one_term_to_the_next(database: str) -> None:
    async def scenario() -> None:
        server = Server(ServerOptions(port=0), SystemClock())
        account = server.hub.default_account()
        before = left_of_jetstream(account)
        connector = Connector(database)
        runtime = await lead(server, connector, name="first")
        await server.listen()
        nc = await nats.connect(server.nats_address)
        js = nc.jetstream(timeout=30)
        await js.add_stream(StreamConfig(name="S", subjects=["s.>"], allow_direct=True))
        await js.add_stream(StreamConfig(name="COPY", mirror=StreamSource(name="S")))
        await js.add_consumer(
            "S", ConsumerConfig(durable_name="pull", ack_policy=AckPolicy.EXPLICIT)
        )
        await js.add_consumer("S", ConsumerConfig(durable_name="push", deliver_subject="to"))
        await js.publish("s.1", b"one")

        await runtime.retire()
        await runtime.stop()
        assert left_of_jetstream(account) == before
        with pytest.raises(ServiceUnavailableError):
            await js.account_info()

        runtime = await lead(server, connector, name="second")
        ack = await js.publish("s.2", b"two")
        assert (ack.stream, ack.seq) == ("S", 2)
        assert nc.is_connected
        assert nc.stats["reconnects"] == 0
        await nc.close()
        server.close_ports()
        await runtime.retire()
        await server.disconnect()
        await runtime.stop()

    asyncio.run(scenario())
