"""Pausing, resetting, and receivers that take no more, without storage and sockets."""

# Subject: pausing

from core.model.consumer import DeliverPolicy
from tests.support.consumers import SECOND, FakeStream, Frames
from tests.support.scenario import running


@running
async def test_a_pause_ends_by_itself() -> None:
    stream = FakeStream()
    consumer = await stream.create(pause_until=stream.clock.now() + SECOND)
    frames = Frames(stream.client(b"in.1"))
    stream.publish((b"s.a", b"1"))
    stream.pull()
    await stream.advance(0.9)
    assert frames.drain() == []
    assert consumer.info().paused
    await stream.advance(0.2)
    assert [frame[3] for frame in frames.drain()] == [b"1"]
    assert not consumer.info().paused


@running
async def test_a_paused_consumer_ends_requests_that_do_not_wait() -> None:
    stream = FakeStream()
    await stream.create(pause_until=stream.clock.now() + SECOND)
    frames = Frames(stream.client(b"in.1"))
    stream.publish((b"s.a", b"1"))
    stream.pull(b'{"no_wait":true}')
    await stream.rest()
    assert frames.drain()[0][2] == b"NATS/1.0 404 No Messages\r\n\r\n"


@running
async def test_a_blocked_receiver_wakes_the_consumer_once() -> None:
    stream = FakeStream()
    consumer = await stream.create()
    session = stream.client(b"in.1")
    frames = Frames(session)
    session.blocked = True
    stream.publish((b"s.a", b"1"))
    stream.pull()
    await stream.rest()
    stream.publish((b"s.a", b"2"))
    await stream.rest()
    assert frames.drain() == []
    assert len(session.on_writable) == 1
    assert consumer.deadline() is None
    session.blocked = False
    session.on_writable.pop()()
    await stream.rest()
    assert [frame[3] for frame in frames.drain()] == [b"1"]


@running
async def test_a_reset_forgets_what_is_pending() -> None:
    stream = FakeStream()
    consumer = await stream.create()
    frames = Frames(stream.client(b"in.1"))
    stream.publish(*((b"s.a", b"%d" % i) for i in range(4)))
    stream.pull(b"3")
    await stream.rest()
    stream.ack(frames.drain()[0][1])
    await stream.rest()
    consumer.machine.reset(2)
    await consumer.pending_count.count()
    info = consumer.info()
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (0, 1)
    assert (info.num_ack_pending, info.num_pending) == (0, 3)
    stream.pull(b"1")
    await stream.rest()
    assert frames.drain()[0][1].startswith(b"$JS.ACK.S.c.1.2.1.")


@running
async def test_a_reset_last_per_subject_consumer_goes_on_from_there() -> None:
    stream = FakeStream()
    stream.publish((b"s.a", b"1"), (b"s.b", b"2"), (b"s.a", b"3"))
    consumer = await stream.create(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>"
    )
    assert consumer.machine.chosen == [2, 3]
    consumer.machine.reset(2)
    assert consumer.machine.state(0).chosen == ()
