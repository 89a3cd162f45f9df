"""Rows about unsubscribing and draining."""

import asyncio
from typing import Any

import pytest

from core.client.subscribe import FetchOptions, NotDeleted, SubscriptionTarget, pull
from core.errors import ApiError
from tests.integration.subscribing.table import Desk, consumers, gone, row, taken, until

UNSUBSCRIBE = "Unsubscribe"
DRAIN = "Drain"
BOTH = "Unsubscribe and Drain"


@row(BOTH, "a consumer that the client created is deleted")
async def created_and_deleted(desk: Desk) -> None:
    pushed: list[dict[str, Any]] = [{}, {"durable": "D"}, {"queue": "q"}]
    for given in pushed:
        sub = await desk.push(**given)
        await sub.unsubscribe()
        sub = await desk.push(**given)
        await sub.drain()
        await sub.over()
    for given in pushed[:2]:
        one = await pull(desk.js, desk.target(**given))
        await one.unsubscribe()
        one = await pull(desk.js, desk.target(**given))
        await one.drain()
    assert await consumers(desk) == 0


@row(BOTH, "a consumer that was there stays")
async def bound_consumer_stays(desk: Desk) -> None:
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}")
    await desk.consumer("P")
    sub = await desk.push(consumer="C")
    await sub.unsubscribe()
    sub = await desk.push(durable="C")
    await sub.drain()
    await sub.over()
    for target in (SubscriptionTarget(stream=desk.name, consumer="P"), desk.target(durable="P")):
        await (await pull(desk.js, target)).unsubscribe()
    assert await consumers(desk) == 2


@row(BOTH, "the member of a queue that created the consumer deletes it, the others do not")
async def members_of_a_queue(desk: Desk) -> None:
    first = await desk.push(queue="q", durable="shared")
    second = await desk.push(queue="q", durable="shared")
    assert (first.created, second.created) == (True, False)
    await second.unsubscribe()
    assert await desk.info("shared") is not None
    await first.drain()
    await first.over()
    assert await desk.info("shared") is None


@row(UNSUBSCRIBE, "nothing is received any more, and the reader finds the end")
async def nothing_more(desk: Desk) -> None:
    sub = await desk.push()
    reading = asyncio.create_task(sub.batch())
    await asyncio.sleep(0)
    await sub.unsubscribe()
    assert await reading == []
    assert sub.is_over
    assert b"UNSUB " in desk.written()


@row(UNSUBSCRIBE, "an error of the deletion is the caller's")
async def deletion_fails(desk: Desk) -> None:
    sub = await desk.push(durable="D")
    await desk.other.delete_consumer(desk.name, "D")
    with pytest.raises(ApiError) as caught:
        await sub.unsubscribe()
    assert caught.value.err_code == 10014
    one = await pull(desk.js, desk.target(durable="P"))
    await desk.other.delete_consumer(desk.name, "P")
    with pytest.raises(ApiError):
        await one.unsubscribe()


@row(UNSUBSCRIBE, "the consumer is deleted even if the caller is cancelled meanwhile")
async def cancelled_meanwhile(desk: Desk) -> None:
    sub = await desk.push(durable="D")
    ending = asyncio.create_task(sub.unsubscribe())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await gone(desk, "D")


@row(DRAIN, "the consumer is deleted after everything under way was read")
async def drained(desk: Desk) -> None:
    await desk.fill(5)
    sub = await desk.push(durable="D")
    assert len(await sub.batch(2)) == 2 or await taken(sub, 1)
    await sub.drain()
    await desk.fill(1)
    assert await desk.info("D") is not None
    left = [msg async for msg in sub]
    assert left[-1].stream_seq == 5
    await sub.over()
    assert await desk.info("D") is None
    assert sub.is_over


@row(DRAIN, "a failure to delete it is told, since the caller is not there any more")
async def drain_fails(desk: Desk) -> None:
    sub = await desk.push(durable="D")
    await desk.other.delete_consumer(desk.name, "D")
    await sub.drain()
    await sub.over()
    (alarm,) = [each for each in desk.alarms if isinstance(each, NotDeleted)]
    assert alarm.consumer == "D"


@row(BOTH, "a fetch under way ends, and gives back what nobody takes")
async def fetch_under_way(desk: Desk) -> None:
    await desk.consumer("P", ack_wait=60_000_000_000)
    sub = await pull(desk.js, desk.target(consumer="P"))
    fetching = asyncio.create_task(sub.fetch(FetchOptions(5, expires=30)))
    await until(lambda: sub._pulls)
    (waiting,) = sub._pulls
    await desk.fill(1)
    await until(lambda: waiting.messages)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    (again,) = await sub.fetch(FetchOptions(1, expires=30))
    assert again.delivered == 2
    fetching = asyncio.create_task(sub.fetch(FetchOptions(5, expires=30)))
    await until(lambda: sub._pulls)
    await sub.unsubscribe()
    assert await fetching == []
