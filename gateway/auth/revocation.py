"""Notification of sockets and streaming responses when a principal loses its rights."""

from collections.abc import Callable
from enum import StrEnum


class RevocationReason(StrEnum):
    """The reason why a principal lost its rights."""

    EXPIRED = "the session has expired"
    SIGNED_OUT = "the session was ended"
    REVOKED = "the server no longer knows these credentials"
    CHANGED = "the permissions of this user have changed"
    CLOSED = "this node no longer serves"


OnRevoked = Callable[[RevocationReason], None]


class Revocation:
    """Callbacks for the end of a principal's rights; each is called once.

    Attributes:
        reason: The cause, once `revoke` was called; None before.
    """

    __slots__ = ("_calls", "reason")

    def __init__(self) -> None:
        self._calls: set[OnRevoked] = set()
        self.reason: RevocationReason | None = None

    def add(self, call: OnRevoked) -> None:
        """Register a callback; call it at once if the end has come already."""
        if self.reason is None:
            self._calls.add(call)
        else:
            call(self.reason)

    def discard(self, call: OnRevoked) -> None:
        """Unregister a callback."""
        self._calls.discard(call)

    def notify(self, reason: RevocationReason) -> None:
        """Call and unregister all current callbacks; later ones wait for another call."""
        calls, self._calls = self._calls, set()
        for call in calls:
            call(reason)

    def revoke(self, reason: RevocationReason) -> None:
        """Call all current callbacks with this reason, and later ones as they register."""
        if self.reason is None:
            self.reason = reason
            self.notify(reason)
