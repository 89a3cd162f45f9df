"""The authenticator: determines the caller of each request and socket.

To open a request or socket for a caller, call `Door.admit`, keep the `Caller` while it is open,
then call `Door.leave`. The authenticator checks in this order: credentials from elsewhere (first
frame or sub-protocol of a WebSocket), `Authorization`, a ticket if the endpoint takes one, the
session cookie. If the server has no users, no credentials are needed.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from starlette.types import Scope

from core.client import Client
from core.runtime.clock import Clock
from core.runtime.listening import client_network
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credentials, cookie_of, from_header, unauthorized
from gateway.auth.origins import is_secure, origin_of, refuse_cross_site
from gateway.auth.permissions import RightsOf
from gateway.auth.principals import Identities, Identity, Login, Opened, host_of
from gateway.auth.revocation import Ending
from gateway.auth.sessions import Session, cookie_name
from gateway.auth.state import SignIn
from gateway.http.disconnects import Disconnected
from gateway.http.problems import Problem
from gateway.monitoring.events import SignInFailed
from gateway.services import Gateway

_TICKETS = "/v1/tickets"
"""The path where programs request tickets for a page, by its `Origin`.

No page reads the response.
"""


class Said(NamedTuple):
    """The credentials in a request, with the session that they come from."""

    credentials: Credentials
    session: Session | None = None


@dataclass(slots=True, eq=False)
class Admitted(Caller):
    """A caller with the connection that it holds."""

    identity: Identity | None = None


class Door:
    """The authenticator. `close` ends all sessions and connections.

    Attributes:
        sign_in: Sessions, tickets, rate limits.
    """

    def __init__(
        self,
        gateway: Gateway,
        clock: Clock,
        *,
        login: Login | None = None,
        make: Callable[[Client], Gateway],
        rights: RightsOf | None = None,
    ) -> None:
        settings = gateway.settings
        self.sign_in = SignIn(settings, clock)
        self._settings = settings
        self._anybody = Admitted(gateway, self.sign_in)
        self._gateway = gateway
        self._identities = login and Identities(
            login,
            make,
            rights=rights,
            idle_max=settings.identities_idle_max,
            revoked=lambda key: self.sign_in.sessions.end_all(key, Ending.REVOKED),
        )
        self._inside = 0

    @property
    def asks(self) -> bool:
        """True if the server has users, so that every caller needs credentials."""
        return self._identities is not None

    @asynccontextmanager
    async def enter(
        self, scope: Scope, *, ticket: str = "", credentials: Credentials | None = None
    ) -> AsyncIterator[Caller]:
        """Admit a caller until the block ends. Raises as `admit` does."""
        caller = await self.admit(scope, ticket=ticket, credentials=credentials)
        try:
            yield caller
        finally:
            self.leave(caller)

    async def admit(
        self, scope: Scope, *, ticket: str = "", credentials: Credentials | None = None
    ) -> Admitted:
        """Authenticate a caller.

        Args:
            scope: The scope of the request or handshake.
            ticket: The value of `?ticket=`, if the endpoint takes tickets.
            credentials: Credentials from elsewhere; if set, nothing else is checked.

        Raises:
            Problem: 401 for unknown credentials; 403 for a page of another site; 429 for too many
                requests of one identity; 503 for too many in total, or if the server cannot verify.
            Disconnected: The client has disconnected.
        """
        if self._inside >= self._settings.requests_max:
            retry = {"Retry-After": "1"}
            raise Problem(503, "too-many-at-once", "requests: too many at once", headers=retry)
        try:
            if self._identities is None:
                caller = self._anyone(scope, ticket)
            else:
                said = self._said(scope, ticket, credentials)
                caller = await self._known(self._identities, scope, said)
        except Problem as problem:
            raise self.counted(problem, scope) from None
        self._inside += 1
        return caller

    def counted(self, problem: Problem, scope: Scope) -> Problem:
        """Count a refusal before authentication towards the rate limit of the client's address.

        Return the problem with the headers of the rate limit, or the 429 that replaces it. Failures
        of the server (5xx) do not count.
        """
        rates = self.sign_in.rates
        if rates is None or problem.status == 429 or problem.status >= 500:
            return problem
        try:
            problem.headers |= rates.headers(rates.take(_address(scope)))
        except Problem as exceeded:
            return exceeded
        return problem

    def leave(self, caller: Admitted) -> None:
        """Release a caller whose request or socket has ended."""
        self._inside -= 1
        if caller.identity is not None and self._identities is not None:
            self._identities.give_back(caller.identity)

    def users_changed(self) -> None:
        """End long responses and sockets of users with changed permissions; they may restart."""
        if self._identities is not None:
            self._identities.users_changed()

    async def close(self) -> None:
        """End all sessions and connections."""
        self.sign_in.sessions.close()
        if self._identities is not None:
            await self._identities.close()

    def _anyone(self, scope: Scope, ticket: str) -> Admitted:
        refuse_cross_site(scope, self._settings.cors_origins, needs_proof=False)
        if ticket:
            self.sign_in.tickets.redeem(ticket, origin_of(scope))
        if self.sign_in.rates is None:
            return self._anybody
        key = _address(scope)
        return Admitted(self._gateway, self.sign_in, key, quota=self.sign_in.rates.take(key))

    def _said(self, scope: Scope, ticket: str, credentials: Credentials | None) -> Said:
        if credentials is not None:
            return Said(credentials)
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(headers) > 1:
            raise unauthorized("Authorization: is there twice")
        if headers and (text := headers[0].decode("latin-1")):
            found = from_header(text)
            # After a Basic dialog, a browser adds the credentials to requests of any page, as with
            # a cookie.
            if found.token or scope.get("path") == _TICKETS:
                return Said(found)
            try:
                refuse_cross_site(scope, self._settings.cors_origins, needs_proof=False)
            except Problem:
                if not ticket:
                    raise
            else:
                return Said(found)
        if ticket:
            redeemed = self.sign_in.tickets.redeem(ticket, origin_of(scope))
            assert redeemed.credentials is not None, "issued to somebody known"
            return Said(redeemed.credentials, redeemed.session)
        value = cookie_of(scope["headers"], cookie_name(is_secure=is_secure(scope)))
        if not value:
            raise unauthorized("Authorization: Basic or Bearer credentials are needed")
        session = self.sign_in.sessions.find(value)
        if session is None:
            raise unauthorized("the session has ended", "session-ended", asks=False)
        refuse_cross_site(scope, self._settings.cors_origins, needs_proof=True)
        return Said(session.credentials, session)

    async def _known(self, identities: Identities, scope: Scope, said: Said) -> Admitted:
        credentials, session = said
        identity, opened = await self._take(identities, scope, said)
        rates = self.sign_in.rates
        try:
            quota = None if rates is None else rates.take(identity.key)
            if identity.users > self._settings.identity_requests_max:
                detail = f"requests: {self._settings.identity_requests_max} of this identity wait"
                told = {"Retry-After": "1"}
                if rates is not None and quota is not None:
                    told |= rates.headers(quota)
                raise Problem(429, "too-many-waiting", detail, headers=told)
        except Problem:
            identities.give_back(identity)
            raise
        own = (identity.endings,) if session is None else (identity.endings, session.endings)
        return Admitted(
            opened.gateway,
            self.sign_in,
            identity.key,
            credentials.name,
            credentials,
            session,
            opened.can_ask,
            opened.rights,
            quota,
            own,
            identity,
        )

    async def _take(
        self, identities: Identities, scope: Scope, said: Said
    ) -> tuple[Identity, Opened]:
        """Take the connection of these credentials; unknown ones count for the client's address."""
        credentials, session = said
        rates = self.sign_in.rates
        # Unknown credentials count during verification too, which limits parallel guesses.
        guess = b"" if rates is None or identities.knows(credentials.key) else _address(scope)
        if rates is not None and guess:
            rates.take(guess)
        try:
            return await identities.take(credentials, scope)
        except Problem as problem:
            if problem.status != 401:
                raise
            self._gateway.observe(SignInFailed(host_of(scope), credentials.user))
            self.sign_in.sessions.end_all(credentials.key, Ending.REVOKED)
            if session is not None:
                raise unauthorized(str(Ending.REVOKED), "session-ended", asks=False) from None
            raise
        except Disconnected:
            guess = b""  # it counts, although no client reads the refusal
            raise
        finally:
            if rates is not None and guess:
                rates.give_back(guess)


def _address(scope: Scope) -> bytes:
    return f"address {client_network(host_of(scope))}".encode()
