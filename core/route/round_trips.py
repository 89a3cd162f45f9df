"""Counts the PINGs and PONGs of one route. A PONG proves that the other server has read the PING.

It has then read everything that was sent before the PING, too.
"""

from __future__ import annotations

import asyncio


class RoundTrips:
    """The numbers of PINGs sent and PONGs received on one route."""

    def __init__(self) -> None:
        self._pings = self._pongs = 0
        self._changed = asyncio.Event()
        self._has_ended = False

    def asked(self) -> int:
        """Count a PING that is sent; return its number, for `answer`."""
        self._pings += 1
        return self._pings

    def answered(self) -> None:
        """Count a received PONG, and wake the callers of `answer`."""
        self._pongs += 1
        self._wake_waiters()

    def end(self) -> None:
        """Wake all callers of `answer`, because the route has ended."""
        self._has_ended = True
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, number: int) -> None:
        """Wait until the PING with this number is answered or the route ends."""
        while self._pongs < number and not self._has_ended:
            await self._changed.wait()
