"""Waits that poll for a state until a deadline, in place of sleeps of a fixed length."""

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
    """Return the seconds until the next observation: more, the longer the wait has lasted.

    Fewer observations spare the processor of the test and of the observed server.
    """
    return max(every, min(waited / 10, every * _RAREST))


def eventually(observe: Callable[[], T | None], *, within: float = 30.0, every: float = 0.02) -> T:
    """Call `observe` until it returns a true value, and return that value.

    Args:
        observe: Returns a true value once the awaited state is reached. An AssertionError means
            "not yet".
        within: Seconds until the deadline.
        every: Seconds between the first observations. The interval grows to a tenth of the time
            waited so far, at most to twelve times `every`.

    Raises:
        AssertionError: The deadline has passed; the error is the last one of `observe`, if any.
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
    """Call `observe`, await its result if it is awaitable, and return it once it is true.

    `within` and `every` are in seconds, as in `eventually`. Raises AssertionError at the deadline.
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
