"""The servers of the comparison with nats-server (`python -m bench`): how each is started."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.empty import EmptyRoute
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

Peer = NatsServer | JetgateServer | EmptyRoute
WEBSOCKET = "{ port: -1, no_tls: true }"

NAMES = ("nats", "always", "jetgate", "empty")


def build(name: str) -> Peer:
    """Return the server of a name, without starting it.

    Names: `nats`, `always` (nats-server with fsync before each ack), `jetgate`, or `empty` (an HTTP
    server whose route does nothing).
    """
    if name == "jetgate":
        return JetgateServer()
    if name == "empty":
        return EmptyRoute()
    jetstream: dict[str, str | int | bool] = {"sync_interval": "always"} if name == "always" else {}
    return NatsServer({"websocket": WEBSOCKET}, jetstream=jetstream)


@contextmanager
def started(names: tuple[str, ...]) -> Iterator[dict[str, Peer]]:
    """Start the named servers and stop them at the end."""
    with ExitStack() as stack:
        peers = {name: build(name) for name in names}
        for peer in peers.values():
            stack.enter_context(peer)
        yield peers
