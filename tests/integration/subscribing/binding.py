"""Rows about subscriptions to a consumer that is there already."""

from core.client.subscribe import Reason, SubscriptionTarget, pull, push
from core.model.consumer import AckPolicy, DeliverPolicy
from tests.integration.subscribing.table import HEARTBEAT, Desk, refused, row, taken

BINDING = "Push Consumer active information and queue group binding"


@row(BINDING, "bound, no deliver group, no queue: duplicate subscription")
async def duplicate(desk: Desk) -> None:
    await desk.push(durable="D")
    await refused(Reason.DUPLICATE, desk.push(durable="D"))
    await refused(Reason.DUPLICATE, desk.push(consumer="D"))


@row(BINDING, "not bound any more, a durable is taken up where it was")
async def bound_again(desk: Desk) -> None:
    await desk.consumer("D", deliver_subject=f"to.{desk.prefix}")
    await desk.fill(3)
    first = await desk.push(durable="D")
    assert await first.ack_sync(await taken(first, 2)) == []
    await first.unsubscribe()
    await desk.flush()
    await desk.fill(1)
    second = await desk.push(durable="D")
    assert [m.stream_seq for m in await taken(second, 1)] == [4]


@row(BINDING, "no queue, but a deliver group: an error, bound or not")
async def group_without_queue(desk: Desk) -> None:
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}", deliver_group="q")
    await refused(Reason.NEEDS_QUEUE, desk.push(consumer="C"))
    await desk.push(consumer="C", queue="q")
    await refused(Reason.NEEDS_QUEUE, desk.push(consumer="C"))


@row(BINDING, "a queue and another deliver group: an error, bound or not")
async def other_group(desk: Desk) -> None:
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}", deliver_group="q")
    await refused(Reason.OTHER_QUEUE, desk.push(consumer="C", queue="p"))
    await desk.push(consumer="C", queue="q")
    await refused(Reason.OTHER_QUEUE, desk.push(consumer="C", queue="p"))


@row(BINDING, "a queue and no deliver group: an error, bound or not")
async def queue_without_group(desk: Desk) -> None:
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}")
    await refused(Reason.NO_QUEUE, desk.push(consumer="C", queue="q"))
    await desk.push(consumer="C")
    await refused(Reason.NO_QUEUE, desk.push(consumer="C", queue="q"))


@row(BINDING, "another filter subject is an error, none at all is not")
async def filter_subject(desk: Desk) -> None:
    deliver = f"to.{desk.prefix}"
    await desk.consumer("C", deliver_subject=deliver, filter_subject=desk.subject("a"))
    await desk.consumer("P", filter_subjects=(desk.subject("a"), desk.subject("b")))
    await desk.consumer("all", deliver_subject=f"{deliver}.all")
    await refused(Reason.OTHER_SUBJECT, desk.push(consumer="C", subject=desk.subject("b")))
    await refused(Reason.OTHER_SUBJECT, pull(desk.js, desk.target(consumer="P")))
    await desk.push(consumer="C", subject=desk.subject("a"))
    await desk.push(consumer="all", subject=desk.subject("a"))
    await pull(desk.js, SubscriptionTarget(stream=desk.name, consumer="P"))


@row(BINDING, "a pull subscription for a push consumer is an error")
async def pull_of_push(desk: Desk) -> None:
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}")
    await refused(Reason.IS_PUSH, pull(desk.js, desk.target(consumer="C")))
    await refused(Reason.IS_PUSH, pull(desk.js, desk.target(durable="C")))


@row(BINDING, "a push subscription for a pull consumer is an error")
async def push_of_pull(desk: Desk) -> None:
    await desk.consumer("C")
    await refused(Reason.IS_PULL, desk.push(consumer="C"))
    await refused(Reason.IS_PULL, desk.push(durable="C"))
    await refused(Reason.IS_PULL, desk.push(consumer="C", queue="q"))


@row(BINDING, "a configuration that is not the consumer's is an error")
async def other_configuration(desk: Desk) -> None:
    deliver = f"to.{desk.prefix}"
    await desk.consumer("C", deliver_subject=deliver, max_deliver=3, metadata={"a": "b"})
    for config in (
        {"max_deliver": 4},
        {"ack_policy": AckPolicy.ALL},
        {"deliver_policy": DeliverPolicy.NEW},
        {"idle_heartbeat": HEARTBEAT},
        {"backoff": (1_000_000_000,)},
        {"metadata": {"a": "c"}},
    ):
        await refused(Reason.OTHER_CONFIG, desk.push(consumer="C", config=config))
    same = {"max_deliver": 3, "metadata": {"a": "b"}, "ack_policy": AckPolicy.EXPLICIT}
    await desk.push(consumer="C", config=same)


@row(BINDING, "only the deliver subject may be another one")
async def other_deliver_subject(desk: Desk) -> None:
    deliver = f"to.{desk.prefix}"
    await desk.consumer("C", deliver_subject=deliver)
    sub = await desk.push(consumer="C", config={"deliver_subject": "elsewhere"})
    assert sub.info.config.deliver_subject == deliver
    await desk.fill(1)
    assert len(await taken(sub, 1)) == 1


@row(BINDING, "flow control of the consumer is an error of a queue subscription")
async def flow_control_of_a_group(desk: Desk) -> None:
    with_both = {"flow_control": True, "idle_heartbeat": HEARTBEAT}
    await desk.consumer("C", deliver_subject=f"to.{desk.prefix}", deliver_group="q", **with_both)
    info = await desk.info("C")
    assert info is not None
    assert info.config.flow_control
    target = desk.target(consumer="C", queue="q")
    await refused(Reason.QUEUE_HEARTBEAT, push(desk.js, target))


@row(BINDING, "heartbeats of the consumer are an error of a queue subscription")
async def heartbeats_of_a_group(desk: Desk) -> None:
    deliver = f"to.{desk.prefix}"
    await desk.consumer("C", deliver_subject=deliver, deliver_group="q", idle_heartbeat=HEARTBEAT)
    await refused(Reason.QUEUE_HEARTBEAT, desk.push(consumer="C", queue="q"))
