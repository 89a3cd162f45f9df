"""What consumers decide about messages: which are stored, when they leave, what a crash leaves."""

# Subject: retention

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from core.model.stream import Retention
from tests.support.readers import Reader
from tests.support.streams import StreamBench
from tests.unit.rules.stream.support import config


def _bench(retention: Retention, **more: Any) -> StreamBench:
    return StreamBench(config(retention=retention, **more))


@pytest.fixture
def interest() -> Iterator[StreamBench]:
    bench = _bench(Retention.INTEREST)
    yield bench
    bench.close()


@pytest.fixture
def queue() -> Iterator[StreamBench]:
    bench = _bench(Retention.WORKQUEUE)
    yield bench
    bench.close()


def _publish(bench: StreamBench, *subjects: bytes) -> None:
    for subject in subjects:
        bench.gather(subject, b"m")
    bench.flush()


def _left(bench: StreamBench) -> list[int]:
    bench.serve(bench.runner.caught_up())
    assert bench.store.head.msgs == len(bench.store.rows) == bench.machine.msgs
    assert [row[0] for row in bench.live()] == sorted(bench.store.rows)
    return sorted(bench.store.rows)


def test_only_messages_with_interest_are_stored(interest: StreamBench) -> None:
    Reader(interest, "a", "s.a")
    _publish(interest, b"s.x", b"s.a", b"s.x", b"s.a", b"s.x")
    _publish(interest, b"s.x")
    _publish(interest, b"s.a")
    assert _left(interest) == [2, 4, 7]
    assert interest.machine.last_seq == 7


def test_the_last_consumer_to_settle_a_message_removes_it(interest: StreamBench) -> None:
    a, b = Reader(interest, "a"), Reader(interest, "b", "s.b")
    _publish(interest, b"s.a", b"s.b")
    a.deliver(1, 2)
    b.deliver(2)
    a.machine.ack_each([1, 2])
    assert _left(interest) == [2]
    assert not a.machine.leaving
    b.machine.ack_each([2])
    assert _left(interest) == []
    assert interest.machine.first_seq == 3


def test_settled_by_another_while_the_removal_is_planned(interest: StreamBench) -> None:
    a, b = Reader(interest, "a"), Reader(interest, "b")
    _publish(interest, b"s.a")
    a.deliver(1)
    b.deliver(1)

    async def both() -> None:
        a.machine.ack_each([1])
        a.report_settled_now()
        await asyncio.sleep(0)
        plan = await interest.runner.next_plan(10, 0)
        assert plan is not None
        assert plan.removed == []
        b.machine.ack_each([1])
        b.report_settled_now()
        interest.runner.emit(plan)

    interest.run(both())
    assert _left(interest) == []


def test_newest_of_a_subject_goes_first(queue: StreamBench) -> None:
    worker = Reader(queue, "w")
    _publish(queue, b"s.a", b"s.b", b"s.a", b"s.a", b"s.b")
    worker.deliver(1, 2, 3, 4, 5)
    worker.machine.ack_each([3, 4, 5])
    assert _left(queue) == [1, 2]
    index = queue.machine.index
    assert {subject: (n, last) for subject, n, last in index.items()} == {
        b"s.a": (1, 1),
        b"s.b": (1, 2),
    }


def test_messages_outside_of_memory_are_removed_too() -> None:
    bench = StreamBench(config(retention=Retention.WORKQUEUE), tail_bytes=1)
    worker = Reader(bench, "w")
    for _ in range(5):
        _publish(bench, *[b"s.a"] * 300)
    worker.deliver(*range(1, 1501))
    worker.machine.ack_each(range(1, 1500))
    assert _left(bench) == [1500]
    assert (bench.machine.first_seq, bench.machine.bytes) == (1500, bench.store.head.bytes)
    bench.close()


def test_messages_after_max_deliver_stay(queue: StreamBench) -> None:
    worker = Reader(queue, "w")
    _publish(queue, b"s.a", b"s.a")
    worker.deliver(1, 2)
    worker.machine.pending.stop_redelivering(1)
    worker.machine.ack_each([2])
    assert _left(queue) == [1]
    worker.machine.ack_each([1])
    assert _left(queue) == []


@pytest.mark.parametrize("retention", [Retention.INTEREST, Retention.WORKQUEUE])
def test_a_removal_that_a_crash_prevented_is_made_up_for(retention: Retention) -> None:
    bench = _bench(retention)
    worker = Reader(bench, "w")
    _publish(bench, b"s.a", b"s.a", b"s.a")
    worker.deliver(1, 2, 3)
    worker.machine.ack_each([2])
    stored = worker.stored()
    bench.reload()
    again = Reader(bench, "w")
    again.restore(stored)
    assert _left(bench) == [1, 3]
    bench.close()


def test_removed_messages_are_not_pending_after_a_crash(queue: StreamBench) -> None:
    worker = Reader(queue, "w")
    _publish(queue, b"s.a", b"s.a")
    worker.deliver(1, 2)
    stored = worker.stored()
    worker.machine.ack_each([1])
    assert _left(queue) == [2]
    queue.reload()
    again = Reader(queue, "w")
    again.restore(stored)

    async def connected() -> None:
        assert queue.runner.retention is not None
        queue.runner.retention.sweep()
        await queue.runner.caught_up()

    queue.serve(connected())
    assert list(again.machine.pending.first) == [2]


def test_a_queue_keeps_what_a_changed_filter_passed_over(queue: StreamBench) -> None:
    worker = Reader(queue, "w", "s.a")
    _publish(queue, b"s.b", b"s.a")
    worker.deliver(2)
    worker.machine.ack_each([2])
    assert _left(queue) == [1]
    other = Reader(queue, "w", "s.b")
    other.machine.next_seq = 3

    async def connected() -> None:
        assert queue.runner.retention is not None
        queue.runner.retention.sweep()
        await queue.runner.caught_up()

    queue.serve(connected())
    assert _left(queue) == [1]


def test_messages_without_any_consumer_left_are_removed(interest: StreamBench) -> None:
    Reader(interest, "a")
    _publish(interest, b"s.a", b"s.b")
    del interest.runner.consumers["a"]
    interest.serve(interest.runner.less_wanted())
    assert _left(interest) == []


@pytest.mark.parametrize("wants", ["state", "sweep"])
def test_requests_are_answered_while_consumers_go_on(interest: StreamBench, wants: str) -> None:
    reader = Reader(interest, "a", "s.a")
    Reader(interest, "b", "s.b")
    _publish(interest, b"s.b", *[b"s.a"] * 50)
    reader.deliver(*range(2, 52))
    reader.machine.ack_each([2])

    async def asked() -> tuple[int, list[int]]:
        runner = interest.runner
        if wants == "sweep":
            del runner.consumers["b"]
        asking = asyncio.ensure_future(
            runner.caught_up() if wants == "state" else runner.less_wanted()
        )
        for seq in range(3, 52):
            await asyncio.sleep(0)
            reader.machine.ack_each([seq])
            reader.report_settled_now()
            while runner.has_work():
                await interest.step()
            if asking.done():
                return seq, sorted(interest.store.rows)
        raise AssertionError("there was always something left to do")

    acked, left = interest.run(asked())
    assert acked < 20
    assert (1 in left) == (wants == "state")
    assert 2 not in left
