"""PINGs and PONGs of one link, counted: what the peer has read by now."""

from __future__ import annotations

import asyncio


class RoundTrips:
    """Tells when a PING was answered: the peer has read all that was sent before it."""

    def __init__(self) -> None:
        self._pings = self._pongs = 0
        self._changed = asyncio.Event()
        self._has_ended = False

    def asked(self) -> int:
        """Note a PING; return its number."""
        self._pings += 1
        return self._pings

    def answered(self) -> None:
        """Note a PONG."""
        self._pongs += 1
        self._tell()

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
