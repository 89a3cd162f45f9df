"""The servers that are compared, started as in the tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

Peer = NatsServer | JetgateServer

NAMES = ("nats", "always", "jetgate")


def build(name: str) -> Peer:
    """Return a server, not started: `nats`, `always` (fsync before each ack) or `jetgate`."""
    if name == "jetgate":
        return JetgateServer()
    return NatsServer(jetstream={"sync_interval": "always"} if name == "always" else None)


@contextmanager
def started(names: tuple[str, ...]) -> Iterator[dict[str, Peer]]:
    """Start the named servers and stop them at the end."""
    with ExitStack() as stack:
        peers = {name: build(name) for name in names}
        for peer in peers.values():
            stack.enter_context(peer)
        yield peers
