"""Trying again what a broken connection, or a server that is away, has made fail."""

from collections.abc import Callable

from pyspark_jetstream.nats.deadline import Deadline, pause
from pyspark_jetstream.nats.settings import Settings

_FIRST = 0.2
_LONGEST = 5.0
_LEAST = 1.0
"""Seconds that a connection may take, however little is left of the timeout."""


def pauses(failed: int) -> float:
    """Seconds before the next try, after so many in a row have failed."""
    return _LONGEST if failed > 10 else min(_LONGEST, _FIRST * 2.0 ** (failed - 1))


def tries_within(seconds: float) -> int:
    """How many pauses take so long together."""
    tries, waited = 0, 0.0
    while waited < seconds:
        tries += 1
        waited += pauses(tries)
    return tries


class Tries:
    """How often something was tried in vain, with longer and longer pauses.

    Args:
        settings: How often, and for how long, something is tried.
        wait: Waits so many seconds, less where it is told to end.
    """

    def __init__(self, settings: Settings, wait: Callable[[float], object] | None = None) -> None:
        self._settings = settings
        self._wait = wait
        self._deadline: Deadline | None = None
        self.failed = 0

    def restart(self) -> None:
        """Something was achieved."""
        self.failed = 0
        self._deadline = None

    def left(self) -> float:
        """Seconds for the next connection, at least one where the timeout has as many.

        They count from the first connection on that was made since something was achieved.
        """
        deadline = self._begun()
        return max(deadline.left(), min(_LEAST, self._settings.patience))

    def again(self) -> bool:
        """Wait before the next try; False, at once, when there were enough."""
        self.failed += 1
        left = self._begun().left()
        if self.failed > self._settings.retries or not left:
            return False
        (self._wait or pause)(min(pauses(self.failed), left))
        return True

    def _begun(self) -> Deadline:
        if self._deadline is None:
            self._deadline = Deadline(self._settings.patience)
        return self._deadline
