"""The health of PostgreSQL, as the parts of this process that use it report it; the log of outages.

Each part reports a failure under a name (`failed`), and later that its work succeeds again
(`works`). An outage lasts from the first failure until no failure is left. The log gets a line when
an outage begins, one every ten seconds, and one with the length when it ends.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from core.runtime.clock import Clock
from core.storage.acknowledged import Acknowledged
from core.storage.database_time import DatabaseTime
from core.units import NANOS_PER_SECOND, Nanos

log = logging.getLogger(__name__)
waits = logging.getLogger(f"{__name__}.waits")
"""Logger for work that is retried because PostgreSQL is unavailable (filter:
`StorageHealth.may_log`).
"""

REMINDER_S = 10.0
_HISTORY_MAX, _CAUSE_MAX = 30, 200

# The names of failures, for `failed` and `works`.
SESSION = "session"  # the session that holds the leases, or waits for them
COMMITS = "commits"  # commits of published messages
SPACE = "space"  # disk space for published messages


@dataclass(frozen=True, slots=True)
class Outage:
    """A period in which storage failed: PostgreSQL was unavailable, or its disk was full.

    Attributes:
        began: Begin, in seconds since the Unix epoch, by the database's clock.
        seconds: Length in seconds; None while it lasts.
        cause: Text of the first failure, at most 200 characters.
    """

    began: float
    seconds: float | None
    cause: str


class StorageHealth:
    """The known failures and the outages of storage, for the life of a process.

    Attributes:
        outages: Number of outages, the present one included.
        last_commit: Local monotonic time of the last commit of messages, in nanoseconds; 0 if there
            was none.
        acknowledged: The sequences acknowledged to clients, to detect a database that lost some.
        history: The newest 30 outages, oldest first, the present one included.
        time: The estimate of the database's time.
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
        self._passed = 0  # nanoseconds of all ended outages
        self._reminder: asyncio.TimerHandle | None = None
        self._waits: dict[str, tuple[Nanos, Nanos]] = {}

    @property
    def is_up(self) -> bool:
        """True if no failure is recorded: there is no outage at present."""
        return not self._troubles

    @property
    def trouble(self) -> str:
        """Text of the oldest failure that is recorded now; empty if storage works."""
        return next(iter(self._troubles.values()), "")

    def fails(self, what: str) -> bool:
        """Return whether a failure is recorded under a name, such as `COMMITS`."""
        return what in self._troubles

    def outage_seconds(self) -> float:
        """Return the total length of all outages, in seconds, the present one included."""
        present = self._clock.monotonic() - self._began if self._troubles else 0
        return (self._passed + present) / NANOS_PER_SECOND

    def failed(self, what: str, why: str) -> None:
        """Record a failure with the name `what` and the cause `why`.

        Begin an outage unless one lasts.
        """
        is_first = not self._troubles
        self._troubles.setdefault(what, " ".join(why.split()))
        if is_first:
            self.outages += 1
            self._began = self._clock.monotonic()
            began = Outage(self.time.now() / NANOS_PER_SECOND, None, self.trouble[:_CAUSE_MAX])
            self.history = (*self.history, began)[-_HISTORY_MAX:]
            log.error("storage outage begins: %s", self.trouble)
            self._remind_later()

    def works(self, what: str) -> None:
        """Clear the failure with the name `what`.

        End the outage if no other failure is recorded.
        """
        if self._troubles.pop(what, None) is None or self._troubles:
            return
        length = self._clock.monotonic() - self._began
        self._passed += length
        present = replace(self.history[-1], seconds=length / NANOS_PER_SECOND)
        self.history = (*self.history[:-1], present)
        self._waits.clear()
        self.close()
        log.warning("storage outage ends after %.1f s", length / NANOS_PER_SECOND)

    def committed(self) -> None:
        """Record that messages were committed; clear the failures of commits and of disk space."""
        self.last_commit = self._clock.monotonic()
        if self._troubles:
            self.works(COMMITS)
            self.works(SPACE)

    def slow(self, what: str, seconds: float, why: str) -> Callable[[], None]:
        """Start a timer that records a failure after `seconds`.

        Return the function that cancels it.
        """
        return asyncio.get_running_loop().call_later(seconds, self.failed, what, why).cancel

    def may_log(self, record: logging.LogRecord) -> bool:
        """Return whether a record of the logger `waits` is written (used as its logging filter).

        During an outage no record is written, since outages have log lines of their own. Otherwise
        work that keeps failing gets one line every ten seconds. Records are the same work if they
        have the same message and arguments; the last argument, the error, is ignored.
        """
        now, arguments = self._clock.monotonic(), record.args
        what = f"{record.msg} {arguments[:-1] if isinstance(arguments, tuple) else arguments}"
        first, last = self._waits.get(what, (now, now))
        if now - last > REMINDER_S * NANOS_PER_SECOND:
            first = now
        is_due = self.is_up and now - first >= REMINDER_S * NANOS_PER_SECOND
        self._waits[what] = (now if is_due else first), now
        return is_due

    def close(self) -> None:
        """Cancel the timer that logs a running outage every ten seconds."""
        if self._reminder is not None:
            self._reminder.cancel()
            self._reminder = None

    def _remind_later(self) -> None:
        self._reminder = asyncio.get_running_loop().call_later(REMINDER_S, self._remind)

    def _remind(self) -> None:
        passed = (self._clock.monotonic() - self._began) / NANOS_PER_SECOND
        log.error("storage outage lasts for %.0f s: %s", passed, self.trouble)
        self._remind_later()
