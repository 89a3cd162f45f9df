"""The interface of a transport (link) to the client: bytes in, bytes out, the end of the link."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

_CLOSE_TIMEOUT_S = 1.0

Receive = Callable[[bytes], None]
"""Called with the bytes of each read; where they are cut means nothing."""

Closed = Callable[[Exception | None], None]
"""Called once when the link has ended, with the error if there was one."""


class Link(Protocol):
    """One open connection to a server."""

    @property
    def paused(self) -> bool:
        """True while the peer reads more slowly than this side writes."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes, in order; never blocks."""
        ...

    def pause_reading(self) -> None:
        """Stop receiving until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Receive again."""
        ...

    def abort(self) -> None:
        """End the link at once, without sending what is still buffered."""
        ...

    def close(self) -> None:
        """Send what was written and end the link; `closed` is called afterwards."""
        ...


Connector = Callable[[Receive, Closed], Awaitable[Link]]
"""Opens a link. Raises OSError when that fails."""


async def close_link(link: Link, ended: asyncio.Event) -> None:
    """Send what was written and end a link; wait for `ended`, which `closed` has to set.

    Closing TLS waits for an answer of the peer; one that does not answer is cut off.
    """
    link.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await ended.wait()
    except TimeoutError:
        link.abort()
