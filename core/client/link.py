"""The interface between the client and its transport (link): bytes in, bytes out, end of link."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

_CLOSE_TIMEOUT_S = 1.0

Receive = Callable[[bytes], None]
"""Called with the bytes of each read, which may end in the middle of a protocol line."""

Closed = Callable[[Exception | None], None]
"""Called once when the link has ended; the argument is the error, None if there was none."""


class Link(Protocol):
    """One open connection to a server, as a stream of bytes."""

    @property
    def paused(self) -> bool:
        """True while output waits in a buffer, because the server reads too slowly."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes after those of earlier calls. Never blocks: they are buffered."""
        ...

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Read again after `pause_reading`."""
        ...

    def abort(self) -> None:
        """Close the link at once; buffered output is lost."""
        ...

    def close(self) -> None:
        """Write the buffered output, then close the link; the `Closed` callback follows."""
        ...


Connector = Callable[[Receive, Closed], Awaitable[Link]]
"""Opens a link with its two callbacks. Raises OSError if that fails."""


async def close_link(link: Link, ended: asyncio.Event) -> None:
    """Write the buffered output and close a link; wait at most 1 s for `ended`.

    The `Closed` callback of the link must set `ended`. With TLS the close waits for the peer's
    answer. A link whose peer sends none is aborted.
    """
    link.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await ended.wait()
    except TimeoutError:
        link.abort()
