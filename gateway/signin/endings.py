"""What has to end when the right of an identity does: sockets, and responses that last."""

from collections.abc import Callable
from enum import StrEnum


class Ending(StrEnum):
    """Why somebody is no longer who they were let in as."""

    EXPIRED = "the session has expired"
    SIGNED_OUT = "the session was ended"
    REVOKED = "the server no longer knows these credentials"
    CHANGED = "the permissions of this user have changed"
    CLOSED = "this node no longer serves"


OnEnd = Callable[[Ending], None]


class Endings:
    """Whom to tell of an end; each is told once. `reason` is there once it is over."""

    __slots__ = ("_calls", "reason")

    def __init__(self) -> None:
        self._calls: set[OnEnd] = set()
        self.reason: Ending | None = None

    def add(self, call: OnEnd) -> None:
        """Call this at the end; at once when it is over already."""
        if self.reason is None:
            self._calls.add(call)
        else:
            call(self.reason)

    def discard(self, call: OnEnd) -> None:
        """Tell this one nothing."""
        self._calls.discard(call)

    def tell(self, reason: Ending) -> None:
        """Tell everybody who is to be told now; who comes later is told another end."""
        calls, self._calls = self._calls, set()
        for call in calls:
            call(reason)

    def end(self, reason: Ending) -> None:
        """Tell everybody, now and later."""
        if self.reason is None:
            self.reason = reason
            self.tell(reason)
