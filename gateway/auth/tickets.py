"""Tickets: random texts that each authenticate one WebSocket handshake within seconds.

A browser's script cannot set headers on a WebSocket handshake, so it requests a ticket and puts it
into the URL. Logs and proxies may record a URL. So a ticket is valid once, for seconds, and only
for pages of the origin that requested it.
"""

import secrets
from collections import Counter, OrderedDict
from dataclasses import dataclass
from hashlib import sha256

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND
from gateway.auth.credentials import Credentials, unauthorized
from gateway.auth.sessions import Session
from gateway.http.problems import Problem


@dataclass(frozen=True, slots=True)
class Ticket:
    """The principal that a ticket authenticates.

    Attributes:
        credentials: Its credentials; None if the server has no users.
        session: The browser session that requested the ticket; when it ends, the ticket is invalid.
            None: no session.
        origin: Origin of the requesting page; empty: no page requested the ticket.
        expires: Time of expiry by the monotonic clock, in nanoseconds.
    """

    credentials: Credentials | None
    session: Session | None
    origin: str
    expires: int


class Tickets:
    """All unused tickets, oldest first; each is valid for `seconds` seconds.

    A principal has at most `each_max` of them.
    """

    def __init__(self, clock: Clock, *, seconds: float, each_max: int) -> None:
        self._clock = clock
        self._lifetime = int(seconds * NANOS_PER_SECOND)
        self._seconds = seconds
        self._each_max = each_max
        self._open: OrderedDict[bytes, Ticket] = OrderedDict()
        self._counts: Counter[bytes] = Counter()

    def issue(self, credentials: Credentials | None, session: Session | None, origin: str) -> str:
        """Create a ticket and return its text.

        Raises Problem 429 if the principal has `each_max` unused tickets.
        """
        self._forget_old()
        if self._counts[_key(credentials)] >= self._each_max:
            retry = {"Retry-After": str(max(1, round(self._seconds)))}
            detail = f"{self._each_max} tickets of this user are unused, the most that one may have"
            raise Problem(429, "too-many-tickets", detail, headers=retry)
        text = secrets.token_urlsafe(32)
        expires = self._clock.monotonic() + self._lifetime
        self._open[_digest(text)] = Ticket(credentials, session, origin, expires)
        self._counts[_key(credentials)] += 1
        return text

    def redeem(self, text: str, origin: str) -> Ticket:
        """Remove a ticket and return it.

        Raises Problem 401 if it is unknown, used or expired, was requested by a page of another
        origin, or if its session has ended.
        """
        self._forget_old()
        ticket = self._open.pop(_digest(text), None)
        if ticket is None:
            raise unauthorized(
                "ticket: unknown, used before, or expired", "bad-ticket", offers_basic=False
            )
        self._count_down(ticket)
        if ticket.origin and ticket.origin != origin:
            raise unauthorized(
                "ticket: requested by a page of another origin", "bad-ticket", offers_basic=False
            )
        if ticket.session is not None and ticket.session.revocation.reason is not None:
            raise unauthorized(
                f"ticket: {ticket.session.revocation.reason}", "bad-ticket", offers_basic=False
            )
        return ticket

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._open and next(iter(self._open.values())).expires <= now:
            self._count_down(self._open.popitem(last=False)[1])

    def _count_down(self, ticket: Ticket) -> None:
        key = _key(ticket.credentials)
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]


def _key(credentials: Credentials | None) -> bytes:
    return b"" if credentials is None else credentials.key


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
