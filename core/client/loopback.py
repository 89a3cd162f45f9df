"""The in-process link: client and session of a node in one process, without a socket.

The session belongs to a layer above this one, so its factory is passed in.
"""

from collections.abc import Callable

from core.client.link import Closed, Connector, Link, Receive


def attach(factory: Callable[[Receive, Closed], Link]) -> Connector:
    """Return a connector over a factory that opens a session of a node in this process."""

    async def connect(receive: Receive, closed: Closed) -> Link:
        return factory(receive, closed)

    return connect
