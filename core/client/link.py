"""What the client needs from a transport: bytes in, bytes out, and the news that it ended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

# How long the end of a connection may take.
_FAREWELL_S = 1.0

Receive = Callable[[bytes], None]
"""Called with whatever arrived; chunk borders mean nothing."""

Closed = Callable[[Exception | None], None]
"""Called once when the link is gone, with the reason if there is one."""


class Link(Protocol):
    """One open connection to a server."""

    @property
    def paused(self) -> bool:
        """True while the peer takes bytes more slowly than they are written."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes, in order; never blocks."""
        ...

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Receive again."""
        ...

    def abort(self) -> None:
        """End the link at once: the peer does not answer, so it may not take anything either."""
        ...

    def close(self) -> None:
        """Send what was written and end the link; `closed` is called afterwards."""
        ...


Connector = Callable[[Receive, Closed], Awaitable[Link]]
"""Opens a link. Raises OSError when nobody listens."""


async def farewell(link: Link, ended: asyncio.Event) -> None:
    """Send what was written and end a link; return when `ended`, which `closed` has to set.

    TLS takes leave of its peer first; a peer that does not answer is cut off.
    """
    link.close()
    try:
        async with asyncio.timeout(_FAREWELL_S):
            await ended.wait()
    except TimeoutError:
        link.abort()
