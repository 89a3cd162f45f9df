"""Tests of something that goes by within a second or two, on a machine that may stand still."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.wire import Silence

_TRIES = 5


class Watch:
    """Whether a test came too late to see what it is about."""

    def __init__(self) -> None:
        self.was_late = False

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """What follows proves nothing when it takes longer."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.was_late |= time.monotonic() - began > seconds


def unless_late(attempt: Callable[[Watch], None]) -> None:
    """Run an attempt; one that failed and was late is made again."""
    for _ in range(_TRIES):
        watch = Watch()
        try:
            attempt(watch)
        except (AssertionError, Silence):
            if not watch.was_late:
                raise
        else:
            return
    raise AssertionError(f"too late {_TRIES} times")
