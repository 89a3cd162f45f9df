"""Microseconds per message of delivery and acks in a consumer: `python -m bench.steps_consumer`.

There are no sockets and no storage: messages are in the memory of the stream, and the output of the
session is a list.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

from core.model.consumer import AckPolicy
from core.protocol.messages import MessageColumns
from core.pubsub.batch import deliver_ack_row
from tests.support.consumers import FakeSession, FakeStream

MESSAGES = 20_000
BATCH = 500
REPEATS = 7


async def _stream(**config: object) -> tuple[FakeStream, FakeSession]:
    stream = FakeStream()
    session = stream.client(b"in.*", b"push.to")
    header = config.pop("header", None)
    for _ in range(MESSAGES // 1000):
        stream.publish(
            *((b"s.%d" % (i % 10), bytes(128)) for i in range(1000)),
            header=header if isinstance(header, bytes) else None,
        )
    await stream.create(**{"max_ack_pending": -1, **config})
    session.flush = session.out.clear  # type: ignore[method-assign]  # no client reads the output
    return stream, session


async def deliver(**config: object) -> float:
    """Measure pulls of all messages in batches of 500; returns microseconds per message."""
    stream, _ = await _stream(**config)
    runner = stream.consumers["c"]
    wanted = runner.machine.num_pending
    started = time.process_time()
    for number in range(wanted // BATCH):
        stream.pull(b'{"batch":%d,"expires":30000000000}' % BATCH)
        while runner.pump.delivered < (number + 1) * BATCH:  # a filtered batch may take several
            runner.wake()
            stream.loop_tick.run()
    spent = time.process_time() - started
    return spent / wanted * 1e6


async def deliver_alternately() -> float:
    """Measure two open pull requests of one client, which receive messages in rotation.

    Returns microseconds of processor time per message.
    """
    stream, _ = await _stream()
    runner = stream.consumers["c"]
    started = time.process_time()
    for number in range(MESSAGES // BATCH // 2):
        for reply in (b"in.1", b"in.2"):
            stream.pull(b'{"batch":%d,"expires":30000000000}' % BATCH, reply)
        while runner.pump.delivered < (number + 1) * 2 * BATCH:
            runner.wake()
            stream.loop_tick.run()
    spent = time.process_time() - started
    return spent / MESSAGES * 1e6


async def push(**config: object) -> float:
    """Measure the delivery of all messages to one subscriber of a push consumer.

    Returns microseconds of processor time per message.
    """
    stream, _ = await _stream(ack_policy=AckPolicy.NONE, **config)
    started = time.process_time()
    await stream.create(
        name="p", durable_name="p", ack_policy=AckPolicy.NONE, deliver_subject="push.to"
    )
    runner = stream.consumers["p"]
    while runner.pump.delivered < MESSAGES:
        runner.wake()
        stream.loop_tick.run()
    return (time.process_time() - started) / MESSAGES * 1e6


async def ack() -> float:
    """Measure acks of all messages, 500 per tick of the event loop, with parsing of ack subjects.

    Returns microseconds of processor time per message.
    """
    stream, _ = await _stream()
    for _ in range(MESSAGES // BATCH):
        stream.pull(b'{"batch":%d,"expires":30000000000}' % BATCH)
        stream.loop_tick.run()
    subjects = [
        b"$JS.ACK.S.c.1.%d.%d.1700000000000000000.%d" % (n, n, MESSAGES - n)
        for n in range(1, MESSAGES + 1)
    ]
    batch, runner = MessageColumns(), stream.consumers["c"]
    for subject in subjects:
        batch.add(subject, b"", b"", b"+ACK")
    started = time.process_time()
    for start in range(0, MESSAGES, BATCH):
        assert deliver_ack_row(stream.account, batch, start, start + BATCH)
        stream.loop_tick.run()
    spent = time.process_time() - started
    assert len(runner.machine.pending) == 0
    return spent / MESSAGES * 1e6


async def encode() -> float:
    """Measure the encoding of a consumer's state while all messages are unacknowledged.

    Returns microseconds of processor time per message.
    """
    stream, _ = await _stream()
    for _ in range(MESSAGES // BATCH):
        stream.pull(b'{"batch":%d,"expires":30000000000}' % BATCH)
        stream.loop_tick.run()
    started = time.process_time()
    write = stream.consumers["c"].state_write()
    spent = time.process_time() - started
    state = write.state if write is not None else b""
    print(f"  state with {MESSAGES} pending: {len(state)} bytes")
    return spent / MESSAGES * 1e6


STEPS: dict[str, Callable[[], Awaitable[float]]] = {
    "deliver, pull, explicit ack": deliver,
    "deliver, pull, ack none": lambda: deliver(ack_policy=AckPolicy.NONE),
    "deliver, pull, one of ten subjects": lambda: deliver(filter_subject="s.3"),
    "deliver, pull, with headers": lambda: deliver(header=b"NATS/1.0\r\na: b\r\n\r\n"),
    "deliver, two requests in turn": deliver_alternately,
    "push, ack none": push,
    "ack, plain": ack,
    "encode state, per pending message": encode,
}


async def main() -> None:
    for name, step in STEPS.items():
        times = [await step() for _ in range(REPEATS)]
        print(f"{name:40} {median(times):6.3f} us  (best {min(times):.3f})")


if __name__ == "__main__":
    asyncio.run(main())
