"""The timer of a stream whose messages expire: by `max_age`, or by TTLs of their own (ADR-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.jetstream.stream.due_timer import DueTimer
from core.runtime.tasks import spawn
from core.storage.health import waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core.jetstream.janitor import Janitor
    from core.jetstream.log.stream_log import StreamLog
    from core.rules.stream.machine import StreamMachine
    from core.runtime.clock import Clock


class ExpiryTimer:
    """Enforces the limits of one stream whenever its next message expires.

    Args:
        log: The log of the stream.
        clock: The clock.
        janitor: Pauses the background deletion of rows while messages expire.
        enforce: Removes messages that exceed the limits. Raises ApiError while storage is
            unavailable.
    """

    def __init__(
        self,
        log: StreamLog,
        clock: Clock,
        janitor: Janitor,
        enforce: Callable[[], Awaitable[None]],
    ) -> None:
        self._log = log
        self._clock = clock
        self._janitor = janitor
        self._enforce = enforce
        self._timer = DueTimer(clock, self._come_of_age)
        self._is_expiring = False

    def watch(self) -> None:
        """Arm the timer for the time at which the next message expires."""
        expiry = self._log.machine.expiry
        if self._is_expiring or (self._timer.is_armed and expiry is None):
            return
        due = self._next_due()
        if due:
            self._timer.arm(due)

    def _next_due(self) -> int:
        """Return the time at which the next message expires, in nanoseconds since the Unix epoch.

        0: no message expires.
        """
        machine = self._log.machine
        expiry = machine.expiry
        return expiry.next_due() if expiry is not None else _oldest_due(machine)

    def stop(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    async def trim(self) -> None:
        """Remove messages that exceed the stream's limits, then arm the timer again.

        Raises no ApiError: a failure is logged, and the timer retries.
        """
        try:
            await self._enforce()
        except ApiError as error:
            self._timer.failed()
            if not self._log.closed:
                waits.warning("expiry of stream %s waits: %s", self._log.name, error)
        if not self._log.closed:
            self.stop()  # It may be armed for a former `max_age`.
            self.watch()

    def _come_of_age(self) -> None:
        """Start the expiry of due messages; if no message is due any more, arm the timer again."""
        if not 0 < self._next_due() <= self._clock.now():
            self.watch()
        elif not self._log.closed:
            self._is_expiring = True
            self._janitor.begin_expiry(self._log)
            spawn(self._expire(), name=f"expire {self._log.name}")

    async def _expire(self) -> None:
        try:
            await self.trim()
            self._timer.fired()
        finally:
            self._is_expiring = False
            self._janitor.end_expiry(self._log)
        if not self._log.closed:
            self.watch()


def _oldest_due(machine: StreamMachine) -> int:
    """Return the time at which the oldest message reaches `max_age` (0: never).

    In nanoseconds since the Unix epoch. If the oldest message is not in memory, the time is in the
    past, so that the timer fires and the message is read.
    """
    if not machine.max_age or not machine.msgs:
        return 0
    oldest = next((ts for _, _, _, ts in machine.oldest), machine.last_ts)
    if not machine.oldest and machine.oldest.through < machine.last_seq:
        oldest = 0
    return oldest + machine.max_age
