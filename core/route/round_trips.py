"""The PINGs and PONGs of one link, counted. A PONG proves that the peer has read up to the PING."""

from __future__ import annotations

import asyncio


class RoundTrips:
    """The numbers of PINGs sent and PONGs received."""

    def __init__(self) -> None:
        self._pings = self._pongs = 0
        self._changed = asyncio.Event()
        self._has_ended = False

    def asked(self) -> int:
        """Count a PING; return its number."""
        self._pings += 1
        return self._pings

    def answered(self) -> None:
        """Count a PONG."""
        self._pongs += 1
        self._wake_waiters()

    def end(self) -> None:
        """Wake all waiters, because the link has ended."""
        self._has_ended = True
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, number: int) -> None:
        """Wait until the PING with this number is answered or the link ends."""
        while self._pongs < number and not self._has_ended:
            await self._changed.wait()
