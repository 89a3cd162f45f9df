"""The walk through the model of JetStream that its documentation takes: the orders of a shop.

A stream ORDERS over `ORDERS.*`; the consumers NEW and DISPATCH work on orders, MONITOR watches.
The numbers are those that the documentation shows, where it is right about the server of today.
"""

# Subject: consumers

import asyncio
import json
import subprocess
from datetime import UTC, datetime
from functools import partial
from itertools import count as numbers
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    Header,
    ReplayPolicy,
    RetentionPolicy,
)
from nats.js.errors import APIError, NotFoundError

from tests.clients.python.place import TIMEOUT, Place, Server, on_both, stable, through, until
from tests.support.programs import nats as nats_command
from tests.wire.transcript import clean

NATS = nats_command()

YEAR = 365 * 24 * 3600.0


async def _orders(place: Place, **config: Any) -> JetStreamContext:
    js = await place.jetstream()
    await js.add_stream(name="ORDERS", subjects=["ORDERS.*"], max_age=YEAR, **config)
    return js


async def _pull(
    js: JetStreamContext, name: str, **config: Any
) -> JetStreamContext.PullSubscription:
    given = {"filter_subject": "ORDERS.processed"} | config
    await js.add_consumer("ORDERS", ConsumerConfig(durable_name=name, **given))
    return await js.pull_subscribe_bind(name, stream="ORDERS")


async def _state(js: JetStreamContext, name: str = "DISPATCH") -> tuple[Any, ...]:
    """Delivered and floor as (consumer, stream) sequences; pending, redelivered, left."""
    info = await js.consumer_info("ORDERS", name)
    assert info.delivered is not None
    assert info.ack_floor is not None
    return (
        (info.delivered.consumer_seq, info.delivered.stream_seq),
        (info.ack_floor.consumer_seq, info.ack_floor.stream_seq),
        info.num_ack_pending,
        info.num_redelivered,
        info.num_pending,
    )


@on_both
async def test_an_order_goes_its_way(place: Place) -> Any:
    """Received, processed, completed; the monitor sees every step and acknowledges nothing."""
    js = await _orders(place)
    seen: list[tuple[str, bytes]] = []

    async def watch(msg: Any) -> None:
        seen.append((msg.subject, msg.data))

    monitor = ConsumerConfig(
        durable_name="MONITOR",
        deliver_subject="monitor.ORDERS",
        deliver_policy=DeliverPolicy.LAST,
        ack_policy=AckPolicy.NONE,
        replay_policy=ReplayPolicy.INSTANT,
    )
    await js._nc.subscribe("monitor.ORDERS", cb=watch)
    await js.add_consumer("ORDERS", monitor)
    new = await _pull(js, "NEW", filter_subject="ORDERS.received", sample_freq="100")
    dispatch = await _pull(js, "DISPATCH", sample_freq="100")
    for number in range(3):
        await js.publish("ORDERS.received", b"order %d" % number)
    for source, target in ((new, "ORDERS.processed"), (dispatch, "ORDERS.completed")):
        for msg in await source.fetch(3, TIMEOUT):
            await js.publish(target, msg.data)
            await msg.ack_sync(TIMEOUT)
    await until(lambda: len(seen) == 9)
    states = [await _state(js, name) for name in ("NEW", "DISPATCH", "MONITOR")]
    return seen, states, stable((await js.stream_info("ORDERS", subjects_filter=">")).state)


@on_both
async def test_deduplication(place: Place) -> Any:
    js = await _orders(place)
    acks = [
        await js.publish("ORDERS.new", b"hello%d" % i, headers={Header.MSG_ID: "1"})
        for i in range(1, 5)
    ]
    info = await js.stream_info("ORDERS")
    assert info.state.messages == 1
    assert info.config.duplicate_window == 120
    assert (await js.get_msg("ORDERS", 1)).data == b"hello1"
    return stable(acks), stable(info.state)


@on_both
async def test_the_duplicate_window_ends(place: Place) -> Any:
    js = await _orders(place, duplicate_window=0.2)
    names = (str(number) for number in numbers())

    async def in_time() -> tuple[str, Any, Any] | None:
        """The same twice; a machine that pauses in between lets the window end."""
        name = next(names)
        one, two = [
            await js.publish("ORDERS.new", b"", headers={Header.MSG_ID: name}) for _ in range(2)
        ]
        return (name, one, two) if two.duplicate else None

    name, first, again = await until(in_time)
    later = again
    while later.duplicate:
        later = await js.publish("ORDERS.new", b"", headers={Header.MSG_ID: name})
    assert (again.seq, later.seq) == (first.seq, first.seq + 1)
    return first.duplicate, again.duplicate, later.duplicate


@on_both
async def test_the_acknowledgement_walk_through(place: Place) -> Any:
    js = await _orders(place)
    dispatch = await _pull(js, "DISPATCH", ack_wait=0.4)
    empty = (await js.stream_info("ORDERS")).state
    assert (empty.messages, empty.first_seq, empty.last_seq, empty.consumer_count) == (0, 0, 0, 1)
    assert await _state(js) == ((0, 0), (0, 0), 0, 0, 0)

    await js.publish("ORDERS.processed", b"order 4")
    one = (await js.stream_info("ORDERS")).state
    assert (one.messages, one.first_seq, one.last_seq) == (1, 1, 1)
    msg = (await dispatch.fetch(1, TIMEOUT))[0]
    assert msg.data == b"order 4"
    await msg.ack_sync(TIMEOUT)
    assert await _state(js) == ((1, 1), (1, 1), 0, 0, 0)

    await js.publish("ORDERS.processed", b"order 5")
    assert (await dispatch.fetch(1, TIMEOUT))[0].data == b"order 5"
    assert await _state(js) == ((2, 2), (1, 1), 1, 0, 0)

    again = (await dispatch.fetch(1, timeout=TIMEOUT))[0]
    assert (again.data, again.metadata.num_delivered) == (b"order 5", 2)
    assert await _state(js) == ((3, 2), (1, 1), 1, 1, 0)

    last = (await dispatch.fetch(1, timeout=TIMEOUT))[0]
    assert (last.data, last.metadata.num_delivered) == (b"order 5", 3)
    await last.ack_sync(TIMEOUT)
    done = await _state(js)
    assert done[2:] == (0, 0, 0)
    return done, stable([empty, one])


@on_both
async def test_acknowledging_all_and_none(place: Place) -> Any:
    js = await _orders(place)
    for number in range(100):
        await js.publish("ORDERS.processed", b"order %d" % number)
    all_of = await _pull(js, "DISPATCH", ack_policy=AckPolicy.ALL)
    await (await all_of.fetch(100, TIMEOUT))[99].ack_sync(TIMEOUT)
    none = await _pull(js, "NONE", ack_policy=AckPolicy.NONE)
    await none.fetch(10, TIMEOUT)
    return await _state(js), await _state(js, "NONE")


@on_both
async def test_the_types_of_acknowledgement(place: Place) -> Any:
    js = await _orders(place)
    nc = js._nc
    dispatch = await _pull(js, "DISPATCH")
    for number in range(40):
        await js.publish("ORDERS.processed", b"order %d" % number)
    first = (await dispatch.fetch(1, TIMEOUT))[0]
    inbox = nc.new_inbox()
    more = await nc.subscribe(inbox)
    found = []
    reply = first.reply
    for body, count in ((b"+NXT", 1), (b"+NXT 10", 10), (b'+NXT {"batch":5,"no_wait":true}', 5)):
        await nc.publish(reply, body, reply=inbox)
        got = [await more.next_msg(TIMEOUT) for _ in range(count)]
        found.append([msg.data for msg in got])
        reply = got[-1].reply
    states = [await _state(js)]
    nak = (await dispatch.fetch(1, TIMEOUT))[0]
    for body in (b"-NAK", b"+WPI", b"+TERM", b"+ACK", b""):
        answer = await nc.request(nak.reply, body, timeout=TIMEOUT)
        found.append([body, answer.data])
        states.append(await _state(js))
    back = (await dispatch.fetch(1, TIMEOUT))[0]
    return found, states, back.data, back.metadata.num_delivered


@on_both
async def test_a_double_acknowledgement_is_final(place: Place) -> Any:
    js = await _orders(place)
    dispatch = await _pull(js, "DISPATCH", ack_wait=0.2)
    await js.publish("ORDERS.processed", b"once", headers={Header.MSG_ID: "once"})
    await js.publish("ORDERS.processed", b"once", headers={Header.MSG_ID: "once"})
    await (await dispatch.fetch(1, TIMEOUT))[0].ack_sync(TIMEOUT)
    with pytest.raises(TimeoutError):
        await dispatch.fetch(1, timeout=0.6)
    return await _state(js)


@on_both
async def test_a_stream_that_acknowledges_nothing(place: Place) -> Any:
    js = await _orders(place, no_ack=True)
    with pytest.raises(TimeoutError):
        await js.publish("ORDERS.processed", b"1", timeout=0.2)

    async def stored() -> Any:
        state = (await js.stream_info("ORDERS")).state
        return state if state.messages else None

    return stable(await until(stored))


@on_both
async def test_starting_positions(place: Place) -> Any:
    js = await _orders(place)
    for number in range(1, 101):
        await js.publish("ORDERS.processed", b"order %d" % number)
    found = {}
    for name, policy in (
        ("ALL", {"deliver_policy": DeliverPolicy.ALL}),
        ("LAST", {"deliver_policy": DeliverPolicy.LAST}),
        ("TEN", {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 10}),
        ("NEW", {"deliver_policy": DeliverPolicy.NEW}),
    ):
        sub = await _pull(js, name, ack_policy=AckPolicy.NONE, **policy)
        if name == "NEW":
            await js.publish("ORDERS.processed", b"order 101")
        found[name] = [msg.data for msg in await sub.fetch(1, TIMEOUT)]
    await js.purge_stream("ORDERS")
    for number in range(1, 4):
        await js.publish("ORDERS.processed", b"order %d" % number)
    second = (await js.get_msg("ORDERS", 103)).time
    assert isinstance(second, datetime)
    since = {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": second}
    sub = await _pull(js, "2MIN", ack_policy=AckPolicy.NONE, **since)
    found["2MIN"] = [msg.data for msg in await sub.fetch(1, TIMEOUT)]
    assert found["2MIN"] == [b"order 2"]
    return found, (await js.stream_info("ORDERS")).state.first_seq


@on_both
async def test_an_ephemeral_consumer_lives_while_there_is_a_subscription(place: Place) -> Any:
    js = await _orders(place)
    await js.publish("ORDERS.processed", b"before")
    listener = await place.connect()
    sub = await listener.subscribe("my.monitor")
    await through(listener)
    info = await js.add_consumer(
        "ORDERS",
        deliver_subject="my.monitor",
        ack_policy=AckPolicy.NONE,
        deliver_policy=DeliverPolicy.LAST,
        inactive_threshold=0.3,
    )
    await js.publish("ORDERS.received", b"after")
    seen = [(await sub.next_msg(TIMEOUT)).data for _ in range(2)]
    bound = (await js.consumer_info("ORDERS", info.name)).push_bound
    await listener.close()
    left = [info]
    while left:
        left = await js.consumers_info("ORDERS")
    with pytest.raises(NotFoundError):
        await js.consumer_info("ORDERS", info.name)
    return seen, bound


@on_both
async def test_replay_at_the_original_pace(place: Place) -> Any:
    js = await _orders(place)
    loop = asyncio.get_running_loop()

    def is_past(time: float) -> bool:
        return loop.time() >= time

    for number in range(3):
        await js.publish("ORDERS.processed", b"order %d" % number)
        await until(partial(is_past, loop.time() + 0.25))
    sub = await js._nc.subscribe("out.original")
    await through(js._nc)
    began = loop.time()
    await js.add_consumer(
        "ORDERS",
        durable_name="REPLAY",
        deliver_subject="out.original",
        filter_subject="ORDERS.processed",
        ack_policy=AckPolicy.NONE,
        replay_policy=ReplayPolicy.ORIGINAL,
        sample_freq="100",
    )
    times = [(await sub.next_msg(TIMEOUT)).metadata.timestamp for _ in range(3)]
    # All at once would be none at all. How late any of them is taken is up to the machine.
    assert loop.time() - began > 0.9 * (times[-1] - times[0]).total_seconds() > 0.4


@on_both
async def test_acknowledgements_are_sampled(place: Place) -> Any:
    js = await _orders(place)
    metrics = await js._nc.subscribe("$JS.EVENT.METRIC.CONSUMER.ACK.ORDERS.NEW")
    new = await _pull(js, "NEW", filter_subject="ORDERS.received", sample_freq="100")
    for number in range(3):
        await js.publish("ORDERS.received", b"%d" % number)
    for msg in await new.fetch(3, TIMEOUT):
        await msg.ack_sync(TIMEOUT)
    found = [json.loads((await metrics.next_msg(TIMEOUT)).data) for _ in range(3)]
    for metric in found:
        assert metric.pop("ack_time") > 0
        assert datetime.fromisoformat(metric.pop("timestamp")[:19]).replace(tzinfo=UTC)
        assert metric.pop("id")
    return found


@on_both
async def test_retention_by_limits(place: Place) -> Any:
    js = await _orders(place, max_msgs=5, max_msg_size=1024)
    for number in range(8):
        await js.publish("ORDERS.new", b"%d" % number)
    old = (await js.stream_info("ORDERS")).state
    with pytest.raises(APIError) as large:
        await js.publish("ORDERS.new", bytes(1025))
    config = (await js.stream_info("ORDERS")).config
    config.discard = DiscardPolicy.NEW
    await js.update_stream(config)
    with pytest.raises(APIError) as full:
        await js.publish("ORDERS.new", b"9")
    return stable(old), str(large.value), str(full.value)


@on_both
async def test_retention_as_a_work_queue(place: Place) -> Any:
    js = await _orders(place, retention=RetentionPolicy.WORK_QUEUE)
    dispatch = await _pull(js, "DISPATCH")
    with pytest.raises(APIError) as overlap:
        await _pull(js, "OTHER")
    new = await _pull(js, "NEW", filter_subject="ORDERS.received")
    for number in range(5):
        await js.publish("ORDERS.received", b"%d" % number)
        await js.publish("ORDERS.processed", b"%d" % number)
    counts = []
    for sub in (new, dispatch):
        for msg in await sub.fetch(5, TIMEOUT):
            await msg.ack_sync(TIMEOUT)
        counts.append((await js.stream_info("ORDERS")).state.messages)
    assert counts == [5, 0]
    return counts, str(overlap.value), stable((await js.stream_info("ORDERS")).state)


@on_both
async def test_retention_by_interest(place: Place) -> Any:
    js = await _orders(place, retention=RetentionPolicy.INTEREST)
    await js.publish("ORDERS.processed", b"nobody")
    counts = [(await js.stream_info("ORDERS")).state.messages]
    subs = [await _pull(js, name) for name in ("DISPATCH", "AUDIT")]
    for number in range(4):
        await js.publish("ORDERS.processed", b"%d" % number)
    for sub in subs:
        for msg in await sub.fetch(4, TIMEOUT):
            await msg.ack_sync(TIMEOUT)
        counts.append((await js.stream_info("ORDERS")).state.messages)
    assert counts == [0, 4, 0]
    return counts, stable((await js.stream_info("ORDERS")).state)


# -- the same with the command line of NATS -------------------------------------------------------


@pytest.mark.skipif(NATS is None, reason="needs the `nats` command")
def test_the_walk_through_with_the_nats_command(server: Server) -> None:
    def run(*words: str) -> str:
        url = "nats://{}:{}".format(*server.address)
        done = subprocess.run(
            [str(NATS), "--server", url, *words], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state() -> tuple[int, ...]:
        info = json.loads(run("consumer", "info", "ORDERS", "DISPATCH", "--json"))
        delivered, floor = info["delivered"], info["ack_floor"]
        return (
            delivered["consumer_seq"],
            delivered["stream_seq"],
            floor["stream_seq"],
            info["num_ack_pending"],
        )

    try:
        run("stream", "add", "ORDERS", "--subjects", "ORDERS.*", "--defaults")
        words = ["--filter", "ORDERS.processed", "--pull", "--ack", "explicit", "--defaults"]
        run("consumer", "add", "ORDERS", "DISPATCH", *words)
        assert state() == (0, 0, 0, 0)
        run("pub", "ORDERS.processed", "order 4")
        assert "order 4" in run("consumer", "next", "ORDERS", "DISPATCH", "--ack")
        assert state() == (1, 1, 1, 0)
        run("pub", "ORDERS.processed", "order 5")
        assert "order 5" in run("consumer", "next", "ORDERS", "DISPATCH", "--no-ack")
        assert state() == (2, 2, 1, 1)
    finally:
        clean(server)
