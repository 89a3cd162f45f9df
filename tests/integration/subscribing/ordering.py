"""Rows about ordered consumers: what has to be repaired, and from which position."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from core.client import ConnectionLost
from core.client.subscribe import (
    BufferLimits,
    HeartbeatsMissed,
    OrderedSettings,
    OrderedSubscription,
    Position,
    PositionLost,
    Reason,
    StatusRaised,
    SubscribeError,
    SubscriptionTarget,
    ordered,
)
from core.errors import ApiError
from core.model.consumer import AckPolicy, DeliverPolicy
from core.model.stream import StreamPurgeRequest
from core.protocol import encoder
from tests.integration.subscribing.table import Desk, consumers, gone, refused, row, taken, until

ORDERED = "Ordered Consumers"


async def read(desk: Desk, **given: Any) -> OrderedSubscription:
    return await ordered(desk.js, desk.target(), desk.ordered(**given))


async def seqs(sub: OrderedSubscription, number: int) -> list[int]:
    return [msg.stream_seq for msg in await taken(sub, number)]


async def inject(
    desk: Desk, sub: OrderedSubscription, reply: bytes = b"", headers: bytes = b""
) -> None:
    """Let the client read a message to the subscription, as if the server sent it."""
    await desk.client.flush()
    if sub._puller is None or sub._puller._sub is None:
        return  # it is being made anew anyway
    desk.receive(encoder.message(sub._puller._reply, sub._puller._sub.sid, reply, headers, b""))


async def restarted(sub: OrderedSubscription, times: int) -> None:
    await until(lambda: sub.restarts >= times)


@row(ORDERED, "every message once and in order, without acknowledgements")
async def in_order(desk: Desk) -> None:
    await desk.fill(700)
    async with await read(desk) as sub:
        assert await seqs(sub, 700) == list(range(1, 701))
        await desk.fill(300)
        assert await seqs(sub, 300) == list(range(701, 1001))
        info = await desk.info(sub.consumer)
        assert info is not None
        assert (info.config.ack_policy, info.config.max_deliver) == (AckPolicy.NONE, 1)
        assert sub.restarts == 0
    assert await consumers(desk) == 0


@row(ORDERED, "it has no name, no queue, and no settings that it needs itself")
async def misconfigured(desk: Desk) -> None:
    for given in ({"consumer": "C"}, {"durable": "C"}, {"queue": "q"}):
        await refused(Reason.RESERVED, ordered(desk.js, desk.target(**given)))
    for config in ({"ack_policy": AckPolicy.EXPLICIT}, {"flow_control": True}, {"max_deliver": 2}):
        await refused(Reason.RESERVED, ordered(desk.js, desk.target(config=config)))
    with pytest.raises(SubscribeError):
        await ordered(desk.js, SubscriptionTarget())


@row(ORDERED, "after a gap it is made anew behind the last message")
async def gap(desk: Desk) -> None:
    await desk.fill(3)
    async with await read(desk) as sub:
        assert await seqs(sub, 3) == [1, 2, 3]
        first = sub.consumer
        await inject(desk, sub, b"$JS.ACK.S.C.1.9.9.1.0")
        await restarted(sub, 1)
        await desk.fill(2)
        assert await seqs(sub, 2) == [4, 5]
        assert sub.consumer != first
        await until_alone(desk)


async def until_alone(desk: Desk) -> None:
    async def is_alone() -> bool:
        return await consumers(desk) == 1

    await until(is_alone)


@row(ORDERED, "after a gap that a heartbeat tells of, too")
async def gap_in_a_heartbeat(desk: Desk) -> None:
    await desk.fill(1)
    async with await read(desk) as sub:
        assert await seqs(sub, 1) == [1]
        block = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\n\r\n"
        await inject(desk, sub, headers=block)
        await restarted(sub, 1)
        await desk.fill(1)
        assert await seqs(sub, 1) == [2]


@row(ORDERED, "after its deletion")
async def deletion(desk: Desk) -> None:
    await desk.fill(2)
    async with await read(desk, heartbeat=0.5) as sub:
        assert await seqs(sub, 2) == [1, 2]
        await desk.other.delete_consumer(desk.name, sub.consumer)
        await desk.fill(2)
        assert await seqs(sub, 2) == [3, 4]
        kinds = {type(alarm) for alarm in desk.alarms}
        assert kinds <= {HeartbeatsMissed, StatusRaised}


@row(ORDERED, "after missed heartbeats")
async def missed_heartbeats(desk: Desk) -> None:
    await desk.fill(1)
    async with await read(desk, heartbeat=0.1) as sub:
        assert await seqs(sub, 1) == [1]
        assert sub._puller is not None
        assert sub._puller._sub is not None
        desk.client.write(encoder.unsubscribe(sub._puller._sub.sid))  # the server sends no more
        await restarted(sub, 1)
        await desk.fill(1)
        assert await seqs(sub, 1) == [2]
        assert HeartbeatsMissed in {type(alarm) for alarm in desk.alarms}


@row(ORDERED, "after a status that is an error, such as a change of leader")
async def change_of_leader(desk: Desk) -> None:
    await desk.fill(1)
    async with await read(desk) as sub:
        assert await seqs(sub, 1) == [1]
        await inject(desk, sub, headers=b"NATS/1.0 409 Leadership Change\r\n\r\n")
        await restarted(sub, 1)
        await desk.fill(1)
        assert await seqs(sub, 1) == [2]


@row(ORDERED, "after a lost connection, at once")
async def lost_connection(desk: Desk) -> None:
    await desk.fill(2)
    async with await read(desk) as sub:
        assert await seqs(sub, 2) == [1, 2]
        assert desk.client._link is not None
        desk.client._link.abort()
        await restarted(sub, 1)
        await desk.fill(2)
        assert await seqs(sub, 2) == [3, 4]
        assert sub.restarts >= 1
        await until_alone(desk)


@row(ORDERED, "again and again, without losing or repeating a message")
async def again_and_again(desk: Desk) -> None:
    found: list[int] = []
    async with await read(desk, limits=BufferLimits(50, 1 << 20), heartbeat=0.2) as sub:
        for turn in range(8):
            await desk.fill(40)
            found += await seqs(sub, 13)
            await desk.other.delete_consumer(desk.name, sub.consumer)
            if turn % 2:
                assert desk.client._link is not None
                desk.client._link.abort()
            found += await seqs(sub, 27)
            await until(lambda: sub._puller is not None and sub._puller.is_asking)
    assert found == list(range(1, 321))


@row(ORDERED, "`new` means new at the beginning, also when it is made anew before a message came")
async def new_from_the_beginning(desk: Desk) -> None:
    await desk.fill(3)
    target = desk.target(config={"deliver_policy": DeliverPolicy.NEW})
    async with await ordered(desk.js, target, desk.ordered(heartbeat=0.5)) as sub:
        assert sub.position.seq == 3
        await desk.other.delete_consumer(desk.name, sub.consumer)
        await desk.fill(2)
        assert await seqs(sub, 2) == [4, 5]


@row(ORDERED, "it begins where the configuration says")
async def beginnings(desk: Desk) -> None:
    await desk.fill(2, "a")
    await desk.fill(2, "b")
    for config, begin in (
        ({}, 1),
        ({"deliver_policy": DeliverPolicy.LAST}, 4),
        ({"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT}, 2),
        ({"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 3}, 3),
        ({"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": 1}, 1),
    ):
        async with await ordered(desk.js, desk.target(config=config), desk.ordered()) as sub:
            assert (await seqs(sub, 1))[0] == begin
            assert sub.recovered


@row(ORDERED, "it goes on behind a position; interior removals are no hole")
async def behind_a_position(desk: Desk) -> None:
    await desk.fill(6)
    created = (await desk.other.stream_info(desk.name)).created
    await desk.other.call(f"STREAM.MSG.DELETE.{desk.name}", {"seq": 4})
    async with await read(desk, after=Position(created, 3)) as sub:
        assert await seqs(sub, 2) == [5, 6]
        assert sub.recovered
        assert sub.start == 3
    async with await read(desk, after=Position(created, 6)) as sub:
        await desk.fill(1)
        assert await seqs(sub, 1) == [7]
        assert sub.recovered
    assert desk.alarms == []


@row(ORDERED, "a position before the first message is lost, and it says so")
async def behind_what_is_gone(desk: Desk) -> None:
    await desk.fill(6)
    created = (await desk.other.stream_info(desk.name)).created
    await desk.other.purge_stream(desk.name, StreamPurgeRequest(seq=5))
    async with await read(desk, after=Position(created, 4)) as sub:
        assert sub.recovered
        assert await seqs(sub, 2) == [5, 6]
    async with await read(desk, after=Position(created, 3)) as sub:
        assert not sub.recovered
        assert sub.start == 4
        assert await seqs(sub, 2) == [5, 6]
    (lost,) = desk.alarms
    assert isinstance(lost, PositionLost)
    assert (lost.wanted, lost.first_seq, lost.last_seq) == (3, 5, 6)


@row(ORDERED, "a position of another incarnation is lost: everything is read")
async def of_another_incarnation(desk: Desk) -> None:
    await desk.fill(3)
    created = (await desk.other.stream_info(desk.name)).created
    async with await read(desk, after=Position(created - 1, 2)) as sub:
        assert not sub.recovered
        assert sub.incarnation == created
        assert await seqs(sub, 3) == [1, 2, 3]
    assert await consumers(desk) == 0


@row(ORDERED, "a position behind the last message is lost: everything is read")
async def behind_the_end(desk: Desk) -> None:
    await desk.fill(3)
    created = (await desk.other.stream_info(desk.name)).created
    async with await ordered(
        desk.js, desk.target(), OrderedSettings(after=Position(created, 4))
    ) as sub:
        assert not sub.recovered
        with pytest.raises(PositionLost):
            await sub.batch()
        assert await seqs(sub, 3) == [1, 2, 3]


@row(ORDERED, "a stream that is made anew while it is read is noticed")
async def made_anew(desk: Desk) -> None:
    await desk.fill(3)
    async with await read(desk) as sub:
        assert await seqs(sub, 3) == [1, 2, 3]
        assert desk.client._link is not None
        desk.gate.clear()
        desk.client._link.abort()
        await desk.other.delete_stream(desk.name)
        await desk.open()
        await desk.fill(5)
        desk.gate.set()
        assert await seqs(sub, 5) == [1, 2, 3, 4, 5]
        assert not sub.recovered
        assert PositionLost in {type(alarm) for alarm in desk.alarms}


@row(ORDERED, "it ends with its stream")
async def without_a_stream(desk: Desk) -> None:
    await desk.fill(1)
    sub = await read(desk)
    await until(lambda: sub.inbox.messages == 1)
    await desk.other.delete_stream(desk.name)
    try:
        assert await seqs(sub, 1) == [1]
        with pytest.raises(ApiError) as caught:
            await sub.batch()
        assert caught.value.err_code == 10059
        await sub.unsubscribe()
    finally:
        await desk.open()


@row(ORDERED, "it ends with its client")
async def without_a_client(desk: Desk) -> None:
    await desk.fill(1)
    sub = await read(desk)
    assert await seqs(sub, 1) == [1]
    reading = asyncio.create_task(sub.batch())
    await asyncio.sleep(0)
    await desk.client.close()
    with pytest.raises(ConnectionLost):
        await reading


@row(ORDERED, "a slow reader costs bounded memory and loses nothing")
async def slow_ordered_reader(desk: Desk) -> None:
    await desk.fill(300, body=bytes(1000))
    for limits in (BufferLimits(40, 1 << 20), BufferLimits(1000, 10_000), BufferLimits(1000, 100)):
        async with await read(desk, limits=limits) as sub:
            assert sub._puller is not None
            puller = sub._puller
            await until(lambda puller=puller: not puller.is_asking)  # type: ignore[misc]
            info = await desk.info(sub.consumer)
            assert info is not None
            assert info.delivered.consumer_seq == sub.inbox.messages <= 40
            assert sub.inbox.nbytes <= limits.nbytes + 1100
            assert await seqs(sub, 300) == list(range(1, 301))
            assert sub.restarts == 0


@row(ORDERED, "a consumer that the server forgot meanwhile is made anew")
async def forgotten(desk: Desk) -> None:
    await desk.fill(60)
    async with await read(desk, limits=BufferLimits(10, 1 << 20), inactive=0.1) as sub:
        await gone(desk, sub.consumer)
        assert await seqs(sub, 60) == list(range(1, 61))
        assert sub.restarts >= 1


@row(ORDERED, "cancelled while it is made, it leaves nothing behind")
async def cancelled(desk: Desk) -> None:
    for turns in range(12):
        making = asyncio.create_task(read(desk, inactive=0.1))
        for _ in range(turns):
            await asyncio.sleep(0)
        making.cancel()
        outcome = (await asyncio.gather(making, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError)
    assert len(desk.client._subs) == 0

    async def none() -> bool:
        return await consumers(desk) == 0

    await until(none)


@row(ORDERED, "whatever happens in whatever order, nothing is lost, repeated or out of order")
async def whatever_happens(desk: Desk) -> None:
    for seed in range(5):
        await by_chance(desk, random.Random(seed))
        await desk.other.purge_stream(desk.name)


async def by_chance(desk: Desk, chance: random.Random) -> None:
    """Publish and read, with mishaps between."""
    state = (await desk.other.stream_info(desk.name)).state
    published = first = state.last_seq
    found: list[int] = []
    after = Position(0, first)
    reading = desk.ordered(after=after, heartbeat=0.2, limits=BufferLimits(30, 1 << 20))
    async with await ordered(desk.js, desk.target(), reading) as sub:
        for _ in range(25):
            number = chance.randrange(20)
            await desk.fill(number)
            published += number
            match chance.randrange(6):
                case 0:
                    with suppress(ApiError):
                        await desk.other.delete_consumer(desk.name, sub.consumer)
                case 1 if desk.client._link is not None:
                    desk.client._link.abort()
                case 2:
                    with suppress(ConnectionLost):
                        await inject(desk, sub, b"$JS.ACK.S.C.1.999999.999999.1.0")
                case 3:
                    with suppress(ConnectionLost):
                        await inject(desk, sub, headers=b"NATS/1.0 409 Leadership Change\r\n\r\n")
                case 4:
                    found += [msg.stream_seq for msg in await sub.batch(10, within=0.01)]
        found += await seqs(sub, published - first - len(found))
    assert found == list(range(first + 1, published + 1))
