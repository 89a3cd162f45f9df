"""Waiting for an observation, with a deadline, instead of for an amount of time."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")

_never = threading.Event()
_RAREST = 12


def _pause(every: float, waited: float) -> float:
    """Seconds until the next look: a look costs both sides, and who waits long can wait longer."""
    return max(every, min(waited / 10, every * _RAREST))


def eventually(observe: Callable[[], T | None], *, within: float = 30.0, every: float = 0.02) -> T:
    """Call `observe` until it returns something true and return that.

    Args:
        observe: Returns a true value when the awaited state is there. An AssertionError counts
            as "not yet"; the last one is raised at the deadline.
        within: Seconds until giving up.
        every: Seconds between the first looks. Later ones come after a tenth of what it has taken
            so far, or after twelve times as many.
    """
    begun = time.monotonic()
    deadline = begun + within
    while True:
        try:
            if seen := observe():
                return seen
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise AssertionError(f"not observed within {within} s: {observe}")
        _never.wait(_pause(every, time.monotonic() - begun))


@overload
async def observed(
    observe: Callable[[], Awaitable[T | None]], *, within: float = ..., every: float = ...
) -> T: ...
@overload
async def observed(
    observe: Callable[[], T | None], *, within: float = ..., every: float = ...
) -> T: ...
async def observed(observe: Callable[[], Any], *, within: float = 30.0, every: float = 0.01) -> Any:
    """Call `observe`, and await what it returns, until that is true; return it: `eventually`.

    Raises AssertionError when that takes longer than `within` seconds; `every` is as there.
    """
    begun = time.monotonic()
    try:
        async with asyncio.timeout(within):
            while True:
                found = observe()
                if seen := await found if isawaitable(found) else found:
                    return seen
                await asyncio.sleep(_pause(every, time.monotonic() - begun))
    except TimeoutError:
        raise AssertionError(f"not observed within {within} s: {observe}") from None
