"""When schedules and expiry of a stream happen: on time while it is quiet, paced while it is not.

The wall clock and the loop run apart, and the loop wakes a hair early, as real ones do.
"""

# Subject: expiry

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from core.jetstream.stream.due_timer import STEP_NS, DueTimer
from core.jetstream.stream.expiry_timer import ExpiryTimer
from core.units import NANOS_PER_SECOND
from tests.support.driven_loop import DrivenLoop
from tests.support.sessions import ManualClock
from tests.support.streams import StreamBench
from tests.unit.rules.stream.support import block, config

MS = 1_000_000
RATES = (0.9, 0.9999, 1.0, 1.0001, 1.1)


@pytest.fixture
def make() -> Iterator[Any]:
    benches: list[StreamBench] = []

    def build(**settings: Any) -> StreamBench:
        benches.append(StreamBench(config(**settings)))
        return benches[-1]

    yield build
    for bench in benches:
        bench.close()


async def pass_time(bench: StreamBench, loop: DrivenLoop, until: int) -> None:
    """Wake timers up to a time, and serve what the stream does then."""
    while bench.clock.now() < until and loop.wake_next():
        for _ in range(20):
            await bench.step()
            await asyncio.sleep(0)


@pytest.mark.parametrize("rate", RATES)
def test_every_second_sends_at_the_full_second(
    make: Any, monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    bench = make(name="S", subjects=("s.>",), allow_msg_schedules=True)
    loop = DrivenLoop(bench.clock, rate=rate, early=0.0008)
    loop.install(monkeypatch)
    head = block(Nats_Schedule="@every 1s", Nats_Schedule_Target="s.out")
    bench.gather(b"s.every", b"x", head)
    bench.flush()

    bench.run(pass_time(bench, loop, bench.clock.now() + 6 * NANOS_PER_SECOND))

    late = [
        row.ts % NANOS_PER_SECOND for row in bench.store.rows.values() if row.subject == b"s.out"
    ]
    assert len(late) >= 5
    assert max(late) <= 20 * MS


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("kind", ["ttl", "max_age"])
def test_expired_messages_are_gone_within_20_ms(
    make: Any, monkeypatch: pytest.MonkeyPatch, rate: float, kind: str
) -> None:
    """Two messages 100 ms apart: the first does not hold the second up."""
    settings: dict[str, Any] = (
        {"max_age": 4 * NANOS_PER_SECOND} if kind == "max_age" else {"allow_msg_ttl": True}
    )
    bench = make(**settings)
    bench.runner.expiry.watch = lambda: ExpiryTimer.watch(bench.runner.expiry)
    loop = DrivenLoop(bench.clock, rate=rate, early=0.0008)
    loop.install(monkeypatch)
    dues = []
    for _ in range(2):
        bench.gather(b"a", b"x", block(Nats_TTL="4s") if kind == "ttl" else b"")
        bench.flush()
        dues.append(bench.clock.now() + 4 * NANOS_PER_SECOND)
        loop.advance(0.1)

    gone: list[int] = []

    async def scenario() -> None:
        while len(gone) < 2 and loop.wake_next():
            for _ in range(20):
                await bench.step()
                await asyncio.sleep(0)
            while len(gone) < 2 - bench.machine.msgs:
                gone.append(bench.clock.now())

    bench.run(scenario())

    assert [0 <= at - due <= 20 * MS for at, due in zip(gone, dues, strict=True)] == [True, True]


def test_a_busy_stream_fires_four_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock)
    loop.install(monkeypatch)
    fired: list[int] = []

    def fire() -> None:
        fired.append(clock.now())
        timer.fired()
        timer.arm(clock.now())

    timer = DueTimer(clock, fire)
    timer.arm(clock.now())
    begun = clock.now()
    while clock.now() < begun + 10 * NANOS_PER_SECOND:
        loop.wake_next()

    assert 40 <= len(fired) <= 45


def test_a_failed_removal_is_repeated_after_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock)
    loop.install(monkeypatch)
    fired: list[int] = []
    timer = DueTimer(clock, lambda: fired.append(clock.now()))
    timer.arm(clock.now())
    loop.wake_next()

    timer.failed()
    timer.arm(clock.now())
    while loop.wake_next():
        pass

    assert 0 <= fired[1] - fired[0] - STEP_NS <= 20 * MS


def test_a_timer_waits_for_the_earliest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    loop = DrivenLoop(clock)
    loop.install(monkeypatch)
    fired: list[int] = []
    timer = DueTimer(clock, lambda: fired.append(clock.now()))
    begun = clock.now()
    for milliseconds in (90, 30, 60):
        timer.arm(begun + milliseconds * MS)

    while loop.wake_next():
        pass

    assert [(at - begun) // MS for at in fired] == [30]
