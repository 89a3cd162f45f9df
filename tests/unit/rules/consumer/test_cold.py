"""Messages that only storage has: nothing of them is taken for gone because nobody read it."""

# Subject: consumers

import pytest

from core.errors import Unavailable
from core.jetstream.consumer import cursor
from core.model.segment import Segment
from tests.support.consumers import FakeStream, Frames
from tests.support.scenario import running


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
    await stream.rest()
    return [(reply, payload) for _, reply, _, payload in frames.drain() if reply]


@running
async def test_redelivery_of_one_between_two_that_were_read_together() -> None:
    stream, frames, acks = await cold(5)
    for place in (0, 4):
        stream.ack(acks[place], b"-NAK")
    assert [payload for _, payload in await pulled(stream, frames, 2)] == [b"1", b"5"]
    stream.ack(acks[2], b"-NAK")
    assert [payload for _, payload in await pulled(stream, frames, 1)] == [b"3"]
    assert len(stream.consumers["c"].machine.pending) == 5


@running
async def test_removals_without_end_do_not_keep_a_read_from_being_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cursor, "_HIDDEN_MAX", 3)
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    stream.publish(*((b"s.a", b"%d" % i) for i in range(1, 41)))
    stream.forget_tail()
    read = stream.log.read

    async def meanwhile(seq: int, limit: int) -> Segment | None:
        first = stream.machine.first_seq
        stream.remove(*range(first, first + (4 if first == 1 else 1)))
        return await read(seq, limit)

    monkeypatch.setattr(stream.log, "read", meanwhile)
    await stream.create()
    stream.pull(b"1")
    while not (found := frames.drain()):
        await stream.rest()
        assert len(stream.rows) > 10, "there is something to deliver"
    assert found[0][3] == b"%d" % stream.machine.first_seq


@running
async def test_a_failed_read_is_retried_while_a_request_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = FakeStream()
    frames = Frames(stream.client(b"in.*"))
    stream.publish((b"s.a", b"1"))
    stream.forget_tail()
    runner, read, tries = await stream.create(), stream.log.read, 0

    async def away(seq: int, limit: int) -> Segment | None:
        nonlocal tries
        tries += 1
        raise Unavailable("away")

    monkeypatch.setattr(stream.log, "read", away)
    stream.pull(b'{"batch":1,"expires":1000000000}')
    await stream.advance(1.1)
    assert tries in (4, 5)
    assert b"408" in frames.drain()[0][2]
    assert runner.deadline() is None
    stream.pull(b'{"batch":1,"expires":1000000000}')
    monkeypatch.setattr(stream.log, "read", read)
    await stream.advance(0.3)
    assert [payload for *_, payload in frames.drain()] == [b"1"]
