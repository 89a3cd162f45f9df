"""Retries after a connection broke or while a server is unavailable: number and pauses."""

from collections.abc import Callable

from pyspark_jetstream.nats.deadline import Deadline, pause
from pyspark_jetstream.nats.settings import Settings

_FIRST = 0.2
_LONGEST = 5.0
_LEAST = 1.0
"""Least time limit of one connection in seconds, even if less of the timeout remains."""


def pauses(failed: int) -> float:
    """Return the pause in seconds after `failed` consecutive failures.

    It is 0.2 after the first, doubles with each failure, and is at most 5.
    """
    return _LONGEST if failed > 10 else min(_LONGEST, _FIRST * 2.0 ** (failed - 1))


def tries_within(seconds: float) -> int:
    """Return the number of retries whose pauses together last at least `seconds`."""
    tries, waited = 0, 0.0
    while waited < seconds:
        tries += 1
        waited += pauses(tries)
    return tries


class Tries:
    """Counter of consecutive failures, with growing pauses between attempts.

    Call `left` before each attempt, `again` after a failure, `restart` after progress.

    Args:
        settings: Limits of attempts (`retries`) and of time (`reconnect_limit`).
        wait: Waits for a number of seconds, or less if interrupted; None sleeps.
    """

    def __init__(self, settings: Settings, wait: Callable[[float], object] | None = None) -> None:
        self._settings = settings
        self._wait = wait
        self._deadline: Deadline | None = None
        self.failed = 0

    def restart(self) -> None:
        """Reset the number of failures and the deadline, after progress."""
        self.failed = 0
        self._deadline = None

    def left(self) -> float:
        """Return the time limit of the next connection in seconds.

        It is the rest of `reconnect_limit`, counted from the first attempt since the last progress.
        It is at least one second, or `reconnect_limit` if that is less.
        """
        deadline = self._begun()
        return max(deadline.left(), min(_LEAST, self._settings.reconnect_limit))

    def again(self) -> bool:
        """Count a failure and wait before the next attempt.

        Returns False at once if the limit of attempts or of time is reached.
        """
        self.failed += 1
        left = self._begun().left()
        if self.failed > self._settings.retries or not left:
            return False
        (self._wait or pause)(min(pauses(self.failed), left))
        return True

    def _begun(self) -> Deadline:
        if self._deadline is None:
            self._deadline = Deadline(self._settings.reconnect_limit)
        return self._deadline
