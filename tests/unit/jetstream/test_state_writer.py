"""The state writer: coalescing, double acks, storage that is away."""

# Subject: acks

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from core.errors import Fenced, Unavailable
from core.jetstream.state_writer import StateWriter
from core.runtime.loop_tick import LoopTick
from core.storage.interface import StateWrite
from core.units import Epoch
from tests.support.eventually import observed
from tests.support.scenario import run_beside
from tests.support.sessions import ManualClock


class Consumer:
    """A consumer whose state is a number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = 0
        self.epoch = 1
        self.gone = False

    def state_write(self) -> StateWrite | None:
        if self.gone:
            return None
        return StateWrite(1, self.number, Epoch(self.epoch), b"%d" % self.state, 0, 0, 0, 0)


class Bench:
    """A writer over a store that does what a script says."""

    def __init__(self) -> None:
        self.writes: list[list[tuple[int, bytes]]] = []
        self.faults: list[Exception | None] = []
        self.epoch = 1
        self.deposed = ""
        self.done: list[str] = []
        self.in_flight = asyncio.Event()
        self.written = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.states = StateWriter(self, LoopTick(), ManualClock(), self.depose)

    async def write_states(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]:
        self.in_flight.set()
        await self.go.wait()
        self.in_flight.clear()
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        self.writes.append([(s.consumer, s.state) for s in states])
        self.written.set()
        return {(s.stream, s.consumer) for s in states if s.epoch == self.epoch}

    def depose(self, why: str) -> None:
        self.deposed = why

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> Bench:
    """Run a scenario beside the writer."""
    return run_beside(Bench, lambda bench: bench.states.run(), scenario)


def test_marks_of_one_consumer_become_one_write_of_its_newest_state() -> None:
    async def scenario(bench: Bench) -> None:
        consumer = Consumer(1)
        for state in range(100):
            consumer.state = state
            bench.states.mark(consumer)
        await bench.states.drain()

    assert run(scenario).writes == [[(1, b"99")]]


def test_consumers_share_a_write() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(1, 4):
            bench.states.mark(Consumer(number))
        await bench.states.drain()

    assert run(scenario).writes == [[(1, b"0"), (2, b"0"), (3, b"0")]]


def test_a_double_ack_is_answered_only_after_the_write() -> None:
    async def scenario(bench: Bench) -> None:
        bench.go.clear()
        bench.states.sync(Consumer(1), bench.note("acked"))
        await bench.in_flight.wait()
        assert bench.done == []
        bench.go.set()
        await bench.states.drain()

    assert run(scenario).done == ["acked"]


def test_a_double_ack_during_a_write_waits_for_the_next_one() -> None:
    async def scenario(bench: Bench) -> None:
        consumer = Consumer(1)
        bench.go.clear()
        bench.states.sync(consumer, bench.note("first"))
        await bench.in_flight.wait()
        consumer.state = 1
        bench.states.sync(consumer, bench.note("second"))
        bench.go.set()
        await bench.states.drain()

    bench = run(scenario)

    assert bench.writes == [[(1, b"0")], [(1, b"1")]]
    assert bench.done == ["first", "second"]


@pytest.mark.parametrize("is_written", [True, False])
def test_a_double_ack_to_what_another_node_leads_is_not_answered(is_written: bool) -> None:
    """Whether its state was on its way or not."""

    async def scenario(bench: Bench) -> None:
        given_up, kept = Consumer(1), Consumer(2)
        if is_written:
            bench.go.clear()
        for consumer, what in ((given_up, "given up"), (kept, "kept")):
            bench.states.sync(consumer, bench.note(what))
        if is_written:
            await bench.in_flight.wait()
        bench.states.forget({given_up})
        bench.go.set()
        await bench.states.drain()

    assert run(scenario).done == ["kept"]


def test_states_wait_while_storage_is_away() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Unavailable("no connection")]
        consumer = Consumer(1)
        bench.states.sync(consumer, bench.note("acked"))
        await bench.in_flight.wait()
        consumer.state = 5
        await bench.states.drain()

    bench = run(scenario)

    assert bench.writes == [[(1, b"5")]]
    assert bench.done == ["acked"]


def test_a_state_of_an_old_epoch_is_not_confirmed() -> None:
    async def scenario(bench: Bench) -> None:
        bench.epoch = 2
        consumer = Consumer(1)
        bench.states.sync(consumer, bench.note("acked"))
        await bench.in_flight.wait()
        assert bench.done == []
        await bench.written.wait()
        consumer.epoch = 2
        await bench.states.drain()

    bench = run(scenario)

    assert bench.done == ["acked"]
    assert len(bench.writes) == 2


def test_a_state_that_cannot_be_written_holds_up_no_other() -> None:
    async def scenario(bench: Bench) -> None:
        lost, other = Consumer(1), Consumer(2)
        lost.epoch = 0
        bench.states.sync(lost, bench.note("lost"))
        bench.states.sync(other, bench.note("other"))
        for _ in range(2):
            await bench.written.wait()
            bench.written.clear()
        assert bench.done == ["other"]
        lost.gone = True
        await bench.states.drain()

    bench = run(scenario)

    assert bench.done == ["other", "lost"]
    assert [state for write in bench.writes for state in write].count((2, b"0")) == 1


def test_a_deleted_consumer_ends_the_wait_for_its_state() -> None:
    async def scenario(bench: Bench) -> None:
        consumer = Consumer(1)
        consumer.gone = True
        bench.states.sync(consumer, bench.note("acked"))
        await bench.states.drain()

    bench = run(scenario)

    assert bench.done == ["acked"]
    assert bench.writes == []


def test_states_that_are_not_written_when_the_node_ends_are_not_confirmed() -> None:
    """A consumer that ends with its node has nothing to write either, but its row is there."""

    async def scenario(bench: Bench) -> None:
        consumer = Consumer(1)
        bench.faults = [Unavailable("no connection")]
        bench.states.sync(consumer, bench.note("acked"))
        await bench.in_flight.wait()
        bench.states.close()
        consumer.gone = True
        rounds = bench.states.flushes
        await observed(lambda: bench.states.flushes > rounds)

    bench = run(scenario)

    assert bench.done == []
    assert bench.writes == []


def test_a_fenced_write_deposes_and_confirms_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Fenced("stream 1")]
        bench.states.sync(Consumer(1), bench.note("acked"))
        await bench.states.drain()

    bench = run(scenario)

    assert bench.deposed
    assert bench.done == []


def test_drain_waits_for_the_write_in_flight() -> None:
    async def scenario(bench: Bench) -> None:
        bench.go.clear()
        bench.states.sync(Consumer(1), bench.note("acked"))
        await bench.in_flight.wait()
        drained = asyncio.ensure_future(bench.states.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        bench.go.set()
        await drained
        assert bench.done == ["acked"]

    run(scenario)
