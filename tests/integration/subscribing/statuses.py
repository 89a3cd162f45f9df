"""Rows about what the client does with statuses by itself."""

import asyncio

import pytest

from core.client.subscribe import (
    BufferLimits,
    FetchOptions,
    HeartbeatsMissed,
    MessagesMissed,
    PushSettings,
    PushSubscription,
    SlowConsumer,
    StatusRaised,
    pull,
)
from core.model.consumer import AckPolicy
from tests.integration.subscribing.table import HEARTBEAT, Desk, row, taken, until

MANAGEMENT = "Automatic Status Management"
HEARTBEATS = "Heartbeats"
GAPS = "Messages Gaps"
FLOW = "Flow Control"
PULL = "Pull Mode Statuses"
ERRORS = "Miscellaneous and Unknown Error Statuses"

IDLE = {"idle_heartbeat": HEARTBEAT}
CONTROLLED = {"idle_heartbeat": HEARTBEAT, "flow_control": True}
REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


def heartbeat(consumer_seq: int, stream_seq: int, stalled: str = "") -> bytes:
    """The header block of an idle heartbeat."""
    lines = [f"Nats-Last-Consumer: {consumer_seq}", f"Nats-Last-Stream: {stream_seq}"]
    lines += [f"Nats-Consumer-Stalled: {stalled}"] if stalled else []
    return "\r\n".join(["NATS/1.0 100 Idle Heartbeat", *lines, "", ""]).encode()


def delivery(consumer_seq: int) -> bytes:
    """The reply of a delivery."""
    return b"$JS.ACK.S.C.1.%d.%d.1.0" % (consumer_seq, consumer_seq)


async def heard(sub: PushSubscription, number: int) -> None:
    """Wait until a number of heartbeats or messages was heard."""
    watch = sub._watch
    assert watch is not None
    for _ in range(number):
        before = watch._heard
        await until(lambda before=before: watch._heard > before)  # type: ignore[misc]


@row(MANAGEMENT, "statuses are handled by default: the reader gets messages alone", is_hurried=True)
async def statuses_are_hidden(desk: Desk) -> None:
    sub = await desk.push(config=CONTROLLED)
    await heard(sub, 2)
    await desk.fill(2)
    await heard(sub, 3)
    await desk.fill(1)
    assert [m.stream_seq for m in await taken(sub, 3)] == [1, 2, 3]
    assert desk.alarms == []


@row(
    HEARTBEATS,
    "an alarm when neither message nor status arrives for three intervals",
    is_hurried=True,
)
async def silence(desk: Desk) -> None:
    sub = await desk.push(config=IDLE)
    await heard(sub, 3)
    assert desk.alarms == []
    await desk.other.delete_consumer(desk.name, sub.consumer)
    watch = sub._watch
    assert watch is not None
    await until(lambda: any(isinstance(alarm, HeartbeatsMissed) for alarm in desk.alarms))
    missed = [alarm for alarm in desk.alarms if isinstance(alarm, HeartbeatsMissed)]
    assert missed[0].seconds == pytest.approx(0.3)
    sub.created = False


@row(
    HEARTBEATS,
    "the time may be configured; where nobody listens it is raised",
    is_hurried=True,
)
async def silence_of_a_reader(desk: Desk) -> None:
    sub = await desk.push(PushSettings(heartbeats_missed=2), config=IDLE)
    await desk.other.delete_consumer(desk.name, sub.consumer)
    sub.created = False
    with pytest.raises(HeartbeatsMissed, match=r"0\.2 s"):
        await sub.batch(within=30)


@row(
    HEARTBEATS,
    "messages are signs of life, and so are statuses",
    is_hurried=True,
)
async def signs_of_life(desk: Desk) -> None:
    sub = await desk.push(config=IDLE)
    for _ in range(5):
        await desk.fill(1)
        await heard(sub, 1)
    await heard(sub, 5)
    assert desk.alarms == []


@row(GAPS, "a gap in the consumer's sequences is told")
async def gap_of_messages(desk: Desk) -> None:
    sub = await desk.push()
    await desk.fill(2)
    await taken(sub, 2)
    await desk.send(sub, delivery(5))
    assert [m.consumer_seq for m in await taken(sub, 1)] == [5]
    (gap,) = desk.alarms
    assert isinstance(gap, MessagesMissed)
    assert (gap.expected, gap.received) == (3, 5)


@row(GAPS, "the first message may be missing too")
async def gap_at_the_beginning(desk: Desk) -> None:
    sub = await desk.push()
    await desk.send(sub, delivery(2))
    await taken(sub, 1)
    (gap,) = desk.alarms
    assert isinstance(gap, MessagesMissed)
    assert (gap.expected, gap.received) == (1, 2)


@row(GAPS, "heartbeats tell of gaps too")
async def gap_of_heartbeats(desk: Desk) -> None:
    sub = await desk.push()
    await desk.fill(2)
    await taken(sub, 2)
    await desk.send(sub, headers=heartbeat(2, 2))
    assert desk.alarms == []
    await desk.send(sub, headers=heartbeat(4, 4))
    (gap,) = desk.alarms
    assert isinstance(gap, MessagesMissed)
    assert (gap.expected, gap.received) == (3, 5)


@row(GAPS, "never in queue subscriptions")
async def no_gaps_in_queues(desk: Desk) -> None:
    sub = await desk.push(queue="q")
    for consumer_seq in (1, 5, 9):
        await desk.send(sub, delivery(consumer_seq))
    assert len(await taken(sub, 3)) == 3
    assert desk.alarms == []


@row(GAPS, "their detection is optional")
async def no_gaps_wanted(desk: Desk) -> None:
    sub = await desk.push(desk.reading(finds_gaps=False))
    for consumer_seq in (1, 5, 9):
        await desk.send(sub, delivery(consumer_seq))
    assert len(await taken(sub, 3)) == 3
    assert desk.alarms == []


@row(FLOW, "its requests are answered, so that everything is delivered")
async def flow_control(desk: Desk) -> None:
    await desk.fill(2400, body=bytes(4096))
    config = CONTROLLED | {"ack_policy": AckPolicy.NONE}
    sub = await desk.push(desk.reading(limits=BufferLimits(100_000, 1 << 30)), config=config)
    messages = await taken(sub, 2400)
    assert [m.stream_seq for m in messages] == list(range(1, 2401))
    assert b"PUB $JS.FC." in desk.written()
    assert desk.alarms == []


@row(FLOW, "a request is answered when the reader comes to it, by an empty message to its reply")
async def answered_when_read(desk: Desk) -> None:
    sub = await desk.push()
    answers = await desk.listen(f"fc.{desk.prefix}.>")
    await desk.send(sub, delivery(1))
    await desk.send(sub, b"fc.%s.1" % desk.prefix.encode(), REQUEST)
    await desk.send(sub, delivery(2))
    await desk.flush()
    assert answers == []
    assert len(await sub.batch(1)) == 1
    await desk.flush()
    assert [(m.subject, m.payload, m.reply) for m in answers] == [
        (b"fc.%s.1" % desk.prefix.encode(), b"", b"")
    ]


@row(FLOW, "a handler is given what came before, and the request is answered")
async def answered_by_a_handler(desk: Desk) -> None:
    seen: list[int] = []
    answers = await desk.listen(f"fc.{desk.prefix}.>")
    sub = await desk.push(
        desk.reading(handler=lambda some: seen.extend(m.consumer_seq for m in some))
    )
    await desk.send(sub, delivery(1))
    await desk.send(sub, b"fc.%s.1" % desk.prefix.encode(), REQUEST)
    await desk.send(sub, delivery(2))
    await until(lambda: seen == [1, 2] and len(answers) == 1)


@row(FLOW, "behind a request the next message is returned, within the time that is left")
async def next_behind_a_request(desk: Desk) -> None:
    sub = await desk.push()
    reading = asyncio.create_task(sub.batch(within=30))
    await desk.send(sub, b"fc.%s.1" % desk.prefix.encode(), REQUEST)
    assert not reading.done()
    await desk.send(sub, delivery(1))
    assert [m.consumer_seq for m in await reading] == [1]


@row(FLOW, "a heartbeat with Nats-Consumer-Stalled is answered like a request")
async def stalled(desk: Desk) -> None:
    sub = await desk.push()
    answers = await desk.listen(f"fc.{desk.prefix}.>")
    await desk.send(sub, headers=heartbeat(0, 0, f"fc.{desk.prefix}.7"))
    await until(lambda: [m.subject for m in answers] == [b"fc.%s.7" % desk.prefix.encode()])


@row(FLOW, "each request is answered once, however many heartbeats repeat it")
async def answered_once(desk: Desk) -> None:
    sub = await desk.push()
    answers = await desk.listen(f"fc.{desk.prefix}.>")
    one, two = (f"fc.{desk.prefix}.{i}" for i in (1, 2))
    await desk.send(sub, one.encode(), REQUEST)
    for subject in (one, one, two, two):
        await desk.send(sub, headers=heartbeat(0, 0, subject))
    await desk.flush()
    await until(lambda: [m.subject for m in answers] == [one.encode(), two.encode()])


@row(PULL, "404 and 408 are neither shown nor counted")
async def hidden_in_pulls(desk: Desk) -> None:
    async with await pull(desk.js, desk.target()) as sub:
        assert await sub.fetch(FetchOptions(5, no_wait=True)) == []
        assert await sub.fetch(FetchOptions(5, expires=0.05)) == []
        await desk.fill(3)
        assert [m.stream_seq for m in await sub.fetch(FetchOptions(2, expires=30))] == [1, 2]
        assert [m.stream_seq for m in await sub.fetch(FetchOptions(5, no_wait=True))] == [3]
        assert await sub.fetch(FetchOptions(5, no_wait=True)) == []


@row(PULL, "heartbeats of a pull are neither shown nor counted", is_hurried=True)
async def heartbeats_of_pulls(desk: Desk) -> None:
    async with await pull(desk.js, desk.target()) as sub:
        fetching = asyncio.create_task(sub.fetch(FetchOptions(2, expires=30, heartbeat=0.1)))
        await until(lambda: sub._pulls)
        (waiting,) = sub._pulls
        await waiting.changed(30)
        await waiting.changed(30)
        await desk.fill(2)
        assert len(await fetching) == 2


@row(ERRORS, "409 is raised, not shown")
async def conflicts(desk: Desk) -> None:
    await desk.consumer("C", max_batch=10)
    sub = await pull(desk.js, desk.target(consumer="C"))
    with pytest.raises(StatusRaised, match="Exceeded MaxRequestBatch of 10") as caught:
        await sub.fetch(FetchOptions(11, expires=30))
    assert caught.value.code == 409
    fetching = asyncio.create_task(sub.fetch(FetchOptions(1, expires=30)))
    await until(lambda: sub._pulls)
    await desk.flush()
    await desk.other.delete_consumer(desk.name, "C")
    with pytest.raises(StatusRaised, match="Consumer Deleted"):
        await fetching


@row(ERRORS, "what came before a 409 is not lost for it")
async def messages_before_a_conflict(desk: Desk) -> None:
    await desk.fill(2, body=bytes(200))
    await desk.fill(1, body=bytes(2000))
    async with await pull(desk.js, desk.target()) as sub:
        wanted = FetchOptions(5, nbytes=1000, expires=30)
        assert [m.stream_seq for m in await sub.fetch(wanted)] == [1, 2]
        with pytest.raises(StatusRaised, match="Message Size Exceeds MaxBytes"):
            await sub.fetch(wanted)


@row(ERRORS, "503 is raised, not shown")
async def no_responders(desk: Desk) -> None:
    sub = await pull(desk.js, desk.target(consumer="nobody"))
    with pytest.raises(StatusRaised) as caught:
        await sub.fetch(FetchOptions(1, expires=30))
    assert caught.value.code == 503


@row(ERRORS, "statuses that are not known are raised, not shown")
async def unknown_statuses(desk: Desk) -> None:
    sub = await desk.push(PushSettings())
    await desk.send(sub, delivery(1))
    await desk.send(sub, headers=b"NATS/1.0 499 What Is This\r\n\r\n")
    await desk.send(sub, headers=b"NATS/1.0 409 Consumer Deleted\r\n\r\n")
    await desk.send(sub, delivery(2))
    assert len(await sub.batch()) == 1
    with pytest.raises(StatusRaised, match="499 What Is This"):
        await sub.batch()
    with pytest.raises(StatusRaised, match="409 Consumer Deleted"):
        await sub.batch()
    assert len(await sub.batch()) == 1


@row(ERRORS, "a status line in a message with an ack subject makes no status of it")
async def delivered_status(desk: Desk) -> None:
    sub = await desk.push()
    await desk.send(sub, delivery(1), b"NATS/1.0 503\r\nA: b\r\n\r\n")
    assert [m.stream_seq for m in await taken(sub, 1)] == [1]
    assert desk.alarms == []


@row(MANAGEMENT, "a reader that is too slow is told what was dropped, and memory is bounded")
async def slow_reader(desk: Desk) -> None:
    reading = desk.reading(limits=BufferLimits(10, 1 << 20))
    sub = await desk.push(reading, config={"ack_policy": AckPolicy.NONE})
    await desk.fill(25)
    await until(lambda: sub.dropped == 15)
    assert [m.stream_seq for m in await sub.batch(100)] == list(range(1, 11))
    await desk.fill(1)
    assert [m.stream_seq for m in await sub.batch(100)] == [26]
    assert [type(alarm) for alarm in desk.alarms] == [SlowConsumer]
