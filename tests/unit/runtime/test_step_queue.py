"""StepQueue: how much of the work of many is done in one tick of the loop."""

# Subject: costs

import asyncio

import pytest

from core.runtime import step_queue as module
from core.runtime.step_queue import step_queue


@pytest.fixture(autouse=True)
def _short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step is all that a tick may do."""
    monkeypatch.setattr(module, "TICK_NS", 0)


def test_steps_run_in_order_and_no_two_in_one_tick() -> None:
    async def check() -> None:
        done: list[int] = []
        for number in range(5):
            step_queue().add(lambda number=number: done.append(number))  # type: ignore[misc]
        seen: list[int] = []
        while len(done) < 5:
            await asyncio.sleep(0)
            seen.append(len(done))

        assert done == [0, 1, 2, 3, 4]
        assert seen == [1, 2, 3, 4, 5]

    asyncio.run(check())


def test_short_steps_share_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        monkeypatch.setattr(module, "TICK_NS", 1 << 60)
        done: list[int] = []
        for number in range(5):
            step_queue().add(lambda number=number: done.append(number))  # type: ignore[misc]
        await asyncio.sleep(0)

        assert done == [0, 1, 2, 3, 4]

    asyncio.run(check())


def test_a_waiting_step_has_a_tick_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        monkeypatch.setattr(module, "TICK_NS", 1 << 60)
        taken = 0

        async def take() -> None:
            nonlocal taken
            for _ in range(3):
                await step_queue().wait()
                taken += 1

        tasks = [asyncio.create_task(take()) for _ in range(10)]
        before = 0
        while before < 30:
            await asyncio.sleep(0)
            assert taken - before <= 1
            before = taken
        await asyncio.gather(*tasks)

    asyncio.run(check())


def test_a_cancelled_step_delays_no_other() -> None:
    async def check() -> None:
        gone = asyncio.create_task(step_queue().wait())
        await asyncio.sleep(0)
        gone.cancel()
        await step_queue().wait()

        assert gone.cancelled()

    asyncio.run(check())


def test_a_step_that_fails_stops_no_other() -> None:
    async def check() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        step_queue().add(lambda: 1 // 0)  # type: ignore[arg-type]
        await step_queue().wait()

        assert len(told) == 1

    asyncio.run(check())
