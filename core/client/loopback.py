"""The in-process link: client and session of a node in one process, without a socket.

The session belongs to a higher layer, so the caller passes its factory.
"""

from collections.abc import Callable

from core.client.link import Closed, Connector, Link, Receive


def attach(factory: Callable[[Receive, Closed], Link]) -> Connector:
    """Return a connector that opens sessions of a node in this process with `factory`."""

    async def connect(receive: Receive, closed: Closed) -> Link:
        return factory(receive, closed)

    return connect
