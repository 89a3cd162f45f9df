"""What a consumer tells a stream whose retention depends on acknowledgements."""

# Subject: retention

from typing import Any

from core.jetstream.consumer.runner import ConsumerRunner
from core.model.consumer import AckPolicy
from core.model.stream import Retention, StreamConfig
from tests.support.consumers import FakeStream, Frames
from tests.support.scenario import running


async def _stream(retention: Retention, **config: Any) -> tuple[FakeStream, ConsumerRunner, Frames]:
    stream = FakeStream()
    stream.config = StreamConfig(name="S", subjects=("s.>",), retention=retention)
    consumer = await stream.create(**config)
    frames = Frames(stream.client(b"in.1"))
    stream.publish(*((b"s.a", b"%d" % i) for i in range(5)))
    stream.pull(b"5")
    await stream.rest()
    return stream, consumer, frames


@running
async def test_acks_of_a_tick_are_passed_on_together() -> None:
    stream, _, frames = await _stream(Retention.INTEREST)
    replies = [frame[1] for frame in frames.drain()]
    stream.ack(replies[0])
    stream.ack(replies[2], b"+TERM")
    stream.ack(replies[0])
    await stream.rest()
    assert stream.settled == [[1, 3]]


@running
async def test_under_limits_nothing_is_gathered() -> None:
    stream, consumer, frames = await _stream(Retention.LIMITS)
    stream.ack(frames.drain()[0][1])
    await stream.rest()
    assert stream.settled == []
    assert consumer.machine.settled is None


@running
async def test_a_message_is_needed_until_it_is_settled() -> None:
    stream, consumer, frames = await _stream(Retention.WORKQUEUE, filter_subject="s.a")
    assert consumer.needs(1, b"s.a")
    assert consumer.needs(9, b"s.a")
    assert not consumer.needs(1, b"s.b")
    stream.ack(frames.drain()[0][1])
    await stream.rest()
    assert not consumer.needs(1, b"s.a")
    assert consumer.needs(2, b"s.a")


@running
async def test_ack_all_settles_everything_before() -> None:
    stream, _, frames = await _stream(Retention.INTEREST, ack_policy=AckPolicy.ALL)
    stream.ack(frames.drain()[3][1])
    await stream.rest()
    assert stream.settled == [[1, 2, 3, 4]]


@running
async def test_without_acks_a_delivery_settles() -> None:
    stream, _, _ = await _stream(Retention.INTEREST, ack_policy=AckPolicy.NONE)
    assert stream.settled == [[1, 2, 3, 4, 5]]


@running
async def test_with_acks_of_all_a_purged_message_takes_none_before_it_along() -> None:
    _, consumer, _ = await _stream(Retention.LIMITS, ack_policy=AckPolicy.ALL)
    consumer.on_removed([(4, b"s.a")], purged=True)
    assert list(consumer.machine.pending.first) == [1, 2, 3, 5]
    consumer.on_removed([(3, b"s.a")])
    assert list(consumer.machine.pending.first) == [5]
