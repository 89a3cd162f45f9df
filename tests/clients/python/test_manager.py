"""Streams, consumers and messages as the official client manages them."""

# Subject: streams

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    Placement,
    ReplayPolicy,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamConsumerLimits,
    StreamsListIterator,
    SubjectTransform,
)
from nats.js.client import JetStreamContext
from nats.js.errors import (
    APIError,
    ConsumerInvalidResetError,
    NotFoundError,
    ServerError,
    ServiceUnavailableError,
)

from tests.clients.python.place import TIMEOUT, Place, on_both, stable


async def _filled(place: Place, count: int = 5) -> JetStreamContext:
    js = await place.jetstream()
    await js.add_stream(name="M", subjects=["m.>"], allow_direct=True)
    for i in range(count):
        await js.publish(f"m.{i % 2}", b"%d" % i, headers={"N": str(i)})
    return js


@on_both
async def test_the_usage_of_an_account(place: Place) -> Any:
    js = await _filled(place)
    await js.add_consumer("M", durable_name="c")
    info = await js.account_info()
    assert info.storage > 0
    return stable([info.streams, info.consumers, info.memory, info.storage, info.limits]), (
        info.api.level,
        info.domain,
        info.tiers,
    )


@on_both
async def test_a_stream_of_every_option(place: Place) -> Any:
    js = await place.jetstream(timeout=TIMEOUT)
    config = StreamConfig(
        name="FULL",
        description="every option",
        subjects=["full.>", "other"],
        retention=RetentionPolicy.LIMITS,
        max_consumers=3,
        max_msgs=100,
        max_bytes=1 << 20,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        max_age=3600.5,
        max_msgs_per_subject=4,
        max_msg_size=5000,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=30,
        placement=Placement(tags=["a", "b"]),
        deny_delete=True,
        deny_purge=False,
        allow_rollup_hdrs=True,
        first_seq=100,
        republish=RePublish(src="full.>", dest="again.>", headers_only=True),
        subject_transform=SubjectTransform(src="full.*", dest="full.to.{{wildcard(1)}}"),
        allow_direct=True,
        compression=StoreCompression.S2,
        metadata={"owner": "tests"},
        consumer_limits=StreamConsumerLimits(inactive_threshold=60, max_ack_pending=50),
    )
    created = await js.add_stream(config)
    again = await js.add_stream(config)
    changed = created.config
    changed.description, changed.max_msgs = "changed", 200
    updated = await js.update_stream(changed, max_age=7200)
    heard = await js._nc.subscribe("again.>")
    ack = await js.publish("full.a", b"x")
    copy = await heard.next_msg(TIMEOUT)
    return stable([created, again, updated, ack, copy.subject, sorted(copy.header or {})])


@on_both
async def test_streams_are_found_listed_and_deleted(place: Place) -> Any:
    js = await place.jetstream()
    for i in range(4):
        await js.add_stream(name=f"L{i}", subjects=[f"list.{i}"])
    listed = sorted((info.config.name or "") for info in await js.streams_info())
    later = await js.streams_info(offset=3)
    pages = await js.streams_info_iterator(offset=1)
    found = await js.find_stream_name_by_subject("list.2")
    with pytest.raises(NotFoundError):
        await js.find_stream_name_by_subject("nowhere")
    assert isinstance(pages, StreamsListIterator)
    names = [info.config.name for info in pages]
    assert await js.delete_stream("L1")
    with pytest.raises(NotFoundError) as gone:
        await js.stream_info("L1")
    return listed, len(later), len(names), pages.total, pages.offset, found, str(gone.value)


@on_both
async def test_the_contents_of_a_stream(place: Place) -> Any:
    js = await _filled(place)
    await js.delete_msg("M", 3)
    info = await js.stream_info("M", subjects_filter=">")
    return stable(info)


@on_both
async def test_mistakes_about_streams_have_their_errors(place: Place) -> Any:
    js = await place.jetstream()
    await js.add_stream(name="E", subjects=["e.>"])
    said = []
    for name, config in (
        ("E", {"subjects": ["e.*"]}),
        ("F", {"subjects": ["e.x"]}),
        ("F", {"subjects": ["a..b"]}),
        ("F", {"subjects": ["f"], "max_msgs": 1, "discard_new_per_subject": True}),
        ("F", {"subjects": ["f"], "num_replicas": 3}),
    ):
        with pytest.raises(APIError) as refused:
            await js.add_stream(name=name, **config)
        said.append(str(refused.value))
    with pytest.raises(APIError) as refused:
        await js.update_stream(name="E", subjects=["e.>"], storage=StorageType.MEMORY)
    said.append(str(refused.value))
    for call in (js.delete_stream, js.purge_stream, js.stream_info, js.consumers_info):
        with pytest.raises(NotFoundError) as missing:
            await call("NONE")
        said.append(str(missing.value))
    nowhere = (await place.connect()).jetstream(prefix="$JS.NOWHERE.API", timeout=TIMEOUT)
    with pytest.raises(ServiceUnavailableError):
        await nowhere.account_info()
    with pytest.raises(ServiceUnavailableError):
        await (await place.jetstream(domain="nowhere")).account_info()
    return said


@on_both
async def test_purging_in_every_way(place: Place) -> Any:
    js = await _filled(place, 10)
    states = []
    for request in ({"subject": "m.1", "keep": 2}, {"seq": 5}, {"keep": 2}, {}):
        assert await js.purge_stream("M", **request)
        states.append((await js.stream_info("M")).state)
    return stable(states)


@on_both
async def test_getting_messages_in_every_way(place: Place) -> Any:
    js = await _filled(place)
    found = []
    for direct in (False, True):
        found += [
            await js.get_msg("M", seq=2, direct=direct),
            await js.get_msg("M", subject="m.1", direct=direct),
            await js.get_msg("M", seq=3, subject="m.1", next=True, direct=direct),
            await js.get_last_msg("M", "m.0", direct=direct),
        ]
        for missing in ({"seq": 99}, {"subject": "m.9"}):
            with pytest.raises(NotFoundError):
                await js.get_msg("M", direct=direct, **missing)
    assert all(msg.time and msg.time > datetime.now(UTC) - timedelta(minutes=5) for msg in found)
    assert found[0].header == {"N": "1"}
    told = [(m.subject, m.sequence, m.data, m.header and m.header["N"]) for m in found]
    assert told[:4] == told[4:]
    assert await js.delete_msg("M", 2)
    with pytest.raises(NotFoundError):
        await js.get_msg("M", seq=2)
    with pytest.raises(APIError) as twice:
        await js.delete_msg("M", 2)
    return told, str(twice.value)


@on_both
async def test_a_consumer_of_every_option(place: Place) -> Any:
    js = await _filled(place)
    pull = ConsumerConfig(
        name="pull",
        durable_name="pull",
        description="every option",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=2,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=20,
        max_deliver=5,
        backoff=[1, 2.5],
        filter_subjects=["m.0", "m.1"],
        replay_policy=ReplayPolicy.INSTANT,
        sample_freq="50%",
        max_waiting=20,
        max_ack_pending=30,
        inactive_threshold=300,
        num_replicas=1,
        mem_storage=True,
        metadata={"owner": "tests"},
    )
    push = ConsumerConfig(
        durable_name="push",
        deliver_subject="to.push",
        deliver_group="g",
        filter_subject="m.1",
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=datetime(2020, 1, 1, tzinfo=UTC),
        ack_policy=AckPolicy.NONE,
        replay_policy=ReplayPolicy.ORIGINAL,
        rate_limit_bps=1 << 20,
        flow_control=True,
        idle_heartbeat=2,
        headers_only=True,
    )
    made = [await js.add_consumer("M", pull), await js.add_consumer("M", push, timeout=TIMEOUT)]
    changed = await js.add_consumer("M", pull, description="changed", max_ack_pending=40)
    info = await js.consumer_info("M", "pull", timeout=TIMEOUT)
    assert info.created is not None
    return stable([*made, changed, info])


@on_both
async def test_consumers_are_listed_and_deleted(place: Place) -> Any:
    js = await _filled(place)
    for name in "abcd":
        await js.add_consumer("M", durable_name=name)
    unnamed = await js.add_consumer("M", ack_policy=AckPolicy.NONE, inactive_threshold=60)
    listed = sorted(info.name for info in await js.consumers_info("M") if info.name in "abcd")
    rest = await js.consumers_info("M", offset=4)
    assert await js.delete_consumer("M", unnamed.name)
    with pytest.raises(NotFoundError) as missing:
        await js.consumer_info("M", unnamed.name)
    with pytest.raises(NotFoundError) as twice:
        await js.delete_consumer("M", unnamed.name)
    with pytest.raises(APIError) as wrong:
        await js.add_consumer("M", durable_name="a", deliver_subject="to.push")
    return listed, len(rest), [str(e.value) for e in (missing, twice, wrong)]


@on_both
async def test_pausing_and_resuming(place: Place) -> Any:
    js = await _filled(place)
    await js.add_consumer("M", durable_name="c")
    paused = await js.pause_consumer("M", "c", "2099-01-01T00:00:00Z", timeout=TIMEOUT)
    assert paused.paused
    assert paused.pause_remaining
    info = await js.consumer_info("M", "c")
    sub = await js.pull_subscribe_bind("c", stream="M")
    with pytest.raises(TimeoutError):
        await sub.fetch(1, timeout=0.2)
    resumed = await js.resume_consumer("M", "c", timeout=TIMEOUT)
    first = (await sub.fetch(1, TIMEOUT))[0]
    return stable([paused.pause_until, info.paused, info.config, resumed]), first.data


@on_both
async def test_resetting(place: Place) -> Any:
    js = await _filled(place)
    await js.add_consumer(
        "M", durable_name="c", deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=2
    )
    sub = await js.pull_subscribe_bind("c", stream="M")
    for msg in await sub.fetch(2, TIMEOUT):
        await msg.ack_sync(TIMEOUT)
    await sub.fetch(1, TIMEOUT)
    to_floor = await js.reset_consumer("M", "c")
    to_seq = await js.reset_consumer("M", "c", seq=3, timeout=TIMEOUT)
    with pytest.raises(ConsumerInvalidResetError) as refused:
        await js.reset_consumer("M", "c", seq=1)
    msg = (await sub.fetch(1, TIMEOUT))[0]
    return (
        [to_floor.reset_seq, to_seq.reset_seq, str(refused.value)],
        stable([to_floor.info, to_seq.info]),
        (msg.data, msg.metadata.sequence.consumer, msg.metadata.num_delivered),
    )


@on_both
async def test_a_sealed_stream_takes_nothing_more(place: Place) -> Any:
    js = await _filled(place)
    config = (await js.stream_info("M")).config
    config.sealed = True
    sealed = await js.update_stream(config)
    said = []
    for call in (js.publish("m.1", b""), js.delete_msg("M", 1), js.purge_stream("M")):
        with pytest.raises(APIError) as refused:
            await call
        said.append(str(refused.value))
    with pytest.raises(ServerError) as refused:
        await js.update_stream(sealed.config, sealed=False)
    return stable(sealed.config), said, str(refused.value)
