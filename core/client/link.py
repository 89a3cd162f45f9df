"""The interface between the client and a transport (link): bytes in, bytes out, end of the link."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

_CLOSE_TIMEOUT_S = 1.0

Receive = Callable[[bytes], None]
"""Called with the bytes of each read, which may begin and end anywhere in the protocol."""

Closed = Callable[[Exception | None], None]
"""Called once when the link has ended, with the error if there was one."""


class Link(Protocol):
    """One open connection to a server."""

    @property
    def paused(self) -> bool:
        """True while the peer reads more slowly than this side writes."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes, in order. Never blocks."""
        ...

    def pause_reading(self) -> None:
        """Pause reading until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Resume reading."""
        ...

    def abort(self) -> None:
        """Close the link at once; buffered output is lost."""
        ...

    def close(self) -> None:
        """Write the buffered output and close the link; `closed` is called afterwards."""
        ...


Connector = Callable[[Receive, Closed], Awaitable[Link]]
"""Opens a link. Raises OSError if that fails."""


async def close_link(link: Link, ended: asyncio.Event) -> None:
    """Write the buffered output and close a link; wait for `ended`, which `closed` has to set.

    Closing TLS waits for the peer's answer. A link whose peer sends none is aborted after
    `_CLOSE_TIMEOUT_S`.
    """
    link.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await ended.wait()
    except TimeoutError:
        link.abort()
