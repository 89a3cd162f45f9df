"""Waiting for an observation, with a deadline, instead of for an amount of time."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")

_never = threading.Event()


def eventually(observe: Callable[[], T | None], *, within: float = 30.0, every: float = 0.02) -> T:
    """Call `observe` until it returns something true and return that.

    Args:
        observe: Returns a true value when the awaited state is there. An AssertionError counts
            as "not yet"; the last one is raised at the deadline.
        within: Seconds until giving up.
        every: Seconds between two looks.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            if seen := observe():
                return seen
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise AssertionError(f"not observed within {within} s: {observe}")
        _never.wait(every)


@overload
async def observed(
    observe: Callable[[], Awaitable[T | None]], *, within: float = ..., every: float = ...
) -> T: ...
@overload
async def observed(
    observe: Callable[[], T | None], *, within: float = ..., every: float = ...
) -> T: ...
async def observed(observe: Callable[[], Any], *, within: float = 30.0, every: float = 0.01) -> Any:
    """Call `observe`, and await what it returns, until that is true; return it.

    Raises AssertionError when that takes longer than `within` seconds; `every` seconds lie between
    two looks.
    """
    try:
        async with asyncio.timeout(within):
            while True:
                found = observe()
                if seen := await found if isawaitable(found) else found:
                    return seen
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"not observed within {within} s: {observe}") from None
