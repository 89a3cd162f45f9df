"""Waits between the attempts of a request or feed."""

import asyncio
import random
from dataclasses import dataclass
from math import inf

from jetgate_client.errors import JetgateError, Problem


@dataclass(frozen=True, slots=True)
class Retry:
    """The waits between attempts: they double from `first` to `most` seconds.

    Each wait is shortened by a random part, at most half. A write is repeated for at most
    `writes_for` seconds. This must be well within the duplicate window of the stream (two minutes
    by default), because a later repetition would be stored twice. Feeds and fetches are repeated
    without end.
    """

    first: float = 0.1
    most: float = 5.0
    writes_for: float = 45.0

    def deadline(self) -> float:
        """Return the deadline for writes that start now, in seconds of the event loop's clock."""
        return asyncio.get_running_loop().time() + self.writes_for


class Backoff:
    """The waits between the attempts of one operation."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._bound = retry.first

    def reset(self) -> None:
        """Start again with short waits, after a success."""
        self._bound = self._retry.first

    async def wait(self, error: JetgateError | None = None, *, until: float = inf) -> bool:
        """Wait before the next attempt, at least for `retry_after` of the error; return True.

        Return False at once if the wait would end after `until` (event loop's clock, in seconds).
        """
        bound, self._bound = self._bound, min(self._bound * 2, self._retry.most)
        asked = error.retry_after if isinstance(error, Problem) else 0.0
        pause = max(asked, random.uniform(bound / 2, bound))
        if asyncio.get_running_loop().time() + pause > until:
            return False
        await asyncio.sleep(pause)
        return True
