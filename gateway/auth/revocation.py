"""Notification of sockets and streaming responses when an identity loses its rights."""

from collections.abc import Callable
from enum import StrEnum


class Ending(StrEnum):
    """The reason why an identity lost its rights."""

    EXPIRED = "the session has expired"
    SIGNED_OUT = "the session was ended"
    REVOKED = "the server no longer knows these credentials"
    CHANGED = "the permissions of this user have changed"
    CLOSED = "this node no longer serves"


OnEnd = Callable[[Ending], None]


class Endings:
    """Callbacks for the end of an identity's rights; each is called once.

    Attributes:
        reason: The cause, once `end` was called; None before.
    """

    __slots__ = ("_calls", "reason")

    def __init__(self) -> None:
        self._calls: set[OnEnd] = set()
        self.reason: Ending | None = None

    def add(self, call: OnEnd) -> None:
        """Register a callback; call it at once if the end has come already."""
        if self.reason is None:
            self._calls.add(call)
        else:
            call(self.reason)

    def discard(self, call: OnEnd) -> None:
        """Unregister a callback."""
        self._calls.discard(call)

    def tell(self, reason: Ending) -> None:
        """Call and unregister all current callbacks; later ones wait for another call."""
        calls, self._calls = self._calls, set()
        for call in calls:
            call(reason)

    def end(self, reason: Ending) -> None:
        """Call all current callbacks with this reason, and later ones as they register."""
        if self.reason is None:
            self.reason = reason
            self.tell(reason)
