"""The in-process link: client and server session in one process, without a socket.

The session belongs to a higher layer, so the caller passes the function that creates it.
"""

from collections.abc import Callable

from core.client.link import Closed, Connector, Link, Receive


def attach(factory: Callable[[Receive, Closed], Link]) -> Connector:
    """Return a connector that opens server sessions in this process by calling `factory`."""

    async def connect(receive: Receive, closed: Closed) -> Link:
        return factory(receive, closed)

    return connect
