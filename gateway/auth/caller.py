"""The caller of a request or socket."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.auth.credentials import Credentials
from gateway.auth.permissions import Rights
from gateway.auth.rate_limits import Quota
from gateway.auth.revocation import Ending, Endings, OnEnd
from gateway.auth.sessions import Session
from gateway.auth.state import SignIn
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
    sign_in: SignIn
    key: bytes = b""
    name: str = ""
    credentials: Credentials | None = None
    session: Session | None = None
    can_ask: bool = True
    rights: Rights | None = None
    quota: Quota | None = None
    endings: tuple[Endings, ...] = ()

    @property
    def ended(self) -> Ending | None:
        """The reason why the caller lost its rights; None: it has them."""
        for endings in self.endings:
            if endings.reason is not None:
                return endings.reason
        return None

    def on_end(self, call: OnEnd) -> Callable[[], None]:
        """Register a callback for the loss of the caller's rights; if they are lost, call it now.

        The callback is called once. Return a function that unregisters it, for the end of the
        response or socket.
        """
        if not self.endings:
            return _nothing
        is_told = False

        def once(reason: Ending) -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                call(reason)

        for endings in self.endings:
            endings.add(once)

        def take_back() -> None:
            for endings in self.endings:
                endings.discard(once)

        return take_back


def _nothing() -> None:
    """Stand in for a function that unregisters a callback."""
