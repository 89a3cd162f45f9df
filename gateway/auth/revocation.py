"""Notification of sockets and streaming responses that their principal has lost its rights."""

from collections.abc import Callable
from enum import StrEnum


class RevocationReason(StrEnum):
    """The reason why a principal lost its rights, as text for its client."""

    EXPIRED = "the session has expired"
    SIGNED_OUT = "the session was ended"
    REVOKED = "the server no longer knows these credentials"
    CHANGED = "the permissions of this user have changed"
    CLOSED = "this node no longer serves"


OnRevoked = Callable[[RevocationReason], None]


class Revocation:
    """Callbacks for the moment at which a principal loses its rights; each is called once.

    Attributes:
        reason: The reason, after `revoke` was called; None before.
    """

    __slots__ = ("_calls", "reason")

    def __init__(self) -> None:
        self._calls: set[OnRevoked] = set()
        self.reason: RevocationReason | None = None

    def add(self, call: OnRevoked) -> None:
        """Register a callback; call it at once if the rights are revoked already."""
        if self.reason is None:
            self._calls.add(call)
        else:
            call(self.reason)

    def discard(self, call: OnRevoked) -> None:
        """Unregister a callback that was passed to `add`."""
        self._calls.discard(call)

    def notify(self, reason: RevocationReason) -> None:
        """Call and unregister all current callbacks. `reason` stays as it is.

        Callbacks that register afterwards are called by the next `notify` or `revoke`.
        """
        calls, self._calls = self._calls, set()
        for call in calls:
            call(reason)

    def revoke(self, reason: RevocationReason) -> None:
        """Set the reason and call all callbacks; a callback registered later is called at once.

        Only the first call has an effect.
        """
        if self.reason is None:
            self.reason = reason
            self.notify(reason)
