"""The in-process link: the node's own session objects without a socket between.

The node's side lives above this layer, so its factory is passed in by the composition root.
"""

from collections.abc import Callable

from core.client.link import Closed, Connector, Link, Receive


def attach(factory: Callable[[Receive, Closed], Link]) -> Connector:
    """Return a connector over a factory that opens a session of a node in this process."""

    async def connect(receive: Receive, closed: Closed) -> Link:
        return factory(receive, closed)

    return connect
