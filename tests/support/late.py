"""Retries of tests that observe a short-lived state, because a machine may pause for seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.wire import Silence

_TRIES = 5


class Watch:
    """A record of whether an attempt was too slow to observe the state.

    Attributes:
        was_late: True after a block of `within` has taken too long.
    """

    def __init__(self) -> None:
        self.was_late = False

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Set `was_late` if the `with` block takes longer than these seconds."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.was_late |= time.monotonic() - began > seconds


def unless_late(attempt: Callable[[Watch], None]) -> None:
    """Run an attempt until it passes; repeat it only if it failed and was late.

    Raises the error of an attempt that was not late, and AssertionError after five late ones.
    """
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
