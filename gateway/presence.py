"""Whether the caller of a request or handshake is still there, before anything is read of it.

ASGI tells the end of a connection to who asks for the body, and of that the door knows nothing.
Where the protocol puts no set of calls into the scope, nobody is told.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Scope

ON_GONE = "jetgate.on_gone"
"""The key of a scope for what is called when its connection has ended: a set of functions."""

Calls = set[Callable[[], None]]


@contextmanager
def told_of_end(scope: Scope, call: Callable[[], None]) -> Iterator[None]:
    """Have `call` called when the connection of a scope ends, while the block lasts."""
    calls: Calls = scope.get(ON_GONE, set())
    calls.add(call)
    try:
        yield
    finally:
        calls.discard(call)


def tell(calls: Calls) -> None:
    """Call everything: the connection has ended."""
    for call in list(calls):
        call()
