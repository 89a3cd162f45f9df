"""Retries of tests that observe something short-lived, on a machine that may pause for seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.wire import Silence

_TRIES = 5


class Watch:
    """A record of whether a test was too slow to observe its subject."""

    def __init__(self) -> None:
        self.was_late = False

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Mark the test as late if the block takes longer than these seconds."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.was_late |= time.monotonic() - began > seconds


def unless_late(attempt: Callable[[Watch], None]) -> None:
    """Run an attempt; repeat it, up to five times in all, when it failed and was late."""
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
