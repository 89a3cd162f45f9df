"""JetStream of one server, for clients of others in its cluster that have none."""

# Subject: routes

import asyncio
from contextlib import suppress

import nats
import pytest
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from core.node.server import ServerOptions
from core.route.settings import ClusterSettings
from tests.support.cluster import Member, jetgate, nats_server
from tests.support.eventually import observed
from tests.support.node import running_node

CLUSTER = ClusterSettings(name="test", host="127.0.0.1", port=0)


async def publish_and_read(js: JetStreamContext) -> None:
    """Streams, acks, pulls, pushes, Direct Get and key-value: all that a client has."""
    await js.add_stream(name="S", subjects=["s.>"], allow_direct=True)
    acks = await asyncio.gather(*(js.publish(f"s.{n}", b"%d" % n) for n in range(200)))
    assert sorted(ack.seq for ack in acks) == list(range(1, 201))
    pull = await js.pull_subscribe("s.>", durable="pull")
    fetched: list[int] = []
    while len(fetched) < 200:
        for message in await pull.fetch(50, timeout=30):
            assert message.subject == f"s.{message.data.decode()}"
            await message.ack_sync(timeout=30)
            fetched.append(message.metadata.sequence.stream)
    assert fetched == list(range(1, 201))
    info = await js.consumer_info("S", "pull")
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    push = await js.subscribe("s.>", ordered_consumer=True)
    pushed = [await push.next_msg(timeout=30) for _ in range(200)]
    assert [m.metadata.sequence.stream for m in pushed] == list(range(1, 201))
    assert {(m.subject, m.data) for m in pushed} == {(f"s.{n}", b"%d" % n) for n in range(200)}
    await push.unsubscribe()
    group = await js.subscribe("s.>", queue="workers", durable="workers", manual_ack=True)
    for n in range(200):
        message = await group.next_msg(timeout=30)
        assert message.subject == f"s.{n}"
        await message.ack()
    await group.unsubscribe()
    assert (await js.get_msg("S", 7, direct=True)).subject == "s.6"
    with suppress(NotFoundError):
        await js.stream_info("T")
        pytest.fail("there is no such stream")
    bucket = await js.create_key_value(bucket="B")
    await bucket.put("k", b"v")
    assert (await bucket.get("k")).value == b"v"
    await js.delete_stream("S")
    await js.delete_key_value("B")


@pytest.mark.parametrize("kind", ["jetgate", "nats-server"])
def test_clients_of_another_server_use_it(database: str, kind: str) -> None:
    async def scenario() -> None:
        options = ServerOptions(port=0, cluster=CLUSTER)
        async with running_node(database, server=options) as node:
            mesh = node.server.mesh
            assert mesh is not None
            ports = [mesh.address[1]]
            front: Member = jetgate(ports=ports) if kind == "jetgate" else nats_server(ports=ports)
            try:
                await asyncio.to_thread(front.start)
                await observed(lambda: mesh.peers)
                client = await nats.connect(f"nats://127.0.0.1:{front.address[1]}")
                js = client.jetstream(timeout=30)

                async def is_there() -> bool:
                    with suppress(Exception):
                        return bool(await js.account_info())
                    return False

                await observed(is_there)
                await publish_and_read(js)
                await client.close()
            finally:
                await asyncio.to_thread(front.stop)

    asyncio.run(scenario())
