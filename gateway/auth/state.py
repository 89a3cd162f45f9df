"""The authentication state that persists between requests, built from the settings."""

from core.runtime.clock import Clock
from gateway.auth.rate_limits import RateLimits
from gateway.auth.sessions import Sessions
from gateway.auth.tickets import Tickets
from gateway.settings import Settings


class AuthState:
    """Open browser sessions, unused tickets, and the rate limits.

    Attributes:
        session_seconds: Lifetime of a session, in seconds.
        ticket_seconds: Lifetime of a ticket, in seconds.
        rate_limits: Requests per principal or address; None if there is no limit.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.session_seconds = int(settings.session_seconds)
        self.ticket_seconds = int(settings.ticket_seconds)
        self.sessions = Sessions(
            clock, seconds=settings.session_seconds, each_max=settings.sessions_max
        )
        self.tickets = Tickets(
            clock, seconds=settings.ticket_seconds, each_max=settings.tickets_max
        )
        self.rate_limits: RateLimits | None = None
        if settings.rate_requests:
            self.rate_limits = RateLimits(clock, settings.rate_requests, settings.rate_seconds)
