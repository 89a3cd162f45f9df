"""The PINGs of one link: when the next one is due, and what its answer says."""

from __future__ import annotations

import asyncio

from core.pubsub.server import Hub

_SECOND = 1_000_000_000


class Pinging:
    """Counts PINGs and PONGs.

    Args:
        hub: its limits say how often clients are asked.
        most_s: seconds between two PINGs at most.

    Attributes:
        rtt: of the last answer, nanoseconds; 0: not measured yet.
        unanswered: PINGs since the last answer.
    """

    def __init__(self, hub: Hub, most_s: float) -> None:
        self.rtt = 0
        self.unanswered = 0
        self._hub = hub
        self._most_s = most_s
        self._due = self._asked = hub.clock.monotonic()
        self._pings = self._pongs = 0
        self._changed = asyncio.Event()
        self._has_ended = False

    def is_due(self, now: int) -> bool:
        """Whether it is time for the next one."""
        return now >= self._due

    def asked(self) -> int:
        """Note a PING; return its number."""
        interval = min(self._hub.limits.ping_interval, self._most_s)
        self._asked = self._hub.clock.monotonic()
        self._due = self._asked + int(interval * _SECOND)
        self.unanswered += 1
        self._pings += 1
        return self._pings

    def answered(self) -> None:
        """Note a PONG, and measure the round trip."""
        self.unanswered = 0
        self._pongs += 1
        self._tell()
        if self._asked:
            self.rtt = max(self._hub.clock.monotonic() - self._asked, 1)
            self._asked = 0

    def end(self) -> None:
        """Nothing is answered any more."""
        self._has_ended = True
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, number: int) -> None:
        """Return when that PING was answered, or nothing will be."""
        while self._pongs < number and not self._has_ended:
            await self._changed.wait()
