"""The caller of a request or socket."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.auth.credentials import Credentials
from gateway.auth.rate_limits import Quota
from gateway.auth.revocation import OnRevoked, Revocation, RevocationReason
from gateway.auth.rights import Rights
from gateway.auth.sessions import Session
from gateway.auth.state import AuthState
from gateway.services import Gateway


@dataclass(slots=True, eq=False)
class Caller:
    """The caller of a request or socket, as long as that is open.

    `gateway.auth.authenticator` makes it.

    Attributes:
        gateway: The services over the caller's own connection.
        sign_in: Sessions, tickets, rate limits.
        key: The key that limits are counted by.
        name: A name that may be shown; empty if the server has no users.
        credentials: The verified credentials; None if the server has no users.
        session: The session that authenticated the caller, if any.
        can_ask: False if the caller may not subscribe to an inbox, and so gets no replies.
        rights: The caller's permissions; None: all, or they are not known in advance.
        quota: The rest of the rate limit; None: there is no limit.
        endings: Events that end the caller's rights.
    """

    gateway: Gateway
    auth: AuthState
    key: bytes = b""
    name: str = ""
    credentials: Credentials | None = None
    session: Session | None = None
    can_receive_replies: bool = True
    rights: Rights | None = None
    quota: Quota | None = None
    revocations: tuple[Revocation, ...] = ()

    @property
    def revocation_reason(self) -> RevocationReason | None:
        """The reason why the caller lost its rights; None: it has them."""
        for revocation in self.revocations:
            if revocation.reason is not None:
                return revocation.reason
        return None

    def on_revoked(self, call: OnRevoked) -> Callable[[], None]:
        """Register a callback for the loss of the caller's rights; if they are lost, call it now.

        The callback is called once. Return a function that unregisters it, for the end of the
        response or socket.
        """
        if not self.revocations:
            return _nothing
        is_notified = False

        def once(reason: RevocationReason) -> None:
            nonlocal is_notified
            if not is_notified:
                is_notified = True
                call(reason)

        for revocation in self.revocations:
            revocation.add(once)

        def unregister() -> None:
            for revocation in self.revocations:
                revocation.discard(once)

        return unregister


def _nothing() -> None:
    """Stand in for a function that unregisters a callback."""
