"""The time of the database, as a node knows it: its monotonic clock plus an offset. No I/O.

Streams are led now by one node and now by another, whose own clocks may be an hour apart. So
whatever is stored, or compared with what is stored, goes by the clock of the database. Each
heartbeat asks for it. What it answers was true at some moment of the round trip:

    sent -------- told by the database -------- received          (sent, received: monotonic)

so the offset lies between `told - received` and `told - sent`, and the middle is wrong by half the
round trip at most. Of the last readings the most exact one counts: a slow answer changes nothing.
A node's own wall clock is never used, so nobody who sets it does any harm.

A leader follows with a `DatabaseClock`, which neither jumps nor runs backwards
(docs/decisions/0025-the-time-of-the-database.md).
"""

import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

from core.runtime.clock import Clock

log = logging.getLogger("jetgate.storage")

_SECOND = 1_000_000_000
KEPT: Final = 16
"""Readings that are compared, one a heartbeat."""
DRIFT_PPM: Final = 100
"""How much a reading loses with age: two clocks of quartz differ by less."""
TOLERATED: Final = _SECOND
"""What two clocks may differ by before the log says so; nanoseconds."""
SLEW: Final = 10
"""A leader's clock gains or loses at most one part in so many."""
_STEP_MAX = _SECOND // SLEW


@dataclass(frozen=True, slots=True)
class Reading:
    """What the database said its time was: `told`, of the Unix epoch. Nanoseconds.

    `sent` and `received` are when it was asked and had answered, by the monotonic clock.
    """

    sent: int
    told: int
    received: int

    @property
    def offset(self) -> int:
        """The likeliest difference between the database's time and the monotonic clock."""
        return self.told - (self.sent + self.received) // 2

    def error(self, now: int) -> int:
        """How wrong `offset` may be at a monotonic time."""
        return (self.received - self.sent + 1) // 2 + (now - self.received) * DRIFT_PPM // 1_000_000

    def contradicts(self, other: "Reading") -> bool:
        """Whether both cannot be true of one clock; this is the later one."""
        apart = abs(self.offset - other.offset)
        return apart > self.error(self.received) + other.error(self.received)


class DatabaseTime:
    """How the clocks of a process stand to the database's, from its start to its end.

    Args:
        clock: the machine's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readings: deque[Reading] = deque(maxlen=KEPT)
        self._is_told = False

    @property
    def is_known(self) -> bool:
        """Whether the database has been asked yet."""
        return bool(self._readings)

    @property
    def offset(self) -> int:
        """The database's time minus the monotonic clock, nanoseconds. It `is_known`."""
        return self._best().offset

    @property
    def error(self) -> int:
        """How wrong `offset` may be, nanoseconds."""
        return self._best().error(self._clock.monotonic())

    @property
    def ahead(self) -> float:
        """What the machine's wall clock is ahead of the database's, seconds. It `is_known`."""
        return (self._clock.now() - self._clock.monotonic() - self.offset) / _SECOND

    def now(self) -> int:
        """The database's time as far as it is known, else the machine's. It may jump."""
        return self._clock.monotonic() + self.offset if self.is_known else self._clock.now()

    def answered(self, sent: int, told: int) -> None:
        """Take what the database says its time is; it was asked at `sent`."""
        reading = Reading(sent, told, self._clock.monotonic())
        # The clock of the database was set, or another server has been promoted.
        kept = [each for each in self._readings if not reading.contradicts(each)]
        self._readings.clear()
        self._readings.extend((*kept, reading))
        self._warn(self.ahead)

    def _best(self) -> Reading:
        now = self._clock.monotonic()
        return min(self._readings, key=lambda each: each.error(now))

    def _warn(self, ahead: float) -> None:
        """Log a clock that is wrong, once until it is right again."""
        if abs(ahead) * _SECOND > TOLERATED:
            if not self._is_told:
                side = "ahead of" if ahead > 0 else "behind"
                log.warning(
                    "the clock of this machine is %.1f s %s PostgreSQL's, which messages go by",
                    *(abs(ahead), side),
                )
            self._is_told = True
        elif abs(ahead) * _SECOND < TOLERATED // 2:
            self._is_told = False


class DatabaseClock:
    """The clock of a leader: the database's time, never backwards, never with a jump.

    It begins with what was measured and follows later measurements by a tenth of the time that
    passes: whatever happens to the clock of the database, an hour of this one lasts between 54 and
    66 minutes. Only where the machine's own wall clock has gone forward by as much does it follow
    at once: then the machine has slept, and its monotonic clock has missed that time.

    Args:
        clock: the machine's.
        time: what is known of the database's.
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

    def now(self) -> int:
        """The database's time, nanoseconds since the Unix epoch."""
        now = self.monotonic() + self._offset
        return now if now > self._floor else self._floor

    @property
    def behind(self) -> int:
        """What the database's time is ahead of this clock, nanoseconds."""
        return self._time.offset - self._offset

    def follow(self) -> None:
        """Take what was measured last, as far as the time since the last call allows."""
        behind, now = self.behind, self.monotonic()
        most = min((now - self._followed) // SLEW, _STEP_MAX)
        self._followed = now
        if behind > TOLERATED and abs(self._machine_ahead() - self._ahead - behind) < TOLERATED:
            most = behind
            log.warning("%.1f s have passed while this machine slept", behind / _SECOND)
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
                    *("forward" if behind > 0 else "back", abs(behind) / _SECOND),
                )
            self._is_told = True
        elif abs(behind) < TOLERATED // 2:
            self._is_told = False
