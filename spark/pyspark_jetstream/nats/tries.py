"""Trying again what a broken connection, or a server that is away, has made fail."""

from collections.abc import Callable

from pyspark_jetstream.nats.deadline import pause
from pyspark_jetstream.nats.settings import Settings

_FIRST = 0.2
_LONGEST = 5.0


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
        settings: How often something is tried.
        wait: Waits so many seconds, less where it is told to end.
    """

    def __init__(self, settings: Settings, wait: Callable[[float], object] | None = None) -> None:
        self._settings = settings
        self._wait = wait
        self.failed = 0

    def restart(self) -> None:
        """Something was achieved."""
        self.failed = 0

    def again(self) -> bool:
        """Wait before the next try; False, at once, when there were enough."""
        self.failed += 1
        if self.failed > self._settings.retries:
            return False
        (self._wait or pause)(pauses(self.failed))
        return True
