"""Progress lines of steps that take longer than two seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

QUIET = 2.0
"""Seconds without output, at the start and after each line."""


class Progress:
    """Printer of at most one line every two seconds; a shorter run prints none.

    Args:
        name: The pipeline, at the beginning of each line.
        out: Output; None for standard error.
        now: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        name: str,
        out: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._out, self._now = name, out or sys.stderr, now
        self._begun = self._written = now()
        self._lock = threading.Lock()
        self.rows = 0

    @property
    def seconds(self) -> float:
        """Duration of the run so far, in seconds."""
        return self._now() - self._begun

    def write(self, text: str) -> None:
        """Print the number of rows and a text, unless the last line is too recent."""
        with self._lock:
            now = self._now()
            if now - self._written < QUIET:
                return
            self._written = now
        rate = self.rows / max(now - self._begun, 0.001)
        line = f"{self._name}: {self.rows:,} messages, {rate:,.0f} a second; {text}"
        print(line, file=self._out, flush=True)

    @contextmanager
    def during(
        self, text: Callable[[], str], last: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Print the state of a long step every two seconds, from a thread of its own.

        Args:
            text: Returns the state.
            last: Called at the end, in the thread that called `text`.
        """
        over = threading.Event()

        def write_states() -> None:
            while not over.wait(QUIET):
                self.write(text())
            last()

        writer = threading.Thread(target=write_states, name=f"progress-{self._name}", daemon=True)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()
