"""The timer of a stream whose messages expire by age: `max_age`, or TTLs of their own (ADR-43)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.runtime.tasks import spawn
from core.storage.health import waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core.jetstream.janitor import Janitor
    from core.jetstream.log.stream_log import StreamLog
    from core.runtime.clock import Clock
    from core.stream.machine import StreamMachine

# The timer is never finer than this (the reference server's granularity).
_STEP_NS = 250_000_000


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
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0
        self._is_expiring = False

    def watch(self) -> None:
        """Make sure that the timer waits for the message that comes of age first."""
        machine = self._log.machine
        expiry = machine.expiry
        if self._is_expiring or (self._handle is not None and expiry is None):
            return
        due = expiry.next_due() if expiry is not None else _oldest_due(machine)
        if not due:
            return
        now = self._clock.now()
        due = max(due, now + _STEP_NS)
        if self._handle is not None:
            if self._due <= due:
                return
            self._handle.cancel()
        self._due = due
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later((due - now) / 1e9, self._come_of_age)

    def stop(self) -> None:
        """Wait for nothing any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    async def trim(self) -> None:
        """Enforce the limits of the stream, or have that wait for the next publish or timer."""
        try:
            await self._enforce()
        except ApiError as error:
            if not self._log.closed:
                waits.warning("expiry of stream %s waits: %s", self._log.name, error)
        if not self._log.closed:
            self.stop()  # It may wait for another `max_age` than there is now.
            self.watch()

    def _come_of_age(self) -> None:
        self._handle = None
        if not self._log.closed:
            self._is_expiring = True
            self._janitor.begin_expiry(self._log)
            spawn(self._expire(), name=f"expire {self._log.name}")

    async def _expire(self) -> None:
        try:
            await self.trim()
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
