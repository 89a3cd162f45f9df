"""Progress lines of a pipeline run that lasts longer than two seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

QUIET = 2.0
"""Seconds without output, at the start of the run and after each line."""


class Progress:
    """Printer of the progress of one pipeline, at most one line every two seconds.

    Args:
        name: Name of the pipeline, at the beginning of each line.
        out: Output; None for standard error.
        now: Returns the seconds of a monotonic clock.
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
        """Print the number of messages, their rate, and a text.

        Prints nothing within two seconds of the last line or the start.
        """
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
        """Print the state of a step every two seconds during the `with` block, from a new thread.

        Args:
            text: Returns the state as text.
            last: Called in the new thread before it ends.
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
