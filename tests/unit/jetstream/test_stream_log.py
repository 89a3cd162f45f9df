"""Reads of a stream from storage."""

# Subject: message get

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from core.jetstream.log.counts import count_from
from core.jetstream.log.scan import scan
from core.jetstream.log.stream_log import StreamLog
from core.jetstream.log.tail import TailBudget
from core.model.message import MsgGetRequest
from core.model.segment import Segment
from core.rules.stream.machine import StreamMachine
from tests.support.streams import StreamBench
from tests.unit.rules.stream.support import block, config

MIB = 1 << 20


class Reader:
    """Writes down how much was asked for."""

    def __init__(self) -> None:
        self.limits: list[int] = []

    async def range(self, stream: int, partition: int, seq: int, limit: int) -> Segment | None:
        self.limits.append(limit)
        return None


@pytest.mark.parametrize(
    ("msgs", "size", "limit"),
    [(10_000, 200, 2000), (10_000, MIB, 4), (3, 64 * MIB, 1), (0, 0, 1)],
)
def test_a_page_of_large_messages_has_fewer_of_them(msgs: int, size: int, limit: int) -> None:
    machine, reader = StreamMachine(config()), Reader()
    machine.first_seq, machine.last_seq = 1, 10_000
    machine.msgs, machine.bytes = msgs, msgs * size
    nobody = cast(Any, None)
    log = StreamLog(1, 0, "S", machine, cast(Any, reader), TailBudget(0), nobody, nobody)

    assert asyncio.run(log.read(1, 2000)) is None

    assert reader.limits == [limit]


@pytest.fixture
def bench() -> Iterator[StreamBench]:
    """Sequences 1 to 8 on s.a and s.b in turn, in storage alone."""
    bench = StreamBench(config())
    _publish(bench, 8)
    bench.flush()
    bench.runner.log.tail.clear(9)
    yield bench
    bench.close()


def _publish(bench: StreamBench, count: int) -> None:
    for number in range(count):
        bench.gather(b"s.b" if number % 2 else b"s.a")


def _count(bench: StreamBench) -> int:
    bench.flush()
    return bench.run(count_from(bench.runner.log, 2, b"s.a".__eq__, [b"s.a"]))


def test_a_count_has_what_came_and_left_memory_meanwhile(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, rounds = bench.store.subjects, 3

    async def slowly(*request: int) -> list[tuple[bytes, int, int]]:
        nonlocal rounds
        found = await read(*request)
        if rounds:
            rounds -= 1
            _publish(bench, 4)
            await bench.step()
            bench.runner.log.tail.clear(bench.machine.last_seq - 1)
        return found

    monkeypatch.setattr(bench.store, "subjects", slowly)
    assert _count(bench) == 3 + 3 * 2


def test_a_count_leaves_out_what_a_purge_has_still_to_remove(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.jetstream.stream.commands._AT_ONCE", 1)

    async def before(log: StreamLog) -> None:
        """What was to be swept when the count began is; the purge comes after that."""

    monkeypatch.setattr(bench.janitor, "finish", before)
    _publish(bench, 2)
    assert bench.serve(bench.runner.requests.purge("s.a", 7, None)) == 3
    assert sorted(bench.store.rows) == list(range(1, 11))
    assert _count(bench) == 2


async def _delete(bench: StreamBench, seq: int) -> None:
    deleting = asyncio.ensure_future(bench.runner.requests.delete_message(seq))
    await asyncio.sleep(0)
    await bench.step()
    await deleting


def test_a_time_leads_to_what_comes_while_it_is_looked_up(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a consumer that starts then would pass it over."""
    first_at, page = bench.store.first_at, bench.store.range

    async def slowly(*request: int) -> int:
        found = await first_at(*request)
        await _delete(bench, 8)
        return found

    async def late(*request: int) -> Segment | None:
        found = await page(*request)
        if bench.machine.last_seq == 8:
            _publish(bench, 2)
            await bench.step()
        return found

    monkeypatch.setattr(bench.store, "first_at", slowly)
    monkeypatch.setattr(bench.store, "range", late)
    assert bench.run(bench.runner.log.first_at_time(bench.machine.last_ts)) == 9


def test_the_message_of_a_time_is_the_next_when_it_is_deleted_meanwhile(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, times = bench.store.points, [row[1] for row in bench.live()]

    async def slowly(*request: Any) -> Segment | None:
        monkeypatch.setattr(bench.store, "points", read)
        await _delete(bench, 4)
        return await read(*request)

    monkeypatch.setattr(bench.store, "points", slowly)
    found = bench.run(bench.runner.requests.get_message(MsgGetRequest(start_time=times[3])))
    assert found is not None
    assert found[0] == 5


def test_a_list_of_removed_messages_is_as_long_as_its_count(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = bench.store.names

    async def slowly(*request: int) -> list[tuple[int, bytes]]:
        found = await names(*request)
        if bench.machine.last_seq == 8:
            await _delete(bench, 5)
            _publish(bench, 2)
            await bench.step()
            await _delete(bench, 9)
        return found

    monkeypatch.setattr(bench.store, "names", slowly)
    bench.serve(bench.runner.requests.delete_message(3))
    state = bench.run(bench.runner.info(deleted=True)).state
    assert (state.deleted, state.num_deleted) == ((3, 5, 9), 3)
    assert (state.messages, state.first_seq, state.last_seq) == (7, 1, 10)


def test_a_state_waits_for_a_removal_that_only_storage_knows_of(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> tuple[int, int, int]:
        runner, waited = bench.runner, 0
        purging = asyncio.ensure_future(runner.requests.purge("s.a", None, None))
        await asyncio.sleep(0)
        plan = await runner.next_plan(1, bench.clock.now())
        assert plan is not None
        bench.store.commit(plan)

        async def settled() -> None:
            nonlocal waited
            waited += 1
            if waited == 1:
                runner.emit(plan)
                await purging

        monkeypatch.setattr(runner.services.committer, "await_commit", settled)
        state = (await runner.info()).state
        return state.messages, state.first_seq, state.num_deleted

    assert bench.run(scenario()) == (4, 2, 3)


def test_a_walk_finds_what_takes_the_place_of_a_message_before_it_comes_there(
    bench: StreamBench,
) -> None:
    """A subject that always has a message is never missing among those of a stream."""

    async def walk() -> list[int]:
        found: list[int] = []
        async for segment, places in scan(bench.runner.log, 1, [b"s.*"], 1):
            found += [segment.seqs[place] for place in places]
            if bench.machine.last_seq == 8:
                bench.gather(b"s.b", b"", block(Nats_Rollup="sub"))
                await bench.step()
        return found

    assert bench.run(walk())[-1] == 9
