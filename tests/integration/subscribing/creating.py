"""Rows about configuration, stream and consumer names, and the creation of consumers."""

from typing import Any

import pytest

from core.client import NoResponders
from core.client.subscribe import (
    FetchOptions,
    Reason,
    StatusRaised,
    SubscriptionTarget,
    pull,
    push,
)
from core.errors import ApiError
from core.model.consumer import AckPolicy, ConsumerInfo, DeliverPolicy
from core.model.stream import Storage, StreamConfig
from tests.integration.subscribing.table import HEARTBEAT, Desk, refused, row, taken

CONFIGURATION = "Configuration"
STREAM = "Stream name"
CONSUMER = "Consumer name"
QUEUE = "Queue name"
SUBSCRIPTION = "NATS subscription"
CREATING = "Creating the JS Consumer"


async def raced(desk: Desk, create: Any) -> None:
    """Let another process create a consumer between our lookup and our creation."""
    look_up = desk.js.consumer_info

    async def late(stream: str, consumer: str) -> ConsumerInfo:
        desk.js.consumer_info = look_up  # type: ignore[method-assign]
        try:
            return await look_up(stream, consumer)
        finally:
            await create()

    desk.js.consumer_info = late  # type: ignore[method-assign]


@row(CONFIGURATION, "with a queue name, configuring heartbeats is a mistake")
async def queue_with_heartbeats(desk: Desk) -> None:
    config = {"idle_heartbeat": HEARTBEAT}
    await refused(Reason.QUEUE_HEARTBEAT, desk.push(queue="q", config=config))


@row(CONFIGURATION, "with a queue name, configuring flow control is a mistake")
async def queue_with_flow_control(desk: Desk) -> None:
    await refused(Reason.QUEUE_FLOW_CONTROL, desk.push(queue="q", config={"flow_control": True}))


@row(CONFIGURATION, "without subject and stream name the consumer cannot be located")
async def neither_subject_nor_stream(desk: Desk) -> None:
    await refused(Reason.NO_SUBJECT, push(desk.js, SubscriptionTarget(consumer="C")))
    await refused(Reason.NO_SUBJECT, pull(desk.js, SubscriptionTarget(durable="C")))


@row(CONFIGURATION, "for pull subscriptions the ack policies none and all are errors")
async def pull_without_explicit_acks(desk: Desk) -> None:
    for policy in (AckPolicy.NONE, AckPolicy.ALL):
        target = desk.target(durable="C", config={"ack_policy": policy})
        await refused(Reason.PULL_ACK_POLICY, pull(desk.js, target))
    assert await desk.info("C") is None


@row(STREAM, "the subject is sent to STREAM.NAMES, and a single entry is the stream")
async def stream_by_subject(desk: Desk) -> None:
    async with await push(desk.js, SubscriptionTarget(subject=desk.subject("a.b"))) as sub:
        assert sub.stream == desk.name
    assert b"PUB $JS.API.STREAM.NAMES " in desk.written()
    assert b'{"subject":"%s.a.b"}' % desk.prefix.encode() in desk.written()


@row(STREAM, "no matching stream name is an error")
async def no_stream(desk: Desk) -> None:
    await refused(Reason.NO_STREAM, push(desk.js, SubscriptionTarget(subject=f"not.{desk.all}")))


@row(STREAM, "a response that is not a single entry is an error")
async def several_streams(desk: Desk) -> None:
    name = f"{desk.name}B"
    config = StreamConfig(name=name, subjects=(f"x.{desk.prefix}",), storage=Storage.MEMORY)
    await desk.other.create_stream(config)
    try:
        await refused(Reason.SEVERAL_STREAMS, push(desk.js, SubscriptionTarget(subject="*.*")))
    finally:
        await desk.other.delete_stream(name)


@row(STREAM, "with a stream name the subject is still the filter of a new consumer")
async def stream_and_subject(desk: Desk) -> None:
    async with await desk.push(stream=desk.name, subject=desk.subject("a")) as sub:
        assert sub.info.config.filter_subject == desk.subject("a")
        await desk.fill(1, "b")
        await desk.fill(1, "a")
        assert [m.stream_seq for m in await taken(sub, 1)] == [2]
    assert b"STREAM.NAMES" not in desk.written()


@row(STREAM, "the prefix of the API is part of every request")
async def another_prefix(desk: Desk) -> None:
    desk.js.prefix = "$JS.nowhere.API"
    with pytest.raises(NoResponders) as caught:
        await push(desk.js, SubscriptionTarget(subject=desk.all))
    assert caught.value.subject == b"$JS.nowhere.API.STREAM.NAMES"


@row(CONSUMER, "with a consumer name that consumer is looked up and used")
async def named_consumer(desk: Desk) -> None:
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}")
    await desk.fill(2)
    sub = await desk.push(consumer="C")
    assert [m.stream_seq for m in await taken(sub, 2)] == [1, 2]
    assert not sub.created
    await sub.unsubscribe()
    assert await desk.info("C") is not None


@row(CONSUMER, "a lookup that fails is an error")
async def missing_consumer(desk: Desk) -> None:
    with pytest.raises(ApiError) as caught:
        await desk.push(consumer="C")
    assert caught.value.err_code == 10014


@row(CONSUMER, "a lookup that fails is no error of a pull subscription")
async def missing_pull_consumer(desk: Desk) -> None:
    sub = await pull(desk.js, desk.target(consumer="C"))
    with pytest.raises(StatusRaised) as caught:
        await sub.fetch(FetchOptions(expires=30))
    assert caught.value.code == 503
    await desk.consumer("C")
    await desk.fill(1)
    assert len(await sub.fetch(FetchOptions(expires=30))) == 1


@row(QUEUE, "without consumer and durable the queue's name is the durable's, and members share")
async def queue_is_the_durable(desk: Desk) -> None:
    members = [await desk.push(stream=desk.name, queue="team") for _ in range(2)]
    assert [member.consumer for member in members] == ["team", "team"]
    await desk.fill(40)
    read: list[int] = []
    while len(read) < 40:
        for member in members:
            read += [msg.stream_seq for msg in await member.batch(within=0.05)]
    assert sorted(read) == list(range(1, 41))


@row(QUEUE, "a durable may have another name than the queue")
async def queue_with_a_durable(desk: Desk) -> None:
    async with await desk.push(queue="team", durable="D") as sub:
        assert sub.consumer == "D"
        assert sub.info.config.deliver_group == "team"


@row(SUBSCRIPTION, "the subscription is on the deliver subject of the consumer's info")
async def deliver_subject_of_info(desk: Desk) -> None:
    deliver = f"to.{desk.prefix}"
    await desk.consumer("C", deliver_subject=deliver)
    await desk.push(consumer="C")
    await desk.flush()
    assert b"SUB %s " % deliver.encode() in desk.written()


@row(SUBSCRIPTION, "it is created before the consumer")
async def subscription_comes_first(desk: Desk) -> None:
    sub = await desk.push(durable="D")
    deliver = sub.info.config.deliver_subject.encode()
    written = desk.written()
    assert deliver.startswith(b"_INBOX.")
    assert 0 < written.index(b"SUB %s " % deliver) < written.index(b".DURABLE.CREATE.")


@row(SUBSCRIPTION, "so the server detects that a durable is in use")
async def durable_in_use(desk: Desk) -> None:
    await desk.push(durable="D")
    with pytest.raises(ApiError) as caught:
        await desk.consumer("D", deliver_subject=f"elsewhere.{desk.prefix}")
    assert caught.value.err_code in (10013, 10105)


@row(CREATING, "without a name an ephemeral is created, with what the user gave")
async def ephemeral(desk: Desk) -> None:
    config = {"deliver_policy": DeliverPolicy.NEW, "max_deliver": 3, "description": "mine"}
    await desk.fill(1)
    sub = await desk.push(config=config)
    assert sub.created
    made = await desk.info(sub.consumer)
    assert made is not None
    assert not made.config.durable_name
    assert (made.config.deliver_policy, made.config.max_deliver) == (DeliverPolicy.NEW, 3)
    assert made.config.description == "mine"
    assert b"PUB $JS.API.CONSUMER.CREATE.%s _INBOX" % desk.name.encode() in desk.written()


@row(CREATING, "a durable that does not exist is created under its name")
async def durable(desk: Desk) -> None:
    sub = await desk.push(durable="D")
    assert sub.created
    assert sub.info.config.durable_name == sub.consumer == "D"
    subject = b"PUB $JS.API.CONSUMER.DURABLE.CREATE.%s.D _INBOX" % desk.name.encode()
    assert subject in desk.written()


@row(CREATING, "push: an inbox is picked unless a deliver subject is given; pull: it stays blank")
async def deliver_subjects(desk: Desk) -> None:
    chosen = f"chosen.{desk.prefix}"
    sub = await desk.push(config={"deliver_subject": chosen})
    assert sub.info.config.deliver_subject == chosen
    await desk.fill(1)
    assert len(await taken(sub, 1)) == 1
    async with await pull(desk.js, desk.target()) as other:
        assert other.info is not None
        assert other.info.config.deliver_subject == ""


@row(CREATING, "filter subject, ack policy and deliver group are set")
async def filled_in(desk: Desk) -> None:
    sub = await desk.push(subject=desk.subject("b"), queue="q")
    config = sub.info.config
    assert (config.filter_subject, config.deliver_group) == (desk.subject("b"), "q")
    assert config.ack_policy is AckPolicy.EXPLICIT


@row(CREATING, "already exists: a queue subscription joins, on the deliver subject that is there")
async def race_of_queues(desk: Desk) -> None:
    deliver = f"to.{desk.prefix}"

    async def create() -> None:
        await desk.consumer("q", deliver_subject=deliver, deliver_group="q")

    await raced(desk, create)
    sub = await desk.push(queue="q")
    assert not sub.created
    await desk.fill(1)
    assert len(await taken(sub, 1)) == 1
    after = desk.written().partition(b".DURABLE.CREATE.")[2]
    before, found, _ = after.partition(b"SUB %s q " % deliver.encode())
    assert b"UNSUB " in before
    assert found


@row(CREATING, "already exists: the checks of existing consumers are made")
async def race_with_another_group(desk: Desk) -> None:
    async def create() -> None:
        await desk.consumer("q", deliver_subject=f"to.{desk.prefix}", deliver_group="other")

    await raced(desk, create)
    await refused(Reason.OTHER_QUEUE, desk.push(queue="q"))


@row(CREATING, "already exists: a pull subscription goes on with a pull consumer")
async def race_of_pulls(desk: Desk) -> None:
    async def create() -> None:
        await desk.consumer("D", max_deliver=7)

    await raced(desk, create)
    sub = await pull(desk.js, desk.target(durable="D"))
    assert not sub.created
    await desk.fill(1)
    assert len(await sub.fetch(FetchOptions(expires=30))) == 1


@row(CREATING, "already exists: a pull subscription refuses a push consumer")
async def race_of_kinds(desk: Desk) -> None:
    async def create() -> None:
        await desk.consumer("D", deliver_subject=f"to.{desk.prefix}")

    await raced(desk, create)
    await refused(Reason.IS_PUSH, pull(desk.js, desk.target(durable="D")))


@row(CREATING, "already exists: it is an error of a push subscription without a queue")
async def race_of_pushes(desk: Desk) -> None:
    async def create() -> None:
        await desk.consumer("D", deliver_subject=f"to.{desk.prefix}")

    await raced(desk, create)
    await refused(Reason.ALREADY_EXISTS, desk.push(durable="D"))
    info = await desk.info("D")
    assert info is not None
    assert not info.push_bound


@row(CREATING, "a refusal of the server is an error, and leaves no subscription behind")
async def refused_by_the_server(desk: Desk) -> None:
    before = len(desk.client._subs)
    with pytest.raises(ApiError) as caught:
        await desk.push(config={"deliver_policy": DeliverPolicy.BY_START_SEQUENCE})
    assert caught.value.err_code == 10094
    assert len(desk.client._subs) == before
