"""What waits while a leadership is not confirmed, and goes on when it is."""

# Subject: leadership

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from core.jetstream import trust_gate as module
from core.jetstream.trust_gate import TrustGate


class Played:
    """A trust whose window a test opens and closes."""

    def __init__(self) -> None:
        self.is_open = True
        self.trust = TrustGate(lambda: self.is_open)
        self.woken: list[str] = []

    def go_on(self) -> None:
        self.woken.append("again")


def played(test: Callable[[Played], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await test(Played())

    asyncio.run(run())


def test_a_held_consumer_is_called_once_when_it_may_deliver() -> None:
    async def test(play: Played) -> None:
        assert play.trust.allows(play.go_on)
        play.trust.confirm()
        assert play.woken == []

        play.is_open = False
        assert not play.trust.allows(play.go_on)
        assert not play.trust.allows(play.go_on)
        play.is_open = True
        play.trust.confirm()
        play.trust.confirm()

        assert play.woken == ["again"]
        assert play.trust.allows(play.go_on)

    played(test)


def test_a_request_is_served_when_the_leadership_is_confirmed_in_time() -> None:
    async def test(play: Played) -> None:
        play.is_open = False
        waiting = asyncio.ensure_future(play.trust.wait_open())
        await asyncio.sleep(0)
        assert not waiting.done()

        play.is_open = True
        play.trust.confirm()

        assert await waiting

    played(test)


def test_requests_wait_together_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time counts from the first of them: who comes behind it is answered at once."""
    monkeypatch.setattr(module, "HOLD_S", 0.01)

    async def test(play: Played) -> None:
        play.is_open = False
        assert not await play.trust.wait_open()

        late = asyncio.ensure_future(play.trust.wait_open())
        await asyncio.sleep(0)
        assert late.done()
        assert not late.result()

        play.is_open = True
        assert await play.trust.wait_open()

    played(test)
