"""Notification of a client's disconnect without reading its request body.

ASGI reports a disconnect only to code that reads the body, which authentication does not. If the
scope has no set of callbacks, because another server runs the application, no notification happens.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Scope

ON_DISCONNECT = "jetgate.on_disconnect"
"""The ASGI scope key for the set of functions that are called when the connection has ended."""

Callbacks = set[Callable[[], None]]


class Disconnected(Exception):
    """The client has disconnected, so no response can be sent."""


@contextmanager
def on_disconnect(scope: Scope, call: Callable[[], None]) -> Iterator[None]:
    """While the block runs, call `call` if the connection of the scope ends."""
    calls: Callbacks = scope.get(ON_DISCONNECT, set())
    calls.add(call)
    try:
        yield
    finally:
        calls.discard(call)


def notify(calls: Callbacks) -> None:
    """Call all callbacks, because the connection has ended."""
    for call in list(calls):
        call()
