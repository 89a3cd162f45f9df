"""The timer of a stream whose messages expire by age: `max_age`, or TTLs of their own (ADR-43)."""

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
    from core.runtime.clock import Clock
    from core.stream.machine import StreamMachine


class ExpiryTimer:
    """Has the limits of one stream enforced whenever its next message comes of age.

    Args:
        log: The log of the stream.
        clock: The time.
        janitor: Lets expiry go before the deletion of rows.
        enforce: Enforces the limits. Raises ApiError while storage is away.
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
        """Make sure that the timer waits for the message that comes of age first."""
        expiry = self._log.machine.expiry
        if self._is_expiring or (self._timer.is_armed and expiry is None):
            return
        due = self._next_due()
        if due:
            self._timer.arm(due)

    def _next_due(self) -> int:
        """Return when the next message comes of age, nanoseconds (0: none does)."""
        machine = self._log.machine
        expiry = machine.expiry
        return expiry.next_due() if expiry is not None else _oldest_due(machine)

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._timer.cancel()

    async def trim(self) -> None:
        """Enforce the limits of the stream, or have that wait for the next publish or timer."""
        try:
            await self._enforce()
        except ApiError as error:
            self._timer.failed()
            if not self._log.closed:
                waits.warning("expiry of stream %s waits: %s", self._log.name, error)
        if not self._log.closed:
            self.stop()  # It may wait for another `max_age` than there is now.
            self.watch()

    def _come_of_age(self) -> None:
        """Expire what is due; a message that is gone by now costs no transaction."""
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
    """Return when the oldest message of a stream reaches its `max_age` (0: never)."""
    if not machine.max_age or not machine.msgs:
        return 0
    oldest = next((ts for _, _, _, ts in machine.oldest), machine.last_ts)
    if not machine.oldest and machine.oldest.upto < machine.last_seq:
        oldest = 0
    return oldest + machine.max_age
