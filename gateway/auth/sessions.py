"""Browser sessions: a cookie replaces credentials until it expires or the user signs out.

The memory of this node holds a digest of the cookie's value, not the value. After a restart, or at
another node, the user signs in again.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from core.runtime.clock import Clock
from core.runtime.wall_timer import WallTimer
from core.units import NANOS_PER_SECOND
from gateway.auth.credentials import Credentials
from gateway.auth.revocation import Revocation, RevocationReason

_SECURE, _PLAIN = "__Host-jetgate", "jetgate"


@dataclass(slots=True, eq=False)
class Session:
    """One browser session.

    Attributes:
        credentials: The verified credentials that the cookie replaces.
        expires: Time of expiry, in nanoseconds since the Unix epoch.
        digest: SHA-256 of the cookie's value.
        timer: Ends the session when it expires.
        revocation: Callbacks for the end of the session.
    """

    credentials: Credentials
    expires: int
    digest: bytes
    timer: WallTimer
    revocation: Revocation = field(default_factory=Revocation)


class Sessions:
    """All open browser sessions of this node, each of `seconds` seconds.

    A principal has at most `each_max` sessions; a further one ends its oldest.
    """

    def __init__(self, clock: Clock, *, seconds: float, each_max: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._each_max = each_max
        self._by_digest: dict[bytes, Session] = {}
        self._by_key: dict[bytes, OrderedDict[bytes, Session]] = {}

    def begin(self, credentials: Credentials) -> tuple[str, Session]:
        """Begin a session. Returns the value of its cookie, and the session."""
        value = secrets.token_urlsafe(32)
        digest = sha256(value.encode()).digest()
        timer = WallTimer(self._clock, partial(self._expire, digest))
        expires = self._clock.now() + int(self._seconds * NANOS_PER_SECOND)
        session = Session(credentials, expires, digest, timer)
        own = self._by_key.setdefault(credentials.key, OrderedDict())
        if len(own) >= self._each_max:
            self.end(next(iter(own.values())), RevocationReason.SIGNED_OUT)
            own = self._by_key.setdefault(credentials.key, OrderedDict())
        self._by_digest[digest] = own[digest] = session
        timer.arm(expires)
        return value, session

    def find(self, value: str) -> Session | None:
        """Return the session for the value of a cookie; None if it is unknown or has ended."""
        session = self._by_digest.get(sha256(value.encode("latin-1", "replace")).digest())
        if session is not None and session.expires <= self._clock.now():
            self.end(session, RevocationReason.EXPIRED)
            return None
        return session

    def end(self, session: Session, reason: RevocationReason) -> None:
        """End a session, and the responses and sockets that it authenticated."""
        if self._by_digest.pop(session.digest, None) is None:
            return
        session.timer.cancel()
        own = self._by_key[session.credentials.key]
        del own[session.digest]
        if not own:
            del self._by_key[session.credentials.key]
        session.revocation.revoke(reason)

    def end_all(self, key: bytes, reason: RevocationReason) -> None:
        """End all sessions of a principal, by the digest of its credentials (`Credentials.key`)."""
        for session in list(self._by_key.get(key, {}).values()):
            self.end(session, reason)

    def close(self) -> None:
        """End all sessions, because the node stops."""
        for session in list(self._by_digest.values()):
            self.end(session, RevocationReason.CLOSED)

    def _expire(self, digest: bytes) -> None:
        session = self._by_digest.get(digest)
        if session is not None:
            self.end(session, RevocationReason.EXPIRED)


def cookie_name(*, is_secure: bool) -> str:
    """Return the name of the session cookie; over TLS it has the prefix `__Host-` (RFC 6265bis).

    Other sites and plain HTTP cannot set a cookie with this prefix.
    """
    return _SECURE if is_secure else _PLAIN


def set_cookie(value: str, seconds: int, *, is_secure: bool) -> str:
    """Return a value of Set-Cookie for the session cookie, with a lifetime in seconds.

    An empty value with 0 seconds removes the cookie.
    """
    parts = [f"{cookie_name(is_secure=is_secure)}={value}", "Path=/", f"Max-Age={seconds}"]
    parts += ["HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if is_secure else parts)
