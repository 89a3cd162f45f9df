"""Messages that only storage has: nothing of them is taken for gone because nobody read it."""

from tests.support.consumers import FakeStream, Frames, running


async def cold(count: int, **config: object) -> tuple[FakeStream, Frames, list[bytes]]:
    """Messages 1, 2, ... that were delivered and left memory; returns their ack subjects."""
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    stream.publish(*((b"s.%d" % i, b"%d" % i) for i in range(1, count + 1)))
    await stream.create(**config)
    found = await pulled(stream, frames, count)
    stream.forget_tail()
    return stream, frames, [reply for reply, _ in found]


async def pulled(stream: FakeStream, frames: Frames, count: int) -> list[tuple[bytes, bytes]]:
    """Ask for messages; return (ack subject, payload) of those that come."""
    stream.pull(b"%d" % count)
    await stream.settle()
    return [(reply, payload) for _, reply, _, payload in frames.take() if reply]


@running
async def test_redelivery_of_one_between_two_that_were_read_together() -> None:
    stream, frames, acks = await cold(5)
    for place in (0, 4):
        stream.ack(acks[place], b"-NAK")
    assert [payload for _, payload in await pulled(stream, frames, 2)] == [b"1", b"5"]
    stream.ack(acks[2], b"-NAK")
    assert [payload for _, payload in await pulled(stream, frames, 1)] == [b"3"]
    assert len(stream.consumers["c"].machine.pending) == 5
