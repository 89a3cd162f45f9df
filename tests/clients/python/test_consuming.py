"""Pull and push subscriptions of the official client, ordered consumers, acknowledgements."""

# Subject: pull consumers, push consumers

import asyncio
import contextlib
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.errors import MsgAlreadyAckdError, NotJSMessageError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import Error, FetchTimeoutError, NotFoundError

from tests.clients.python.place import TIMEOUT, Place, consumer, on_both, stable, until


async def _filled(place: Place, count: int = 10) -> JetStreamContext:
    js = await place.jetstream()
    await js.add_stream(name="C", subjects=["c.>"])
    for i in range(count):
        await js.publish(f"c.{i % 2}", b"%d" % i)
    return js


def _place_of(msg: Msg) -> tuple[Any, ...]:
    meta = msg.metadata
    return (
        msg.data,
        meta.sequence.stream,
        meta.sequence.consumer,
        meta.num_pending,
        meta.num_delivered,
        meta.stream,
        meta.domain,
    )


# -- pull -----------------------------------------------------------------------------------------


async def _nothing(sub: JetStreamContext.PullSubscription, batch: int) -> None:
    """Fetch what is not there: an error, or nothing when the server ends a request first."""
    with contextlib.suppress(TimeoutError):
        assert not await sub.fetch(batch, timeout=0.2)


async def _lives(sub: JetStreamContext.PullSubscription, batch: int) -> bool:
    """Whether a fetch of what is not there heard heartbeats; a pause may swallow all of them."""
    try:
        await sub.fetch(batch, timeout=1.5, heartbeat=0.1)
    except FetchTimeoutError:
        return True
    except TimeoutError:
        pass
    return False


@on_both
async def test_a_durable_is_made_once_and_found_again(place: Place) -> Any:
    js = await _filled(place)
    first = await js.pull_subscribe("c.>", durable="d", pending_msgs_limit=100)
    got = await first.fetch(3, TIMEOUT)
    for msg in got:
        await msg.ack_sync(timeout=TIMEOUT)
    await first.unsubscribe()
    second = await js.pull_subscribe("c.>", durable="d", stream="C")
    more = await second.fetch(3, TIMEOUT)
    info = await second.consumer_info()
    assert (second.pending_msgs, second.pending_bytes) == (0, 0)
    assert second.delivered >= 3
    return [_place_of(msg) for msg in got + more], stable(info)


@on_both
async def test_an_ephemeral_has_a_name_of_its_own(place: Place) -> Any:
    js = await _filled(place)
    sub = await js.pull_subscribe(
        "c.1",
        config=ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=30),
        inbox_prefix=b"_INBOX.mine.",
        pending_bytes_limit=1 << 20,
    )
    got = await sub.fetch(10, timeout=TIMEOUT)
    info = await sub.consumer_info()
    assert len(info.name) == 22
    return [_place_of(msg)[:4] for msg in got], info.config.inactive_threshold


@on_both
async def test_binding_to_what_is_there(place: Place) -> Any:
    js = await _filled(place)
    await js.add_consumer("C", durable_name="d")
    found = []
    for words in (
        {"consumer": "d"},
        {"durable": "d"},
        {"name": "d", "inbox_prefix": b"_INBOX.x."},
        {"consumer": "d", "pending_msgs_limit": 10, "pending_bytes_limit": 1000},
    ):
        sub = await js.pull_subscribe_bind(stream="C", **words)
        found += [_place_of(msg) for msg in await sub.fetch(2, TIMEOUT)]
    nobody = await js.pull_subscribe_bind("nobody", stream="C")
    with pytest.raises((Error, TimeoutError)):
        await nobody.fetch(1, timeout=0.3)
    with pytest.raises(NotFoundError):
        await nobody.consumer_info()
    return found


@on_both
async def test_fetching_one_several_and_none(place: Place) -> Any:
    js = await _filled(place, 5)
    sub = await js.pull_subscribe("c.>", durable="d")
    one = await sub.fetch(timeout=TIMEOUT)
    rest = await sub.fetch(10, timeout=TIMEOUT)
    with pytest.raises(TimeoutError):
        await sub.fetch(1, timeout=0.2)
    await _nothing(sub, 5)

    async def later() -> None:
        await js.publish("c.late", b"late")

    got, _ = await asyncio.gather(sub.fetch(2, timeout=TIMEOUT), later())
    return [_place_of(msg) for msg in one + rest + got]


@on_both
async def test_a_fetch_that_open_acks_hold_ends_with_its_first_heartbeat(place: Place) -> Any:
    js = await _filled(place, 5)
    config = ConsumerConfig(max_ack_pending=2)
    sub = await js.pull_subscribe("c.>", durable="d", config=config)
    got = await sub.fetch(4, timeout=TIMEOUT, heartbeat=0.2)
    info = await sub.consumer_info()
    assert info.num_waiting == 0
    return [_place_of(msg) for msg in got]


@on_both
async def test_heartbeats_show_that_the_server_lives(place: Place) -> Any:
    js = await _filled(place, 0)
    sub = await js.pull_subscribe("c.>", durable="d")
    for batch in (1, 4):
        await until(partial(_lives, sub, batch))
    # A request that outlives its fetch a little would take what comes next.
    await consumer(js, "C", "d", num_waiting=0)
    await js.publish("c.x", b"now")
    return [msg.data for msg in await sub.fetch(2, timeout=TIMEOUT, heartbeat=0.1)]


@on_both
async def test_concurrent_fetches_share_the_messages(place: Place) -> Any:
    js = await _filled(place, 100)
    await js.add_consumer("C", durable_name="d")
    seen: list[int] = []

    async def work() -> None:
        sub = await js.pull_subscribe_bind("d", stream="C")
        while len(seen) < 100:
            try:
                found = await sub.fetch(9, timeout=1)
            except TimeoutError:
                continue
            for msg in found:
                seen.append(msg.metadata.sequence.stream)
                await msg.ack()

    await asyncio.gather(*(work() for _ in range(3)))
    info = await consumer(js, "C", "d", num_ack_pending=0)
    return sorted(seen), info.num_pending


# -- acknowledgements -----------------------------------------------------------------------------


@on_both
async def test_every_kind_of_acknowledgement(place: Place) -> Any:
    js = await _filled(place, 5)
    sub = await js.pull_subscribe("c.>", durable="d")
    acked, synced, refused, working, ended = await sub.fetch(5, TIMEOUT)
    await acked.ack()
    assert (await synced.ack_sync(TIMEOUT)).data == b""
    await refused.nak()
    await working.in_progress()
    await working.in_progress()
    await ended.term()
    assert [m.is_acked for m in (acked, synced, refused, working, ended)] == [True] * 3 + [
        False,
        True,
    ]
    for again in (acked.ack, synced.ack_sync, refused.nak, ended.term):
        with pytest.raises(MsgAlreadyAckdError):
            await again()
    back = await sub.fetch(1, TIMEOUT)
    await back[0].nak(delay=0.2)
    info = await consumer(js, "C", "d", num_ack_pending=2)
    later = await sub.fetch(1, timeout=TIMEOUT)
    return [_place_of(m) for m in back + later], stable(info)


@on_both
async def test_a_message_without_a_stream_has_no_acknowledgement(place: Place) -> Any:
    nc = await place.connect()
    sub = await nc.subscribe("plain")
    await nc.publish("plain", b"x")
    msg = await sub.next_msg(TIMEOUT)
    for call in (msg.ack, msg.in_progress, msg.term, msg.nak):
        with pytest.raises(NotJSMessageError):
            await call()
    return msg.is_acked


# -- push -----------------------------------------------------------------------------------------


@on_both
async def test_push_one_by_one_and_to_a_callback(place: Place) -> Any:
    js = await _filled(place)
    sub = await js.subscribe("c.1", pending_msgs_limit=100, pending_bytes_limit=1 << 20)
    one_by_one = [await sub.next_msg(timeout=TIMEOUT) for _ in range(5)]
    seen: list[Msg] = []

    async def take(msg: Msg) -> None:
        seen.append(msg)

    auto = await js.subscribe("c.0", cb=take, durable="auto")
    by_hand = await js.subscribe("c.0", cb=take, durable="hand", manual_ack=True, stream="C")
    await until(lambda: len(seen) == 10)
    for one, pending in ((sub, 5), (auto, 0), (by_hand, 5)):
        await consumer(js, "C", one._consumer, num_ack_pending=pending)
    assert (sub.delivered, sub.pending_msgs, sub.pending_bytes) == (5, 0, 0)
    name = (await sub.consumer_info()).name
    await sub.unsubscribe()
    await js.delete_consumer("C", name)
    return [_place_of(m) for m in one_by_one]


@on_both
async def test_push_of_a_loop_and_a_limit(place: Place) -> Any:
    js = await _filled(place)
    sub = await js.subscribe("c.>", config=ConsumerConfig(ack_policy=AckPolicy.NONE))
    await sub.unsubscribe(limit=10)
    return [_place_of(msg) for _ in range(10) for msg in [await sub.next_msg(TIMEOUT)]]


@on_both
async def test_a_durable_push_consumer_goes_on_where_it_was(place: Place) -> Any:
    js = await _filled(place, 4)
    config = ConsumerConfig(deliver_subject="to.me", ack_wait=60)
    first = await js.subscribe("c.>", durable="d", config=config)
    for _ in range(2):
        await (await first.next_msg(TIMEOUT)).ack_sync(TIMEOUT)
    await until(lambda: first.delivered == 4)
    bound = await js.consumer_info("C", "d")
    with pytest.raises(Error):
        await js.subscribe("c.>", durable="d")
    await first.unsubscribe()
    await consumer(js, "C", "d", push_bound=False)
    await js.publish("c.x", b"meanwhile")
    info = await consumer(js, "C", "d", num_pending=1)
    second = await js.subscribe_bind("C", info.config, "d", pending_msgs_limit=10)
    more = await second.next_msg(TIMEOUT)
    assert more.data == b"meanwhile"
    return stable([bound, info]), _place_of(more)


@on_both
async def test_a_queue_of_push_subscribers(place: Place) -> Any:
    js = await _filled(place, 0)
    seen: list[tuple[int, bytes]] = []

    def taker(number: int) -> Any:
        async def take(msg: Msg) -> None:
            seen.append((number, msg.data))

        return take

    workers = [await js.subscribe("c.>", queue="q", cb=taker(i)) for i in range(3)]
    with pytest.raises(Error):
        await js.subscribe("c.>", durable="q")
    with pytest.raises(Error):
        await js.subscribe("c.>", queue="q", durable="other")
    for i in range(60):
        await js.publish("c.x", b"%d" % i)
    await until(lambda: len(seen) == 60)
    assert {number for number, _ in seen} == {0, 1, 2}
    info = await workers[0].consumer_info()
    return sorted(data for _, data in seen), info.config.deliver_group, info.name


@on_both
async def test_heartbeats_and_flow_control_of_push(place: Place) -> Any:
    js = await _filled(place, 0)
    sub = await js.subscribe("c.>", idle_heartbeat=0.2, flow_control=True, cb=None)
    for _i in range(200):
        await js.publish("c.x", bytes(10_000))
    sizes = [len((await sub.next_msg(TIMEOUT)).data) for _ in range(200)]
    jsi = sub._sub._jsi
    assert jsi is not None
    jsi._active = False
    await until(lambda: jsi._active)
    info = await sub.consumer_info()
    await sub.unsubscribe()
    return sum(sizes), info.config.flow_control, info.config.idle_heartbeat, len(place.errors)


@on_both
async def test_starting_positions(place: Place) -> Any:
    js = await _filled(place, 6)
    third = (await js.get_msg("C", 3)).time
    found: dict[str, Any] = {}
    for policy, count, more in (
        (DeliverPolicy.ALL, 6, {}),
        (DeliverPolicy.LAST, 1, {}),
        (DeliverPolicy.NEW, 0, {}),
        (DeliverPolicy.LAST_PER_SUBJECT, 2, {}),
        (DeliverPolicy.BY_START_SEQUENCE, 3, {"opt_start_seq": 4}),
        (DeliverPolicy.BY_START_TIME, 4, {"opt_start_time": third}),
        (DeliverPolicy.BY_START_TIME, 0, {"opt_start_time": datetime(2099, 1, 1, tzinfo=UTC)}),
    ):
        config = ConsumerConfig(deliver_policy=policy, ack_policy=AckPolicy.NONE, **more)
        sub = await js.subscribe("c.>", config=config)
        got = [await sub.next_msg(TIMEOUT) for _ in range(count)]
        info = await sub.consumer_info()
        assert info.delivered is not None
        assert (info.num_pending, info.delivered.consumer_seq) == (0, count)
        found[f"{policy}{len(found)}"] = [_place_of(msg) for msg in got]
        await sub.unsubscribe()
    return found


@on_both
async def test_headers_alone(place: Place) -> Any:
    js = await _filled(place, 2)
    await js.publish("c.h", b"12345", headers={"A": "b"})
    sub = await js.subscribe(
        "c.>", headers_only=True, deliver_policy=DeliverPolicy.ALL, inactive_threshold=30
    )
    found = [await sub.next_msg(TIMEOUT) for _ in range(3)]
    info = await sub.consumer_info()
    return [(msg.data, msg.header) for msg in found], info.config.inactive_threshold


# -- ordered --------------------------------------------------------------------------------------


@on_both
async def test_an_ordered_consumer_is_complete(place: Place) -> Any:
    js = await _filled(place, 0)
    for _ in range(300):
        await js.publish("c.x", bytes(8_000))
    sub = await js.subscribe("c.>", ordered_consumer=True)
    found = [(await sub.next_msg(TIMEOUT)).metadata.sequence.stream for _ in range(300)]
    info = await sub.consumer_info()
    await sub.unsubscribe()
    shown = stable(info.config)
    del shown["deliver_subject"]
    return found, shown


@on_both
async def test_an_ordered_consumer_is_made_anew_when_it_is_lost(place: Place) -> Any:
    """Its consumer is deleted behind its back; the heartbeats stop, and it starts over."""
    js = await _filled(place, 10)
    seen: list[int] = []

    async def take(msg: Msg) -> None:
        seen.append(msg.metadata.sequence.stream)

    sub = await js.subscribe("c.>", ordered_consumer=True, idle_heartbeat=0.1, cb=take)
    await until(lambda: len(seen) == 10)
    lost = (await sub.consumer_info()).name
    jsi = sub._sub._jsi
    assert jsi is not None
    jsi._sseq = 10
    await js.delete_consumer("C", lost)
    for _ in range(5):
        await js.publish("c.x", b"")
    await until(lambda: len(seen) >= 15)
    # The client hears of the consumer's name in an answer that may come after its messages.
    await until(lambda: sub._consumer != lost)
    assert (await sub.consumer_info()).name != lost
    await sub.unsubscribe()
    return seen[:15]  # a machine too slow for the heartbeats makes it start over again
