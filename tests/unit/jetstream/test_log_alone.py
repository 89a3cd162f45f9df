"""A stream that nobody leads: its log can be read, and Direct Get answers from it."""

# Subject: message get

import asyncio
from typing import Any, cast

from core.jetstream.direct.direct_get import DirectGet
from core.jetstream.janitor import Janitor
from core.jetstream.log.loading import load, take_head
from core.jetstream.log.stream_log import StreamLog
from core.jetstream.log.subjects import last_by_subject
from core.jetstream.log.tail import TailBudget
from core.jetstream.trust_gate import TrustGate
from core.pubsub.server import Hub
from core.rules.stream.machine import StreamMachine
from core.runtime.loop_tick import LoopTick
from tests.support.memory_store import MemoryStore
from tests.support.sessions import ManualClock
from tests.support.streams import StandInCommitter, StreamBench
from tests.unit.rules.stream.support import config


def _stored() -> MemoryStore:
    """Rows of a stream that loses some: 2 and 4 were replaced, 3 was deleted."""
    bench = StreamBench(config(max_msgs_per_subject=1))
    for subject in (b"s.a", b"s.b", b"s.c", b"s.b"):
        bench.gather(subject, b"%b %d" % (subject, len(bench.store.rows)))
        bench.flush()
    bench.serve(bench.runner.requests.delete_message(3))
    bench.close()
    return bench.store


def _log(store: MemoryStore, clock: ManualClock) -> StreamLog:
    janitor = Janitor(clock, cast(Any, store), cast(Any, store))
    machine = StreamMachine(config(max_msgs_per_subject=1))
    tails, committer = TailBudget(1 << 20), StandInCommitter()
    return StreamLog(7, 0, "S", machine, cast(Any, store), tails, committer, janitor)


def test_direct_get_needs_a_log_and_no_leader() -> None:
    store, clock = _stored(), ManualClock()

    async def scenario() -> dict[bytes, bytes]:
        loop_tick = LoopTick()
        account = Hub(loop_tick, clock).accounts["$G"]
        log = _log(store, clock)
        take_head(log, store.head)
        await load(log, store.head, clock.now())
        assert await last_by_subject(log, b"s.*") is not None

        answers: dict[bytes, bytes] = {}
        there = asyncio.Event()

        def answered(_: object, subject: bytes, _reply: bytes, block: bytes, body: bytes) -> None:
            answers[subject] = body or block.partition(b"\r")[0]
            if len(answers) == 4:
                there.set()

        account.subscribe(b"in.*", answered)
        DirectGet(log, account, loop_tick, TrustGate()).configure(True)
        for name, request in (
            (b"in.first", b'{"seq":1}'),
            (b"in.replaced", b'{"seq":2}'),
            (b"in.deleted", b'{"last_by_subj":"s.c"}'),
            (b"in.last", b'{"last_by_subj":"s.b"}'),
        ):
            account.publish(b"$JS.API.DIRECT.GET.S", name, b"", request)
        await there.wait()
        return answers

    assert asyncio.run(scenario()) == {
        b"in.first": b"s.a 0",
        b"in.replaced": b"NATS/1.0 404 Message Not Found",
        b"in.deleted": b"NATS/1.0 404 Message Not Found",
        b"in.last": b"s.b 3",
    }
