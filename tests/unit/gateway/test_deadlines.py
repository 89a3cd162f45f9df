"""Waiting with one timer for all: who is late, and how many of them at once."""

# Subject: HTTP

import asyncio
from collections import Counter

from gateway.http.deadlines import Deadlines

_WAITERS = 200


def test_of_many_late_tasks_few_go_on_in_one_tick_of_the_loop() -> None:
    """Else who publishes would wait until all of them were answered."""

    async def scenario() -> list[int]:
        loop, deadlines = asyncio.get_running_loop(), Deadlines()
        turn = 0
        ended: list[int] = []

        def count() -> None:
            nonlocal turn
            turn += 1
            if len(ended) < _WAITERS:
                loop.call_soon(count)

        async def wait() -> None:
            try:
                await deadlines.wait(loop.create_future(), 0.01)
            except TimeoutError:
                ended.append(turn)

        loop.call_soon(count)
        async with asyncio.timeout(30):
            await asyncio.gather(*(wait() for _ in range(_WAITERS)))
        return ended

    turns = Counter(asyncio.run(scenario()))

    assert turns.total() == _WAITERS
    assert max(turns.values()) <= 40
