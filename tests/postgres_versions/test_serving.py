"""`jetgate serve` on each version: accepted, used by the official client, killed, found again."""

# Subject: leadership

import asyncio
from typing import Any

import asyncpg
import nats
from nats.js.api import ConsumerConfig, DeliverPolicy, StreamConfig

from tests.support.jetgate import JetgateServer
from tests.support.pg import PostgresServer

COUNT = 3000


def test_serve_keeps_everything(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)
    with JetgateServer(dsn=dsn) as server:
        asyncio.run(_use(server.address))
        server.restart()
        asyncio.run(_find(server.address))

    major = "select current_setting('server_version_num')::int / 10000"
    assert asyncio.run(_ask(dsn, major)) == postgres.major
    texts = "select count(*) from jetgate.messages where stream = 'S' and text = 'm' || seq"
    assert asyncio.run(_ask(dsn, texts)) == COUNT - 1
    kept = "select string_agg(text, ',' order by seq) from jetgate.messages where stream = 'KV_B'"
    assert asyncio.run(_ask(dsn, kept)) == "3,1"
    floor = "select ack_floor_stream_seq from jetgate.consumers where name = 'C'"
    assert asyncio.run(_ask(dsn, floor)) == 100


async def _use(address: tuple[str, int]) -> None:
    client = await nats.connect("nats://{}:{}".format(*address))
    js = client.jetstream(timeout=30)
    await js.add_stream(StreamConfig(name="S", subjects=["s.>"], allow_direct=True))
    futures = [
        await js.publish_async(f"s.{n % 7}", b"m%d" % n, headers={"Nats-Msg-Id": str(n)})
        for n in range(1, COUNT + 1)
    ]
    assert [ack.seq for ack in await asyncio.gather(*futures)] == list(range(1, COUNT + 1))
    again = await js.publish("s.0", b"x", headers={"Nats-Msg-Id": "7"})
    assert (again.seq, again.duplicate) == (7, True)
    await js.delete_msg("S", 1234)
    bucket = await js.create_key_value(bucket="B", history=1)
    for value in (b"1", b"2", b"3"):
        await bucket.put("key", value)
    await bucket.put("other", b"1")
    pull = await js.pull_subscribe("s.>", durable="C", stream="S")
    for msg in await pull.fetch(100, timeout=30):
        await msg.ack_sync(timeout=30)
    await client.close()


async def _find(address: tuple[str, int]) -> None:
    client = await nats.connect("nats://{}:{}".format(*address))
    js = client.jetstream(timeout=30)
    state = (await js.stream_info("S")).state
    assert (state.messages, state.last_seq) == (COUNT - 1, COUNT)
    again = await js.publish("s.0", b"x", headers={"Nats-Msg-Id": str(COUNT)})
    assert (again.seq, again.duplicate) == (COUNT, True)
    pull = await js.pull_subscribe("s.>", durable="C", stream="S")
    assert [msg.data for msg in await pull.fetch(3, timeout=30)] == [b"m101", b"m102", b"m103"]
    config = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)
    last = await js.pull_subscribe("s.>", stream="S", config=config)
    assert len(await last.fetch(7, timeout=30)) == 7
    assert (await js.get_last_msg("S", "s.3", direct=True)).data == b"m2999"
    assert (await (await js.key_value("B")).get("key")).value == b"3"
    await client.close()


async def _ask(dsn: str, statement: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()
