"""Another system's JetStream under a prefix of ours; the other system is nats-server."""

# Subject: remotes

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.errors import NoRespondersError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from core.node.runtime import RuntimeOptions
from core.remote.settings import Remote
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.remotes import PostgresRemotes
from core.storage.remotes import RemoteRow, RemoteState
from tests.support.eventually import observed
from tests.support.natsserver import NatsServer
from tests.support.node import Node, running_node

# What docs/remotes.md says that it takes to read.
READER = (
    "{ user: reader, password: p, permissions: {"
    ' publish: ["$JS.API.CONSUMER.>", "$JS.FC.>"], subscribe: "_INBOX.>" } }'
)


@pytest.fixture(scope="module")
def hub() -> Iterator[NatsServer]:
    users = f"{{ users: [ {READER}, {{ user: all, password: p }} ] }}"
    with NatsServer({"authorization": users, "no_auth_user": "all"}) as server:
        yield server


def url(server: NatsServer, login: str = "") -> str:
    return f"nats://{login}{server.address[0]}:{server.address[1]}"


def state_of(node: Node) -> RemoteState:
    return node.remotes.states()[0]


@asynccontextmanager
async def attached(database: str, *remotes: Remote) -> AsyncIterator[tuple[Node, NatsClient]]:
    """A node with remotes that are connected, and an official client of the node."""
    async with running_node(database, options=RuntimeOptions(remotes=remotes)) as node:

        async def connected() -> bool:
            states = node.remotes.states()
            return bool(states) and all(state.connected for state in states)

        await observed(connected)
        nc = await nats.connect(node.nats_address)
        try:
            yield node, nc
        finally:
            await nc.close()


def test_the_api_of_the_other_system_is_here_under_its_name(database: str, hub: NatsServer) -> None:
    async def work() -> None:
        async with attached(database, Remote("hub", url(hub))) as (node, nc):
            there = nc.jetstream(domain="hub", timeout=20)
            await there.add_stream(name="API", subjects=["api.>"])
            direct = await nats.connect(url(hub))
            await direct.jetstream(timeout=30).publish("api.one", b"1")
            info = await there.stream_info("API")
            names = [each.config.name for each in await nc.jetstream(timeout=30).streams_info()]
            with pytest.raises(NotFoundError):
                await there.stream_info("NONE")
            message = await there.get_msg("API", 1)
            await there.delete_stream("API")
            await direct.close()

            assert info.state.messages == 1
            assert "API" not in names, "it is not a stream of ours"
            assert message.data == b"1"
            assert state_of(node).server.endswith("2.15.1")
            assert state_of(node).rtt_ns >= 0

    asyncio.run(work())


def test_a_pull_consumer_is_read_and_acknowledged(database: str, hub: NatsServer) -> None:
    async def work() -> None:
        async with attached(database, Remote("hub", url(hub))) as (_, nc):
            direct = await nats.connect(url(hub))
            origin = direct.jetstream(timeout=30)
            await origin.add_stream(name="PULL", subjects=["pull.>"])
            for number in range(50):
                await origin.publish("pull.x", b"%d" % number)
            there = nc.jetstream(domain="hub", timeout=20)
            sub = await there.pull_subscribe("pull.>", durable="reader", stream="PULL")
            seen = []
            for _ in range(5):
                for msg in await sub.fetch(10, timeout=20):
                    seen.append((msg.metadata.sequence.stream, msg.subject, msg.data))
                    assert msg.metadata.stream == "PULL"
                    assert msg.metadata.domain == "hub"
                    await msg.ack_sync(timeout=20)
            info = await origin.consumer_info("PULL", "reader")
            await origin.delete_stream("PULL")
            await direct.close()

            assert seen == [(n + 1, "pull.x", b"%d" % n) for n in range(50)]
            assert info.num_ack_pending == 0
            assert info.ack_floor.stream_seq == 50

    asyncio.run(work())


def test_a_push_consumer_delivers_and_its_interest_ends_with_the_listener(
    database: str, hub: NatsServer
) -> None:
    count = 20_000

    async def work() -> None:
        async with attached(database, Remote("hub", url(hub, "reader:p@"))) as (node, nc):
            direct = await nats.connect(url(hub))
            origin = direct.jetstream(publish_async_max_pending=count)
            await origin.add_stream(name="PUSH", subjects=["push.>"])
            for number in range(count):
                await origin.publish_async(f"push.{number % 7}", b"%d" % number + b"." * 500)
            await origin.publish_async_completed()
            seen: list[int] = []
            done = asyncio.Event()

            async def take(msg: Any) -> None:
                seen.append(msg.metadata.sequence.stream)
                if len(seen) == count:
                    done.set()

            there = nc.jetstream(domain="hub", timeout=20)
            sub = await there.subscribe(
                "push.>",
                stream="PUSH",
                cb=take,
                manual_ack=True,
                config=ConsumerConfig(
                    durable_name="pushed",
                    deliver_policy=DeliverPolicy.ALL,
                    ack_policy=AckPolicy.NONE,
                    flow_control=True,
                    idle_heartbeat=0.5,
                ),
            )
            async with asyncio.timeout(120):
                await done.wait()
            asked = await there.consumer_info("PUSH", "pushed")
            bound = (await origin.consumer_info("PUSH", "pushed")).push_bound
            await sub.unsubscribe()

            async def deserted() -> bool:
                return not (await origin.consumer_info("PUSH", "pushed")).push_bound

            await observed(deserted)
            await origin.delete_stream("PUSH")
            await direct.close()

            assert seen == list(range(1, count + 1))
            assert asked.config.deliver_subject == sub._sub.subject, "the name it has here"
            assert bound
            assert state_of(node).relays == 0

    asyncio.run(work())


def test_explicit_acks_of_a_push_consumer_reach_their_consumer(
    database: str, hub: NatsServer
) -> None:
    async def work() -> None:
        async with attached(database, Remote("hub", url(hub))) as (_, nc):
            there = nc.jetstream(domain="hub", timeout=20)
            await there.add_stream(name="ACKED", subjects=["acked.>"])
            direct = await nats.connect(url(hub))
            for number in range(5):
                await direct.jetstream(timeout=30).publish("acked.x", b"%d" % number)
            sub = await there.subscribe("acked.>", stream="ACKED", durable="d", manual_ack=True)
            for _ in range(5):
                await (await sub.next_msg(timeout=20)).ack()

            async def settled() -> bool:
                info = await there.consumer_info("ACKED", "d")
                return bool(info.ack_floor.stream_seq == 5)

            await observed(settled)
            await there.delete_stream("ACKED")
            await direct.close()

    asyncio.run(work())


def test_while_the_other_system_is_away_there_are_no_responders(database: str) -> None:
    async def work(server: NatsServer) -> None:
        async with attached(database, Remote("away", url(server))) as (node, nc):
            server.kill()

            async def gone() -> bool:
                return not state_of(node).connected

            await observed(gone)
            with pytest.raises(NoRespondersError):
                await nc.request("$JS.away.API.INFO", b"", timeout=20)

            async def refused() -> bool:
                return "refused" in state_of(node).error.lower()

            await observed(refused)

    with NatsServer() as server:
        asyncio.run(work(server))


def test_the_list_is_that_of_the_database(database: str, hub: NatsServer) -> None:
    async def work() -> None:
        pool = await Connector(database).pool(Purpose.WRITE, 1)
        store = PostgresRemotes(pool)
        await store.add(RemoteRow("hub", url(hub), ""))
        for _ in range(2):  # the second leader finds what the first had
            async with running_node(database) as node:

                async def told() -> bool:
                    rows = await store.states()
                    return rows[0].state.connected and rows[0].at is not None

                await observed(told)
                assert state_of(node).server.endswith("2.15.1")
            await store.add(RemoteRow("hub", url(hub), ""))
        await pool.close()

    asyncio.run(work())
