"""The caller of an HTTP request or WebSocket: its permissions, rate limit and revocation."""

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
    """The caller of an HTTP request or WebSocket, valid until the response or socket ends.

    `gateway.auth.authenticator` creates one for each request.

    Attributes:
        gateway: The services over the caller's own NATS connection.
        auth: Sessions, tickets and rate limits of all callers.
        key: Key of the caller's limits: a digest of its credentials, or its network address if the
            server has no users; empty if nothing is counted.
        name: A name that may be shown; empty if the server has no users.
        credentials: The verified credentials; None if the server has no users.
        session: The browser session that authenticated the caller, if any.
        can_receive_replies: False if the caller may not subscribe to an inbox, and so gets no
            replies.
        rights: The caller's NATS permissions; None: all, or they cannot be read in advance.
        quota: The remaining requests of the rate limit; None: there is no limit.
        revocations: The events that can revoke the caller's rights, such as the end of its session.
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
        """The reason why the caller lost its rights; None if it still has them."""
        for revocation in self.revocations:
            if revocation.reason is not None:
                return revocation.reason
        return None

    def on_revoked(self, call: OnRevoked) -> Callable[[], None]:
        """Register a callback for the loss of the caller's rights; call it now if they are lost
        already.

        The callback runs at most once. Returns a function that unregisters it; call that function
        when the response or socket ends.
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
    """Do nothing: stands for the function that unregisters a callback if none was registered."""
