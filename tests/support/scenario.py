"""Scenarios of asyncio, run by tests that are plain functions."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from core.runtime.tasks import stop

T = TypeVar("T")


def run_within(seconds: float, scenario: Callable[[], Awaitable[T]]) -> T:
    """Run a scenario in a new event loop. Raises TimeoutError after some seconds."""

    async def within_time() -> T:
        async with asyncio.timeout(seconds):
            return await scenario()

    return asyncio.run(within_time())


def run_beside(
    make: Callable[[], T],
    task: Callable[[T], Coroutine[Any, Any, None]],
    scenario: Callable[[T], Awaitable[None]],
) -> T:
    """Run a scenario of at most 10 s beside a task; return the object that both share.

    Args:
        make: Makes the object, in the event loop.
        task: Runs until the scenario has ended.
        scenario: Uses the object.
    """

    async def main() -> T:
        shared = make()
        beside = asyncio.ensure_future(task(shared))
        async with asyncio.timeout(10):
            await scenario(shared)
        await stop(beside)
        return shared

    return asyncio.run(main())


def running(test: Callable[..., Any]) -> Callable[..., None]:
    """Decorate an async test so that pytest runs it to its end."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
