"""Closes a connection whose client does not read the output."""

import asyncio

from core.runtime.sockets import untaken


class WriteTimeout:
    """Aborts a transport if its client reads no byte for `seconds` seconds while output waits."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._untaken = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timeout if output is waiting."""
        self.stop()
        if self._transport.get_write_buffer_size():
            self._untaken = untaken(self._transport)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._check)

    def stop(self) -> None:
        """Stop the timeout, because writing has resumed or the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if untaken(self._transport) < self._untaken:
            self.start()
        else:
            self._transport.abort()
