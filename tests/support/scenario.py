"""Runs of asyncio coroutines ("scenarios") from synchronous test functions."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from core.runtime.tasks import stop

T = TypeVar("T")


def run_within(seconds: float, scenario: Callable[[], Awaitable[T]]) -> T:
    """Run a scenario in a new event loop; return its result.

    Raises TimeoutError after `seconds` seconds.
    """

    async def within_time() -> T:
        async with asyncio.timeout(seconds):
            return await scenario()

    return asyncio.run(within_time())


def run_beside(
    make: Callable[[], T],
    task: Callable[[T], Coroutine[Any, Any, None]],
    scenario: Callable[[T], Awaitable[None]],
) -> T:
    """Run a scenario and a background task on a shared object; return the object.

    Raises TimeoutError after 10 seconds.

    Args:
        make: Creates the object, inside the event loop.
        task: The background task; it is cancelled after the scenario.
        scenario: Uses the object while the task runs.
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
    """Return a synchronous test function that runs an async one in a new event loop."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
