"""Counters as the official client uses them, and over PostgreSQL: many at once, after a restart."""

# Subject: counters

import asyncio
import json
from collections.abc import Awaitable, Callable

import nats
import pytest
from nats.aio.client import Client
from nats.js.errors import APIError

from core.model.stream import StreamConfig, StreamSource, SubjectTransformConfig
from core.node.runtime import RuntimeOptions
from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import add_stream, running_node
from tests.support.pg import PostgresServer

Server = JetgateServer | NatsServer


def with_client(address: tuple[str, int], work: Callable[[Client], Awaitable[None]]) -> None:
    """Run something with the official client."""

    async def run() -> None:
        client = await nats.connect(f"nats://{address[0]}:{address[1]}")
        try:
            await work(client)
        finally:
            await client.close()

    asyncio.run(run())


def test_the_official_client_counts(server: Server) -> None:
    async def work(client: Client) -> None:
        js = client.jetstream(timeout=30)
        await js.add_stream(name="HITS", subjects=["hits.>"], allow_msg_counter=True)
        try:
            acks = [
                await js.publish("hits.home", headers={"Nats-Incr": value})
                for value in ("1", "+41", "-2", "123456789012345678901234567890")
            ]
            with pytest.raises(APIError) as missing:
                await js.publish("hits.home", b"")
            last = await js.get_last_msg("HITS", "hits.home")
            config = (await js.stream_info("HITS")).config
        finally:
            await js.delete_stream("HITS")

        assert [ack.val for ack in acks] == ["1", "42", "40", "123456789012345678901234567930"]
        assert missing.value.err_code == 10169
        assert json.loads(last.data or b"") == {"val": acks[-1].val}
        assert last.headers == {"Nats-Incr": "123456789012345678901234567890"}
        assert config.allow_msg_counter

    with_client(server.address, work)


def test_many_at_once_get_every_total_once(server: Server) -> None:
    """Whoever counts first, the totals acknowledged are all from 1 to the last."""

    async def work(client: Client) -> None:
        url = client.connected_url
        assert url is not None
        others = [await nats.connect(url.geturl()) for _ in range(4)]
        js = client.jetstream(timeout=30)
        await js.add_stream(name="MANY", subjects=["many"], allow_msg_counter=True)
        try:
            pending = [
                await other.jetstream(timeout=30).publish_async("many", headers={"Nats-Incr": "1"})
                for _ in range(250)
                for other in others
            ]
            acks = await asyncio.gather(*pending)
        finally:
            await js.delete_stream("MANY")
            for other in others:
                await other.close()

        assert sorted(int(ack.val or 0) for ack in acks) == list(range(1, 1001))
        assert all(str(ack.seq) == ack.val for ack in acks)

    with_client(server.address, work)


def test_totals_outlive_the_node_here_and_where_they_are_added_up(
    postgres: PostgresServer, database: str
) -> None:
    """Nothing is in memory after the start: totals come from storage, many in one query."""
    names = [f"o.{i}" for i in range(40)]
    origin = StreamConfig(name="O", subjects=("o.*",), allow_msg_counter=True)
    everything = SubjectTransformConfig(src="o.*", dest="all")
    total = StreamConfig(
        name="T",
        subjects=("all",),
        allow_msg_counter=True,
        sources=(StreamSource(name="O", subject_transforms=(everything,)),),
    )

    async def count(client: Client, value: str) -> list[str | None]:
        js = client.jetstream(timeout=30)
        pending = [await js.publish_async(n, headers={"Nats-Incr": value}) for n in names]
        return [ack.val for ack in await asyncio.gather(*pending)]

    async def added(client: Client, seq: int) -> object:
        """The total of all, once so many copies are there."""
        js = client.jetstream(timeout=30)

        async def look() -> bool:
            return (await js.stream_info("T")).state.last_seq >= seq

        await observed(look)
        return json.loads((await js.get_last_msg("T", "all")).data or b"")

    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, origin)
            await add_stream(node, total)
            client = await nats.connect(f"nats://127.0.0.1:{node.hub.port}")
            assert await count(client, "5") == ["5"] * 40
            assert await added(client, 40) == {"val": "200"}
            await client.close()
        async with running_node(database, options=RuntimeOptions(tail_bytes=1)) as node:
            client = await nats.connect(f"nats://127.0.0.1:{node.hub.port}")
            assert await count(client, "-1") == ["4"] * 40
            assert await added(client, 80) == {"val": "160"}
            ack = await client.jetstream(timeout=30).publish("all", headers={"Nats-Incr": "1000"})
            assert (ack.seq, ack.val) == (81, "1160")
            await client.jetstream(timeout=30).purge_stream("O", subject="o.7")
            assert (await count(client, "1"))[6:9] == ["5", "1", "5"]
            # o.7 said 4 before and says 1 now; the others say 1 more.
            assert await added(client, 121) == {"val": str(1160 + 39 - 3)}
            await client.close()

    asyncio.run(scenario())
