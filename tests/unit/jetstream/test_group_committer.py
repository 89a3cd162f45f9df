"""The group committer: what leaves, when, and what is said when storage fails."""

# Subject: publish, storage faults

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from core.errors import ApiError, Fenced, OutcomeUnknown, Refused, Unavailable
from core.jetstream.group_committer import GroupCommitter
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import PlanBuilder, StreamPlan
from core.runtime.loop_tick import LoopTick
from core.storage.interface import Head, StreamCommit
from core.units import Epoch
from tests.support.eventually import observed
from tests.support.scenario import run_beside
from tests.support.sessions import ManualClock

Fault = Exception | None


class FakeRunner:
    """A stream whose plans are numbers: plan n follows plan n - 1."""

    def __init__(self, bench: "Bench", stream: int) -> None:
        self.bench = bench
        self.stream = stream
        self.partition = 0
        self.epoch = Epoch(1)
        self.queued = False
        self.gathered = 0
        self.next_seq = 1
        self.away: list[Unavailable] = []

    def publish(self) -> None:
        self.gathered += 1
        self.bench.committer.enqueue(self)

    async def next_plan(self, limit: int, now: int) -> StreamPlan | None:
        if self.away:
            raise self.away.pop(0)
        if not self.gathered:
            return None
        self.gathered -= 1
        self.next_seq += 1
        return _plan(self.next_seq - 1)

    @property
    def machine(self) -> StreamMachine:
        raise AssertionError("no plan erases anything here")

    def has_work(self) -> bool:
        return self.gathered > 0

    def emit(self, plan: StreamPlan) -> None:
        outcome = ("ack", self.stream, plan.last_seq)
        self.bench.committer.answer_after_commit(lambda: self.bench.acknowledge(outcome))

    def fail(self, plan: StreamPlan, error: ApiError) -> None:
        self.bench.outcome.append(("fail", self.stream, error.err_code))

    def refuse_gathered(self, error: ApiError) -> None:
        self.gathered = 0
        self.bench.outcome.append(("refuse", self.stream, error.err_code))


class Bench:
    """A group committer over a writer that does what a script says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.outcome: list[tuple[str, int, int]] = []
        self.written: list[list[tuple[int, int]]] = []
        self.faults: list[Fault] = []
        self.recoveries: list[Fault] = []
        self.sifts: list[Exception] = []
        self.led_elsewhere: set[int] = set()
        self.committed_after_all = False
        self.deposed = ""
        self.trust = True
        self.in_flight = asyncio.Event()
        self.acknowledged = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.during_recovery: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self.committer = GroupCommitter(
            self,
            LoopTick(),
            self.clock,
            lambda: self.trust,
            self.recover,
            self.drop_fenced,
            self.depose,
        )

    def acknowledge(self, outcome: tuple[str, int, int]) -> None:
        self.outcome.append(outcome)
        self.acknowledged.set()

    async def commit(self, commits: Sequence[StreamCommit]) -> None:
        self.before_write()
        self.in_flight.set()
        await self.go.wait()
        self.in_flight.clear()
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        self.written.append([(c.stream, c.plan.last_seq) for c in commits])

    async def heads(self, streams: Sequence[int]) -> dict[int, Head]:
        return {}

    async def consumer_changes(self, streams: Sequence[int]) -> dict[int, int]:
        return {}

    async def close(self) -> None:
        return None

    async def drop_fenced(self, work: list[Any]) -> list[Any]:
        if self.sifts:
            raise self.sifts.pop(0)
        return [pair for pair in work if pair[0].stream not in self.led_elsewhere]

    async def recover(self, work: list[Any]) -> tuple[list[Any], list[Any]]:
        self.during_recovery()
        fault = self.recoveries.pop(0) if self.recoveries else None
        if fault is not None:
            raise fault
        self.trust = True
        return (work, []) if self.committed_after_all else ([], work)

    def depose(self, why: str) -> None:
        self.deposed = why


def run(scenario: Callable[[Bench], Awaitable[None]]) -> Bench:
    """Run a scenario beside the group committer."""
    return run_beside(Bench, lambda bench: bench.committer.run(), scenario)


def _plan(seq: int) -> StreamPlan:
    plan = PlanBuilder(before=seq - 1, first_seq=1, last_seq=seq, last_ts=seq, msgs=seq, nbytes=0)
    return plan.build()


def test_nothing_is_emitted_before_the_commit_returns() -> None:
    async def scenario(bench: Bench) -> None:
        bench.go.clear()
        FakeRunner(bench, 1).publish()
        await bench.in_flight.wait()
        assert bench.outcome == []

        bench.go.set()
        await bench.committer.drain()

    assert run(scenario).outcome == [("ack", 1, 1)]


def test_a_commit_is_sent_before_the_acks_of_the_last_and_does_not_hold_them_back() -> None:
    async def scenario(bench: Bench) -> None:
        runner = FakeRunner(bench, 1)
        bench.before_write = stopped_after_the_first(bench)
        runner.publish()
        runner.publish()
        await bench.acknowledged.wait()
        assert (bench.outcome, len(bench.written)) == ([("ack", 1, 1)], 1)
        bench.go.set()
        await bench.committer.drain()

    def stopped_after_the_first(bench: Bench) -> Callable[[], None]:
        def before_write() -> None:
            sent.append(list(bench.outcome))
            if len(sent) == 2:
                bench.go.clear()

        return before_write

    sent: list[list[tuple[str, int, int]]] = []
    assert run(scenario).outcome == [("ack", 1, 1), ("ack", 1, 2)]
    assert sent == [[], []]


def test_a_refused_commit_refuses_every_publisher() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Refused("disk full")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.outcome == [("fail", 1, 10077)]
    assert bench.written == []


def test_a_full_disk_is_an_outage_until_the_next_commit() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Refused("disk full", is_full=True)]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()
        assert bench.committer.health.trouble == "disk full"
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    health = run(scenario).committer.health
    assert (health.is_up, health.outages) == (True, 1)
    assert health.last_commit


@pytest.mark.parametrize("committed_after_all", [True, False])
def test_a_commit_without_an_answer_is_an_outage_until_its_outcome_is_known(
    committed_after_all: bool,
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.committed_after_all = committed_after_all
        bench.faults = [OutcomeUnknown("connection lost")]
        bench.during_recovery = lambda: troubles.append(bench.committer.health.trouble)
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    troubles: list[str] = []
    health = run(scenario).committer.health
    assert troubles == ["connection lost"]
    assert (health.is_up, health.outages) == (True, 1)


def test_storage_that_may_be_another_is_compared_at_once_and_before_what_is_published() -> None:
    async def scenario(bench: Bench) -> None:
        bench.during_recovery = lambda: done.append("compared")
        bench.before_write = lambda: done.append("committed")
        bench.committer.verify()
        await observed(lambda: done)
        FakeRunner(bench, 1).publish()
        bench.committer.verify()
        await bench.committer.drain()

    done: list[str] = []
    assert run(scenario).committer.health.outages == 0
    assert done == ["compared", "compared", "committed"]


def test_the_refusal_of_one_commit_is_no_outage() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Refused("value out of range")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    assert run(scenario).committer.health.outages == 0


def test_the_group_committer_goes_on_after_a_refusal() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Refused("disk full")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()
        FakeRunner(bench, 2).publish()
        await bench.committer.drain()

    assert run(scenario).outcome == [("fail", 1, 10077), ("ack", 2, 1)]


def test_a_fenced_commit_deposes_without_answers() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Fenced("stream 1")]
        bench.sifts = [Fenced("another node leads the stream directory")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.outcome == []
    assert bench.deposed
    assert bench.committer.stopped


def test_a_fenced_commit_gives_up_one_stream_and_the_rest_is_written() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Fenced("1 of 3 heads")]
        bench.led_elsewhere = {2}
        for stream in (1, 2, 3):
            FakeRunner(bench, stream).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.written == [[(1, 1), (3, 1)]]
    assert bench.outcome == [("ack", 1, 1), ("ack", 3, 1)]
    assert not bench.deposed


def test_when_all_streams_of_a_fenced_commit_are_lost_the_group_committer_goes_on() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Fenced("stream 1")]
        bench.led_elsewhere = {1}
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()
        FakeRunner(bench, 2).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.outcome == [("ack", 2, 1)]
    assert not bench.deposed


def test_when_the_fenced_plans_are_unknown_the_group_committer_leads_again_first() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Fenced("1 of 2 heads")]
        bench.sifts = [Unavailable("no connection")]
        FakeRunner(bench, 1).publish()
        FakeRunner(bench, 2).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.written == [[(1, 1), (2, 1)]]
    assert bench.outcome == [("ack", 1, 1), ("ack", 2, 1)]
    assert bench.committer.health.outages == 1


def test_an_unknown_outcome_that_was_committed_is_acknowledged_once() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [OutcomeUnknown("connection lost")]
        bench.committed_after_all = True
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.outcome == [("ack", 1, 1)]
    assert bench.written == []


def test_an_unknown_outcome_that_was_not_committed_is_written_again() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [OutcomeUnknown("connection lost")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.written == [[(1, 1)]]
    assert bench.outcome == [("ack", 1, 1)]


def test_an_unknown_outcome_is_not_guessed_when_another_node_leads() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [OutcomeUnknown("connection lost")]
        bench.recoveries = [Fenced("stream 1 was written by another node")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.outcome == []
    assert bench.deposed


def test_a_commit_is_not_sent_without_trust_in_the_lease() -> None:
    async def scenario(bench: Bench) -> None:
        bench.trust = False
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert bench.written == [[(1, 1)]]
    assert bench.trust


def test_two_plans_of_one_stream_never_share_a_transaction() -> None:
    async def scenario(bench: Bench) -> None:
        one, two = FakeRunner(bench, 1), FakeRunner(bench, 2)
        for runner in (one, two, one, one, two):
            runner.publish()
        await bench.committer.drain()

    assert run(scenario).written == [[(1, 1), (2, 1)], [(1, 2), (2, 2)], [(1, 3)]]


def test_publishes_during_a_commit_go_into_the_next_one() -> None:
    async def scenario(bench: Bench) -> None:
        one, two = FakeRunner(bench, 1), FakeRunner(bench, 2)
        bench.go.clear()
        one.publish()
        await bench.in_flight.wait()
        one.publish()
        two.publish()
        bench.go.set()
        await bench.committer.drain()

    assert run(scenario).written == [[(1, 1)], [(1, 2), (2, 1)]]


def test_gathered_messages_are_refused_while_storage_stays_away() -> None:
    async def scenario(bench: Bench) -> None:
        late = FakeRunner(bench, 2)

        def gather() -> None:
            bench.during_recovery = lambda: None
            late.publish()
            bench.clock.time += 3_000_000_000

        bench.during_recovery = gather
        bench.faults = [OutcomeUnknown("connection lost")]
        bench.recoveries = [Unavailable("refused")]
        FakeRunner(bench, 1).publish()
        await bench.committer.drain()

    assert run(scenario).outcome == [("refuse", 2, 10008), ("ack", 1, 1)]


def test_a_short_absence_of_storage_refuses_no_publish() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [OutcomeUnknown("connection lost")]
        bench.recoveries = [Unavailable("refused")]
        one, two = FakeRunner(bench, 1), FakeRunner(bench, 2)
        bench.during_recovery = two.publish
        one.publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert ("refuse", 2, 10008) not in bench.outcome
    assert ("ack", 2, 1) in bench.outcome


def test_a_stream_whose_facts_cannot_be_read_does_not_stop_the_others() -> None:
    async def scenario(bench: Bench) -> None:
        one, two, three = (FakeRunner(bench, n) for n in (1, 2, 3))
        two.away = [Unavailable("no connection")]
        for runner in (one, two, three, one):
            runner.publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert sorted(bench.outcome) == [("ack", 1, 1), ("ack", 1, 2), ("ack", 2, 1), ("ack", 3, 1)]
    assert bench.written[0] == [(1, 1)]


def test_streams_that_wait_for_facts_are_refused_when_storage_stays_away() -> None:
    async def scenario(bench: Bench) -> None:
        one, two, three = (FakeRunner(bench, n) for n in (1, 2, 3))
        one.away = [Unavailable("no connection")]

        def pass_time() -> None:
            bench.clock.time += 3_000_000_000

        bench.during_recovery = pass_time
        bench.recoveries = [Unavailable("refused")]
        for runner in (one, two, three):
            runner.publish()
        await bench.committer.drain()

    bench = run(scenario)

    assert sorted(bench.outcome) == [
        ("refuse", 1, 10008),
        ("refuse", 2, 10008),
        ("refuse", 3, 10008),
    ]


def test_drain_returns_at_once_when_there_is_nothing_to_do() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.committer.drain()

    assert run(scenario).written == []


def test_drain_waits_for_the_commit_in_flight() -> None:
    async def scenario(bench: Bench) -> None:
        bench.go.clear()
        FakeRunner(bench, 1).publish()
        await bench.in_flight.wait()
        drained = asyncio.ensure_future(bench.committer.drain())
        assert not drained.done()
        bench.go.set()
        await drained
        assert bench.outcome == [("ack", 1, 1)]

    run(scenario)


def test_drain_does_not_hang_on_a_deposed_group_committer() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults = [Fenced("stream 1")]
        bench.sifts = [Fenced("another node leads the stream directory")]
        runner = FakeRunner(bench, 1)
        runner.publish()
        runner.publish()
        await bench.committer.drain()

    assert run(scenario).deposed
