"""Detection of a client that disconnects before anything is read from it.

ASGI reports a disconnect only to a reader of the body, which the authenticator is not. If the
protocol puts no set of callbacks into the scope, there is no notification.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Scope

ON_DISCONNECT = "jetgate.on_disconnect"
"""The scope key of the set of functions that are called when the connection has ended."""

Callbacks = set[Callable[[], None]]


class Disconnected(Exception):
    """The client has disconnected; no response is possible."""


@contextmanager
def on_disconnect(scope: Scope, call: Callable[[], None]) -> Iterator[None]:
    """Register a callback for the end of a scope's connection, within the block."""
    calls: Callbacks = scope.get(ON_DISCONNECT, set())
    calls.add(call)
    try:
        yield
    finally:
        calls.discard(call)


def notify(calls: Callbacks) -> None:
    """Call all callbacks, since the connection has ended."""
    for call in list(calls):
        call()
