"""The feeds of `core.client`, at both servers: credit, bounded memory, nothing lost."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from core.client import ConnectionLost, JetStream, Link, connect, dial
from core.client.feeds import (
    Credit,
    DurableFeed,
    DurableReading,
    core_feed,
    durable_feed,
    ordered_feed,
)
from core.client.link import Closed, Receive
from core.client.msg import Msg
from core.client.subscribe import Fetch, JsMsg, Limits, Target, pull
from core.errors import ApiError
from core.model.stream import StreamConfig
from core.runtime.tasks import counters
from tests.integration.subscribing.table import Desk, consumers, gone, play, until
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

Server = JetgateServer | NatsServer
MINUTE = 60_000_000_000
PLENTY = 1 << 40


def at(server: Server, body: Callable[[Desk], Awaitable[None]]) -> None:
    asyncio.run(play(dial("{}:{}".format(*server.address)), body))


async def durable(
    desk: Desk, credit: Credit | None = None, limits: Limits | None = None
) -> DurableFeed:
    """A feed of the consumer C, which waits a minute for acknowledgements."""
    if await desk.info("C") is None:
        await desk.consumer("C", ack_wait=MINUTE)
    reading = DurableReading(desk.alarms.append, limits or Limits(512, 1 << 20), 0.5)
    return await durable_feed(desk.js, desk.target(consumer="C"), reading, credit)


async def delivered(desk: Desk) -> int:
    """How many messages the server has sent for the consumer C."""
    await desk.settle()
    info = await desk.info("C")
    assert info is not None
    return info.delivered.consumer_seq


async def read(feed: DurableFeed, number: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < number:
            found += [msg.stream_seq for msg in await feed.batch()]
    return found


def test_a_durable_feed_pulls_no_more_than_its_credit(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(100)
        async with await durable(desk) as feed:
            assert await delivered(desk) == 0
            feed.grant(10, PLENTY)
            assert await read(feed, 10) == list(range(1, 11))
            feed.grant(10, PLENTY)
            feed.grant(5, PLENTY)
            assert await delivered(desk) == 10
            feed.grant(25, PLENTY)
            assert await read(feed, 15) == list(range(11, 26))
            assert await delivered(desk) == 25

    at(server, scenario)


def test_the_bytes_of_a_credit_are_exceeded_by_one_message_at_most(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(20, body=bytes(1000))
        async with await durable(desk) as feed:
            feed.grant(100, 2500)
            assert await read(feed, 3) == [1, 2, 3]
            assert await delivered(desk) == 3
            feed.grant(100, feed.credit.sent_bytes + 1)
            assert await read(feed, 1) == [4]
            assert await delivered(desk) == 4

    at(server, scenario)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_granted_when_all_is_delivered_once_and_within_credit(
    server: Server, seed: int
) -> None:
    chance = random.Random(seed)

    async def scenario(desk: Desk) -> None:
        sizes = [chance.choice((0, 10, 500, 3000)) for _ in range(120)]
        for size in sizes:
            await desk.fill(1, body=bytes(size))
        limits = Limits(chance.choice((3, 16, 200)), chance.choice((100, 4000, 1 << 20)))
        found: list[int] = []
        async with await durable(desk, limits=limits) as feed:
            credit = feed.credit
            while len(found) < len(sizes):
                more = credit.sent_messages + chance.randrange(1, 30)
                feed.grant(more, credit.sent_bytes + chance.randrange(1, 9000))
                before = credit.sent_bytes
                batch = await feed.batch(chance.choice((1, 5, 1000)), within=20)
                found += [msg.stream_seq for msg in batch]
                feed.acks.ack(batch)
                assert batch
                assert credit.sent_messages <= credit.messages
                assert before + sum(msg.size for msg in batch[:-1]) < credit.nbytes
                assert feed._inbox.messages <= limits.messages
                assert await delivered(desk) <= credit.messages
        assert found == list(range(1, len(sizes) + 1))

    at(server, scenario)


def test_a_slow_reader_of_a_durable_feed_costs_bounded_memory(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(200, body=bytes(1000))
        limits = Limits(16, 1 << 20)
        async with await durable(desk, Credit(PLENTY, PLENTY), limits) as feed:
            await until(lambda: feed._inbox.messages == 16)
            assert await delivered(desk) == 16
            assert await read(feed, 200) == list(range(1, 201))

    at(server, scenario)


def test_a_feed_that_is_closed_gives_back_what_was_not_taken(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(10)
        feed = await durable(desk, Credit(10, PLENTY))
        await until(lambda: feed._inbox.messages == 10)
        taken = await feed.batch(4)
        await feed.close()
        assert await feed.batch() == []
        other = await pull(desk.js, desk.target(consumer="C"))
        again = await other.fetch(Fetch(6, expires=20))
        assert sorted(msg.stream_seq for msg in again) == [5, 6, 7, 8, 9, 10]
        assert {msg.delivered for msg in again} == {2}
        feed.acks.ack(taken)  # what was taken may still be acknowledged
        assert len(desk.client._subs) == 0

    at(server, scenario)


def test_a_durable_feed_ends_with_its_consumer(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(3)
        feed = await durable(desk, Credit(100, PLENTY))
        assert await read(feed, 3) == [1, 2, 3]
        await desk.other.delete_consumer(desk.name, "C")
        with pytest.raises(ApiError) as caught:
            await feed.batch(within=20)
        assert caught.value.err_code == 10014
        assert feed.is_over
        await feed.close()

    at(server, scenario)


def test_a_durable_feed_goes_on_over_a_lost_connection(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        async with await durable(desk, Credit(1000, PLENTY)) as feed:
            for turn in range(3):
                await desk.fill(20)
                # What the server has sent to the connection that broke comes again, later.
                missing = set(range(1 + 20 * turn, 21 + 20 * turn))
                async with asyncio.timeout(120):
                    while missing:
                        missing -= {msg.stream_seq for msg in await feed.batch()}
                assert desk.client._link is not None
                desk.client._link.abort()

    at(server, scenario)


@pytest.mark.parametrize("kind", ["nats-server", "jetgate"])
def test_a_durable_feed_goes_on_over_a_restart_of_the_server(kind: str) -> None:
    async def scenario(server: Server) -> None:
        async def dialed(receive: Receive, closed: Closed) -> Link:
            return await dial("{}:{}".format(*server.address))(receive, closed)

        js = JetStream(await connect(dialed), timeout=30)
        await js.create_stream(StreamConfig(name="S", subjects=("s",)))
        feed = await durable_feed(
            js, Target(subject="s", durable="D"), credit=Credit(PLENTY, PLENTY)
        )
        for body in (b"before", b"after"):
            for _ in range(3):
                await js.publish(b"s", body)
            found: set[bytes] = set()
            while body not in found:
                batch = await feed.batch(within=20)
                assert batch
                assert await feed.acks.ack_sync(batch) == []
                found |= {msg.payload for msg in batch}
            if body == b"before":
                await asyncio.to_thread(server.restart)
                await js.client.wait_connected()
        await feed.close()
        await js.client.close()

    with NatsServer() if kind == "nats-server" else JetgateServer(in_memory=True) as server:
        asyncio.run(scenario(server))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_a_durable_feed_brings_every_message(server: Server, seed: int) -> None:
    at(server, lambda desk: durable_by_chance(desk, random.Random(seed)))


async def durable_by_chance(desk: Desk, chance: random.Random) -> None:
    """Publish, read and acknowledge, with mishaps between; what a mishap swallows comes again."""
    await desk.consumer("C", ack_wait=300_000_000)
    published, acked = 0, set[int]()
    feed = await durable(desk, limits=Limits(30, 1 << 20))
    for _ in range(20):
        number = chance.randrange(20)
        await desk.fill(number)
        published += number
        feed.grant(feed.credit.sent_messages + chance.randrange(40), PLENTY)
        match chance.randrange(5):
            case 0 if desk.client._link is not None:
                desk.client._link.abort()
            case 1:
                await feed.close()
                await desk.client.wait_connected()
                feed = await durable(desk, Credit(10, PLENTY), Limits(30, 1 << 20))
            case 2:
                feed._puller._on_silence(1.5)
            case 3:
                await acknowledge(feed, await feed.batch(10, within=0.01), acked)
    feed.grant(PLENTY, PLENTY)
    async with asyncio.timeout(20):
        while len(acked) < published:
            await acknowledge(feed, await feed.batch(within=1), acked)
    assert acked == set(range(1, published + 1))
    await feed.close()
    info = await desk.info("C")
    assert info is not None
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, published)


async def acknowledge(feed: DurableFeed, batch: list[JsMsg], acked: set[int]) -> None:
    """Acknowledge; what was not confirmed does not count, and comes again."""
    with suppress(ConnectionLost):
        missing = await feed.acks.ack_sync(batch)
        acked |= {msg.stream_seq for msg in batch if msg not in missing}


def test_feeds_of_one_consumer_share_its_messages(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(60)
        found: list[int] = []
        async with await durable(desk) as one, await durable(desk) as two:
            for total in range(10, 31, 10):
                for feed in (one, two):
                    feed.grant(total, PLENTY)
                    found += await read(feed, 10)
        assert sorted(found) == list(range(1, 61))

    at(server, scenario)


def test_a_consumer_that_a_feed_created_goes_with_it(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        feed = await durable_feed(desk.js, desk.target())
        assert await consumers(desk) == 1
        await feed.close()
        await gone(desk, feed.consumer)

    at(server, scenario)


def test_an_ordered_feed_resumes_behind_what_was_taken(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(100)
        async with await ordered_feed(desk.js, desk.target(), desk.ordered()) as feed:
            assert feed.position.seq == 0
            feed.grant(30, PLENTY)
            assert [msg.stream_seq for msg in await feed.batch(12)] == list(range(1, 13))
            position = feed.position
            assert position.seq == 12
        reading = desk.ordered(after=position)
        async with await ordered_feed(
            desk.js, desk.target(), reading, Credit(1000, PLENTY)
        ) as feed:
            assert feed.recovered
            assert feed.position == position
            found: list[int] = []
            while len(found) < 88:
                found += [msg.stream_seq for msg in await feed.batch(within=20)]
            assert found == list(range(13, 101))
        assert await consumers(desk) == 0

    at(server, scenario)


def test_a_core_feed_drops_what_it_has_no_room_for_and_counts(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        feed = core_feed(desk.client, "news.>", limits=Limits(10, 1 << 20))
        await desk.client.flush()

        async def publish(first: int, last: int) -> None:
            for number in range(first, last):
                desk.other.client.publish(b"news.a", b"%d" % number)
            await desk.settle()

        def numbers(batch: list[Msg]) -> list[int]:
            return [int(msg.payload) for msg in batch]

        await publish(0, 30)
        assert feed.dropped == 20
        feed.grant(4, PLENTY)
        assert numbers(await feed.batch()) == [0, 1, 2, 3]
        await publish(30, 40)
        assert feed.dropped == 26
        feed.grant(100, PLENTY)
        assert numbers(await feed.batch()) == [4, 5, 6, 7, 8, 9, 30, 31, 32, 33]
        await feed.close()
        await publish(40, 41)
        assert await feed.batch() == []

    at(server, scenario)


def test_no_feed_makes_a_task_per_message(server: Server) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.fill(4000)
        await desk.consumer("C", ack_wait=MINUTE, max_ack_pending=-1)
        full = Credit(PLENTY, PLENTY)
        async with await durable(desk, full) as one:
            before = counters["tasks"]
            assert await read(one, 4000) == list(range(1, 4001))
            assert counters["tasks"] == before
        async with await ordered_feed(
            desk.js, desk.target(), desk.ordered(), Credit(PLENTY, PLENTY)
        ) as two:
            before = counters["tasks"]
            number = 0
            while number < 4000:
                number += len(await two.batch(within=20))
            assert counters["tasks"] == before

    at(server, scenario)
