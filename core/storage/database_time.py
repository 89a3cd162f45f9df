"""The time of the database, as a node estimates it: a monotonic clock plus an offset. No I/O.

The wall clocks of nodes that lead a stream in turn may differ by an hour. Times that are stored, or
compared with stored times, therefore come from the clock of the database. Each heartbeat reads that
clock. The reading was taken at some moment of the round trip:

    `sent` ------ `told`, by the database ------ `received`      (sent, received: monotonic)

The offset lies between `told - received` and `told - sent`. The midpoint is wrong by at most half
the round trip. Of the last readings the most exact one counts, so a slow answer changes nothing.
The node's own wall clock is not used, so setting it does no harm.

A leader uses a `DatabaseClock`, which follows the estimate without jumps and never runs backwards
(docs/decisions/0021-follow-the-database-clock-slowly.md).
"""

import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND, Nanos

log = logging.getLogger(__name__)

READINGS_MAX: Final = 16
"""Number of readings compared; each heartbeat adds one."""
DRIFT_PPM: Final = 100
"""Assumed drift between two quartz clocks, in parts per million: a reading loses accuracy with
age.
"""
TOLERATED: Final = NANOS_PER_SECOND
"""Difference of two clocks above which the log warns, in nanoseconds."""
SLEW: Final = 10
"""Divisor of the slew rate: a leader's clock gains or loses at most 1/10 of the elapsed time."""
_STEP_MAX = NANOS_PER_SECOND // SLEW


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the database clock. All three values are in nanoseconds.

    Attributes:
        sent: Local monotonic time at which the query was sent.
        `told`: Time of the database, since the Unix epoch.
        received: Local monotonic time at which the answer arrived.
    """

    sent: Nanos
    told: Nanos
    received: Nanos

    @property
    def offset(self) -> int:
        """Estimate of the database's time minus the local monotonic clock, in nanoseconds."""
        return self.told - (self.sent + self.received) // 2

    def error(self, now: Nanos) -> int:
        """Return the largest error of `offset` at the monotonic time `now`, in nanoseconds.

        It is half the round trip, plus 100 ppm of the time since the reading for the drift of
        clocks.
        """
        return (self.received - self.sent + 1) // 2 + (now - self.received) * DRIFT_PPM // 1_000_000

    def contradicts(self, other: "Reading") -> bool:
        """Return whether the offsets of two readings differ by more than their errors.

        Then the database clock was set, or another server has become the primary.
        """
        apart = abs(self.offset - other.offset)
        return apart > self.error(self.received) + other.error(self.received)


class DatabaseTime:
    """Estimates the offset between the database clock and this machine's clocks.

    Args:
        clock: The clock of this machine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readings: deque[Reading] = deque(maxlen=READINGS_MAX)
        self._is_told = False

    @property
    def is_known(self) -> bool:
        """True once the database clock has been read at least once."""
        return bool(self._readings)

    @property
    def offset(self) -> int:
        """The database's time minus the local monotonic clock, in nanoseconds.

        Requires `is_known`.
        """
        return self._best().offset

    @property
    def error(self) -> int:
        """Largest possible error of `offset`, in nanoseconds. Requires `is_known`."""
        return self._best().error(self._clock.monotonic())

    @property
    def ahead(self) -> float:
        """Local wall clock minus database clock, in seconds (positive: the wall clock is ahead).

        Requires `is_known`.
        """
        return (self._clock.now() - self._clock.monotonic() - self.offset) / NANOS_PER_SECOND

    def now(self) -> Nanos:
        """Return the estimated time of the database in nanoseconds since the Unix epoch.

        It may jump.

        Before the first reading: the time of the local wall clock.
        """
        if not self.is_known:
            return self._clock.now()
        return Nanos(self._clock.monotonic() + self.offset)

    def answered(self, sent: Nanos, told: Nanos) -> None:
        """Add a reading of the database clock.

        Args:
            sent: Local monotonic time at which the query was sent, in nanoseconds.
            `told`: Time of the database in the answer, in nanoseconds since the Unix epoch.
        """
        reading = Reading(sent, told, self._clock.monotonic())
        # Readings that contradict the new one are of a clock that was set, or of a former primary.
        kept = [each for each in self._readings if not reading.contradicts(each)]
        self._readings.clear()
        self._readings.extend((*kept, reading))
        self._warn(self.ahead)

    def _best(self) -> Reading:
        now = self._clock.monotonic()
        return min(self._readings, key=lambda each: each.error(now))

    def _warn(self, ahead: float) -> None:
        """Log a wrong wall clock once, until the error falls below half of `TOLERATED`."""
        if abs(ahead) * NANOS_PER_SECOND > TOLERATED:
            if not self._is_told:
                side = "ahead of" if ahead > 0 else "behind"
                log.warning(
                    "the clock of this machine is %.1f s %s PostgreSQL's, which messages go by",
                    *(abs(ahead), side),
                )
            self._is_told = True
        elif abs(ahead) * NANOS_PER_SECOND < TOLERATED // 2:
            self._is_told = False


class DatabaseClock:
    """The clock of a leader: the time of the database, without jumps, never backwards.

    The clock starts at the measured time and slews towards later measurements by at most a tenth of
    the elapsed time. An hour of this clock lasts between 54 and 66 minutes, however the clock of
    the database is set. The one exception: if the local wall clock has gone forward by the same
    amount, the machine was suspended and its monotonic clock stood still; then the clock steps at
    once.

    Args:
        clock: The clock of this machine.
        time: The estimate of the database's time. Must be known.
    """

    def __init__(self, clock: Clock, time: DatabaseTime) -> None:
        self.monotonic = clock.monotonic
        self._machine = clock
        self._time = time
        self._offset = time.offset
        self._floor = 0
        self._followed = clock.monotonic()
        self._ahead = self._machine_ahead()
        self._is_told = False

    def now(self) -> Nanos:
        """Return the time of the database, in nanoseconds since the Unix epoch."""
        now = self.monotonic() + self._offset
        # `Nanos(...)` would be one more call for each ack.
        return now if now > self._floor else self._floor  # type: ignore[return-value]

    @property
    def behind(self) -> int:
        """Estimated database time minus this clock, in nanoseconds (positive: this clock lags)."""
        return self._time.offset - self._offset

    def follow(self) -> None:
        """Move this clock towards the newest estimate of the database's time.

        Called after each heartbeat.

        It moves by at most a tenth of the time since the last call, and at most 0.1 s.
        """
        behind, now = self.behind, self.monotonic()
        most = min((now - self._followed) // SLEW, _STEP_MAX)
        self._followed = now
        if behind > TOLERATED and abs(self._machine_ahead() - self._ahead - behind) < TOLERATED:
            most = behind
            log.warning("%.1f s have passed while this machine slept", behind / NANOS_PER_SECOND)
        else:
            self._warn(behind)
        step = max(-most, min(most, behind))
        self._floor = self.now()
        self._offset += step
        if abs(self.behind) <= TOLERATED:
            self._ahead = self._machine_ahead()

    def _machine_ahead(self) -> int:
        return self._machine.now() - self.monotonic() - self._offset

    def _warn(self, behind: int) -> None:
        if abs(behind) > TOLERATED:
            if not self._is_told:
                log.warning(
                    "the clock of PostgreSQL went %s by %.1f s; messages follow it slowly",
                    *("forward" if behind > 0 else "back", abs(behind) / NANOS_PER_SECOND),
                )
            self._is_told = True
        elif abs(behind) < TOLERATED // 2:
            self._is_told = False
