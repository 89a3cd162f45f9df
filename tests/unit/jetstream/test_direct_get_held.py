"""Direct Get requests of a leader whose leadership is not confirmed."""

# Subject: message get

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import pytest

from core.jetstream import trust_gate as trust_module
from core.jetstream.direct import held
from core.jetstream.direct.direct_get import DirectGet
from core.jetstream.trust_gate import TrustGate
from core.pubsub.forwarding import Splitter
from core.pubsub.receivers import RemoteInterest
from core.pubsub.server import Hub
from core.runtime.loop_tick import LoopTick
from tests.support.sessions import ManualClock
from tests.support.streams import StreamBench
from tests.unit.rules.stream.support import config


class Leader:
    """A link to another node, which leads the stream."""

    closed = blocked = False

    def __init__(self) -> None:
        self.on_writable: list[Callable[[], None]] = []
        self.sent = 0
        self.lines: list[bytes] = []

    def send(self, lines: bytes, sent: int) -> None:
        self.lines.append(lines)


class Scenario:
    """A stream, and a trust window that a test opens and closes."""

    def __init__(self, bench: StreamBench) -> None:
        self.is_open = False
        self.trust = TrustGate(lambda: self.is_open)
        self.loop_tick = LoopTick()
        self.account = Hub(self.loop_tick, ManualClock()).accounts["$G"]
        self.answers: list[bytes] = []
        self.account.subscribe(b"in", self._answered)
        self.direct = DirectGet(bench.runner.log, self.account, self.loop_tick, self.trust)
        self.direct.configure(True)

    def _answered(
        self, _: object, _subject: bytes, _reply: bytes, block: bytes, body: bytes
    ) -> None:
        self.answers.append(body or block.partition(b"\r")[0])

    def ask(self) -> None:
        """Send a request of each form."""
        get = b"$JS.API.DIRECT.GET.S"
        self.account.publish(get, b"in", b"", b'{"seq":1}')
        self.account.publish(get + b".s.a", b"in", b"", b"")
        self.account.publish(get, b"in", b"", b'{"last_by_subj":"s.a"}')

    def confirm(self) -> None:
        """Confirm the leadership, as a successful check of the leases does."""
        self.is_open = True
        self.trust.confirm()


ALL = [b"first", b"second", b"second"]


def run(test: Callable[[Scenario], Awaitable[None]]) -> None:
    """Run a test over a stream with two messages."""
    bench = StreamBench(config())
    for payload in (b"first", b"second"):
        bench.gather(b"s.a", payload)
        bench.flush()

    async def scenario() -> None:
        await test(Scenario(bench))

    with closing(bench):
        asyncio.run(scenario())


async def ticks(count: int = 10) -> None:
    """Let the event loop run what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_requests_are_answered_in_order_when_the_leadership_is_confirmed() -> None:
    async def test(scene: Scenario) -> None:
        scene.ask()
        await ticks()
        assert scene.answers == []

        scene.confirm()
        await ticks()
        assert scene.answers == ALL

        scene.ask()
        assert scene.answers == ALL * 2

    run(test)


def test_the_window_is_asked_in_each_loop_tick() -> None:
    async def test(scene: Scenario) -> None:
        scene.confirm()
        scene.ask()
        assert scene.answers == ALL
        await ticks()

        scene.is_open = False
        scene.ask()
        await ticks()
        assert scene.answers == ALL

    run(test)


def test_requests_are_forwarded_when_the_leadership_is_lost() -> None:
    async def test(scene: Scenario) -> None:
        leader = Leader()
        scene.account.split = Splitter(scene.account).split
        scene.ask()
        for subject in (b"$JS.API.DIRECT.GET.S", b"$JS.API.DIRECT.GET.S.>"):
            scene.account.add_remote(RemoteInterest(leader, subject, b"", 1))
        scene.direct.configure(False)
        await ticks()

        assert scene.answers == []
        bodies = (b'{"seq":1}', b"in", b'{"last_by_subj":"s.a"}')
        assert [body in line for body, line in zip(bodies, leader.lines, strict=True)] == [True] * 3

    run(test)


def test_memory_answers_when_no_confirmation_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_module, "HOLD_S", 0.01)

    async def test(scene: Scenario) -> None:
        scene.ask()
        assert scene.answers == []
        await asyncio.gather(*(task for task in asyncio.all_tasks() if "held" in task.get_name()))
        assert scene.answers == ALL

        scene.ask()
        await ticks()
        assert scene.answers == ALL * 2

    run(test)


def test_held_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "HELD_BYTES", 500)

    async def test(scene: Scenario) -> None:
        for _ in range(10):
            scene.ask()
        assert 20 < len(scene.answers) < 30
        scene.confirm()
        await ticks()
        assert len(scene.answers) == 30

    run(test)
