"""Whether storage does its work, as the parts of a process that use it find; outages, their log.

Who meets a trouble says so under the name of what does not work (`failed`), and later that it works
again (`works`). An outage lasts from the first trouble to the end of the last one: a line in the
log when it begins, one every ten seconds while it lasts, and one with its length when it ends.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from core.runtime.clock import Clock
from core.storage.acknowledged import Acknowledged
from core.storage.database_time import DatabaseTime

log = logging.getLogger("jetgate.storage")
waits = logging.getLogger("jetgate.waits")
"""The log of work that failed for want of storage and is tried again and again."""

REMINDER_S = 10.0
_HISTORY_MAX, _CAUSE_MAX = 30, 200
_SECOND = 1_000_000_000

# What can fail, for `failed` and `works`.
SESSION = "session"  # the session that holds the leadership, or waits for it
COMMITS = "commits"  # what clients publish
SPACE = "space"  # room for what clients publish


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which nothing could be stored.

    Attributes:
        began: seconds since the Unix epoch, by the database's clock.
        seconds: how long it was; None: it lasts.
        cause: the first trouble.
    """

    began: float
    seconds: float | None
    cause: str


class StorageHealth:
    """What a process knows of its storage, from its start to its end.

    Attributes:
        outages: how many there were, the present one included.
        last_commit: monotonic nanoseconds when messages were committed last; 0: not yet.
        acknowledged: what clients were told is stored.
        history: the newest outages, the present one included.
        time: how the clocks of this process stand to the database's.
    """

    def __init__(self, clock: Clock) -> None:
        self.outages = 0
        self.last_commit = 0
        self.acknowledged = Acknowledged()
        self.history: tuple[Outage, ...] = ()
        self.time = DatabaseTime(clock)
        self._clock = clock
        self._troubles: dict[str, str] = {}
        self._began = 0
        self._passed = 0  # nanoseconds of outages that are over
        self._reminder: asyncio.TimerHandle | None = None
        self._waits: dict[str, tuple[int, int]] = {}

    @property
    def is_up(self) -> bool:
        """Whether nothing is known to fail."""
        return not self._troubles

    @property
    def trouble(self) -> str:
        """Why nothing can be stored; empty when it can."""
        return next(iter(self._troubles.values()), "")

    def fails(self, what: str) -> bool:
        """Whether this is known to fail."""
        return what in self._troubles

    def outage_seconds(self) -> float:
        """How long storage was away, all outages together."""
        present = self._clock.monotonic() - self._began if self._troubles else 0
        return (self._passed + present) / _SECOND

    def failed(self, what: str, why: str) -> None:
        """Say that something does not work. An outage begins, unless there is one."""
        is_first = not self._troubles
        self._troubles.setdefault(what, " ".join(why.split()))
        if is_first:
            self.outages += 1
            self._began = self._clock.monotonic()
            began = Outage(self.time.now() / _SECOND, None, self.trouble[:_CAUSE_MAX])
            self.history = (*self.history, began)[-_HISTORY_MAX:]
            log.error("storage outage begins: %s", self.trouble)
            self._remind_later()

    def works(self, what: str) -> None:
        """Say that something works. The outage ends if nothing else fails."""
        if self._troubles.pop(what, None) is None or self._troubles:
            return
        length = self._clock.monotonic() - self._began
        self._passed += length
        present = replace(self.history[-1], seconds=length / _SECOND)
        self.history = (*self.history[:-1], present)
        self._waits.clear()
        self.close()
        log.warning("storage outage ends after %.1f s", length / _SECOND)

    def committed(self) -> None:
        """Messages were committed."""
        self.last_commit = self._clock.monotonic()
        if self._troubles:
            self.works(COMMITS)
            self.works(SPACE)

    def slow(self, what: str, seconds: float, why: str) -> Callable[[], None]:
        """Say that something fails unless what is returned is called within so many seconds."""
        return asyncio.get_running_loop().call_later(seconds, self.failed, what, why).cancel

    def may_log(self, record: logging.LogRecord) -> bool:
        """Say whether a line of `waits` is to be logged, as a filter of that logger.

        An outage has its own lines. Without one, work that goes on failing has one each ten
        seconds; its last argument is the error.
        """
        now, arguments = self._clock.monotonic(), record.args
        what = f"{record.msg} {arguments[:-1] if isinstance(arguments, tuple) else arguments}"
        first, last = self._waits.get(what, (now, now))
        if now - last > REMINDER_S * _SECOND:
            first = now
        is_due = self.is_up and now - first >= REMINDER_S * _SECOND
        self._waits[what] = (now if is_due else first), now
        return is_due

    def close(self) -> None:
        """Remind nobody any more."""
        if self._reminder is not None:
            self._reminder.cancel()
            self._reminder = None

    def _remind_later(self) -> None:
        self._reminder = asyncio.get_running_loop().call_later(REMINDER_S, self._remind)

    def _remind(self) -> None:
        passed = (self._clock.monotonic() - self._began) / _SECOND
        log.error("storage outage lasts for %.0f s: %s", passed, self.trouble)
        self._remind_later()
