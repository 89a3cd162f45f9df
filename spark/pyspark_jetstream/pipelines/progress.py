"""Lines that say how far a run is, for whatever takes longer than two seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

QUIET = 2.0
"""Seconds during which nothing is printed, at the begin and after each line."""


class Progress:
    """Prints at most one line in two seconds, and none for what is done before.

    Args:
        name: The pipeline, which begins each line.
        out: Where lines go.
        now: Seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        name: str,
        out: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._out, self._now = name, out or sys.stderr, now
        self._begun = self._told = now()
        self._lock = threading.Lock()
        self.rows = 0

    @property
    def seconds(self) -> float:
        """How long the run takes so far."""
        return self._now() - self._begun

    def tell(self, text: str) -> None:
        """Say how many rows are done, and what else is to be known, if it is time to."""
        with self._lock:
            now = self._now()
            if now - self._told < QUIET:
                return
            self._told = now
        rate = self.rows / max(now - self._begun, 0.001)
        line = f"{self._name}: {self.rows:,} messages, {rate:,.0f} a second; {text}"
        print(line, file=self._out, flush=True)

    @contextmanager
    def during(
        self, text: Callable[[], str], last: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Say every two seconds what a step is at that takes long.

        Args:
            text: What it is at.
            last: Is called at the end, in the thread in which `text` was.
        """
        over = threading.Event()

        def speak() -> None:
            while not over.wait(QUIET):
                self.tell(text())
            last()

        speaker = threading.Thread(target=speak, name=f"progress-{self._name}", daemon=True)
        speaker.start()
        try:
            yield
        finally:
            over.set()
            speaker.join()
