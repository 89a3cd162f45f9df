"""Waiting for an observation, with a deadline, instead of for an amount of time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_never = threading.Event()


def eventually(observe: Callable[[], T], *, within: float = 10.0, every: float = 0.02) -> T:
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
