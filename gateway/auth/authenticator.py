"""Authentication: determines the caller of each HTTP request and WebSocket.

For each request or socket, call `Authenticator.authenticate`, use the `Caller` while the request or
socket is open, then call `Authenticator.release`. The first credentials found in this order are
verified: the first frame or sub-protocol of a WebSocket, `Authorization`, a ticket if the endpoint
accepts tickets, the session cookie. If the server has no users, no credentials are needed.
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
from gateway.auth.principals import Login, Principal, PrincipalConnection, Principals, host_of
from gateway.auth.revocation import RevocationReason
from gateway.auth.rights import RightsOf
from gateway.auth.sessions import Session, cookie_name
from gateway.auth.state import AuthState
from gateway.http.disconnects import Disconnected
from gateway.http.problems import Problem
from gateway.monitoring.events import AuthenticationFailed
from gateway.services import Gateway

_TICKETS = "/v1/tickets"
"""The path where a program requests a ticket for a page, whose origin it sends as `Origin`.

So Basic credentials with a foreign Origin are accepted here. A page of another site cannot misuse
that, because it cannot read the response.
"""


class RequestCredentials(NamedTuple):
    """The credentials in a request, and the browser session that they belong to, if any."""

    credentials: Credentials
    session: Session | None = None


@dataclass(slots=True, eq=False)
class AuthenticatedCaller(Caller):
    """The caller of an HTTP request or WebSocket, with the NATS connection that it uses.

    `principal` is that connection, shared by all requests with the same credentials; None if the
    server has no users.
    """

    principal: Principal | None = None


class Authenticator:
    """Determines the caller of each HTTP request and WebSocket, and limits open requests.

    `close` ends all browser sessions and closes all NATS connections of principals.

    Attributes:
        auth: Sessions, tickets and rate limits.
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
        self.auth = AuthState(settings, clock)
        self._settings = settings
        self._anybody = AuthenticatedCaller(gateway, self.auth)
        self._gateway = gateway
        self._principals = login and Principals(
            login,
            make,
            rights=rights,
            idle_max=settings.identities_idle_max,
            revoked=lambda key: self.auth.sessions.end_all(key, RevocationReason.REVOKED),
        )
        self._open_requests = 0

    @property
    def requires_credentials(self) -> bool:
        """True if the server has users, so that every caller needs credentials."""
        return self._principals is not None

    @asynccontextmanager
    async def authenticated(
        self, scope: Scope, *, ticket: str = "", credentials: Credentials | None = None
    ) -> AsyncIterator[Caller]:
        """Authenticate a caller, and release it when the block ends.

        Raises Problem and Disconnected as `authenticate` does.
        """
        caller = await self.authenticate(scope, ticket=ticket, credentials=credentials)
        try:
            yield caller
        finally:
            self.release(caller)

    async def authenticate(
        self, scope: Scope, *, ticket: str = "", credentials: Credentials | None = None
    ) -> AuthenticatedCaller:
        """Authenticate the caller of a request or handshake; pass it to `release` at the end.

        Args:
            scope: The ASGI scope of the request or handshake.
            ticket: The value of `?ticket=`, if the endpoint accepts tickets.
            credentials: Credentials from a frame or sub-protocol; if set, no others are checked.

        Raises:
            Problem: 401 for missing or refused credentials; 403 for a page of another site; 429 for
                too many requests of one principal; 503 for too many open requests in total, or if
                the NATS server cannot verify credentials.
            Disconnected: The client has disconnected.
        """
        if self._open_requests >= self._settings.requests_max:
            retry = {"Retry-After": "1"}
            raise Problem(
                503,
                "too-many-at-once",
                f"{self._settings.requests_max} requests are open, the most that this node serves",
                headers=retry,
            )
        try:
            if self._principals is None:
                caller = self._authenticate_anybody(scope, ticket)
            else:
                presented = self._find_credentials(scope, ticket, credentials)
                caller = await self._authenticate_principal(self._principals, scope, presented)
        except Problem as problem:
            raise self.count_refusal(problem, scope) from None
        self._open_requests += 1
        return caller

    def count_refusal(self, problem: Problem, scope: Scope) -> Problem:
        """Count a request that was refused before authentication in the rate limit of its address.

        Returns the problem with the headers of the rate limit, or the 429 that replaces it.
        Failures of the server (5xx) and a 429 do not count.
        """
        rate_limits = self.auth.rate_limits
        if rate_limits is None or problem.status == 429 or problem.status >= 500:
            return problem
        try:
            problem.headers |= rate_limits.headers(rate_limits.charge(_network_key(scope)))
        except Problem as exceeded:
            return exceeded
        return problem

    def release(self, caller: AuthenticatedCaller) -> None:
        """Release a caller after its request or socket has ended."""
        self._open_requests -= 1
        if caller.principal is not None and self._principals is not None:
            self._principals.release(caller.principal)

    def users_changed(self) -> None:
        """Revoke open streaming responses and sockets of users whose permissions changed.

        Their clients may request them again, with the new permissions.
        """
        if self._principals is not None:
            self._principals.users_changed()

    async def close(self) -> None:
        """End all browser sessions and close all NATS connections of principals."""
        self.auth.sessions.close()
        if self._principals is not None:
            await self._principals.close()

    def _authenticate_anybody(self, scope: Scope, ticket: str) -> AuthenticatedCaller:
        refuse_cross_site(scope, self._settings.cors_origins, needs_proof=False)
        if ticket:
            self.auth.tickets.redeem(ticket, origin_of(scope))
        if self.auth.rate_limits is None:
            return self._anybody
        key = _network_key(scope)
        return AuthenticatedCaller(
            self._gateway, self.auth, key, quota=self.auth.rate_limits.charge(key)
        )

    def _find_credentials(
        self, scope: Scope, ticket: str, credentials: Credentials | None
    ) -> RequestCredentials:
        if credentials is not None:
            return RequestCredentials(credentials)
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(headers) > 1:
            raise unauthorized("the header Authorization occurs twice")
        if headers and (text := headers[0].decode("latin-1")):
            found = from_header(text)
            # After a Basic dialog, a browser adds the credentials to requests of any page, as with
            # a cookie.
            if found.token or scope.get("path") == _TICKETS:
                return RequestCredentials(found)
            try:
                refuse_cross_site(scope, self._settings.cors_origins, needs_proof=False)
            except Problem:
                if not ticket:
                    raise
            else:
                return RequestCredentials(found)
        if ticket:
            redeemed = self.auth.tickets.redeem(ticket, origin_of(scope))
            assert redeemed.credentials is not None, "issued to somebody known"
            return RequestCredentials(redeemed.credentials, redeemed.session)
        value = cookie_of(scope["headers"], cookie_name(is_secure=is_secure(scope)))
        if not value:
            raise unauthorized("Authorization: Basic or Bearer credentials are needed")
        session = self.auth.sessions.find(value)
        if session is None:
            raise unauthorized("the session has ended", "session-ended", offers_basic=False)
        refuse_cross_site(scope, self._settings.cors_origins, needs_proof=True)
        return RequestCredentials(session.credentials, session)

    async def _authenticate_principal(
        self, principals: Principals, scope: Scope, presented: RequestCredentials
    ) -> AuthenticatedCaller:
        credentials, session = presented
        principal, connection = await self._acquire(principals, scope, presented)
        rate_limits = self.auth.rate_limits
        try:
            quota = None if rate_limits is None else rate_limits.charge(principal.key)
            if principal.users > self._settings.identity_requests_max:
                detail = (
                    f"{self._settings.identity_requests_max} requests "
                    "of this user are open, the most that one may have"
                )
                headers = {"Retry-After": "1"}
                if rate_limits is not None and quota is not None:
                    headers |= rate_limits.headers(quota)
                raise Problem(429, "too-many-waiting", detail, headers=headers)
        except Problem:
            principals.release(principal)
            raise
        own = (
            (principal.revocation,)
            if session is None
            else (principal.revocation, session.revocation)
        )
        return AuthenticatedCaller(
            connection.gateway,
            self.auth,
            principal.key,
            credentials.name,
            credentials,
            session,
            connection.can_receive_replies,
            connection.rights,
            quota,
            own,
            principal,
        )

    async def _acquire(
        self, principals: Principals, scope: Scope, presented: RequestCredentials
    ) -> tuple[Principal, PrincipalConnection]:
        """Acquire the NATS connection for these credentials.

        Refused credentials count in the rate limit of the client's address, end their sessions and
        raise Problem 401.
        """
        credentials, session = presented
        rate_limits = self.auth.rate_limits
        # Unknown credentials count during verification too, which limits parallel guesses.
        guess = (
            b""
            if rate_limits is None or principals.has_connection(credentials.key)
            else _network_key(scope)
        )
        if rate_limits is not None and guess:
            rate_limits.charge(guess)
        try:
            return await principals.acquire(credentials, scope)
        except Problem as problem:
            if problem.status != 401:
                raise
            self._gateway.report_event(AuthenticationFailed(host_of(scope), credentials.user))
            self.auth.sessions.end_all(credentials.key, RevocationReason.REVOKED)
            if session is not None:
                raise unauthorized(
                    str(RevocationReason.REVOKED), "session-ended", offers_basic=False
                ) from None
            raise
        except Disconnected:
            guess = b""  # it counts, although no client reads the refusal
            raise
        finally:
            if rate_limits is not None and guess:
                rate_limits.refund(guess)


def _network_key(scope: Scope) -> bytes:
    return f"address {client_network(host_of(scope))}".encode()
