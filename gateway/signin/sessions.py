"""Sessions of browsers: a cookie that stands for credentials, until it expires or is given back.

Only a digest of the cookie's value is kept, in the memory of the node that serves HTTP: when
another node takes over, or the process starts again, everybody signs in again.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from core.runtime.clock import Clock
from core.runtime.wall_timer import WallTimer
from gateway.signin.credentials import Credentials
from gateway.signin.endings import Ending, Endings

_BILLION = 1_000_000_000
_SECURE, _PLAIN = "__Host-jetgate", "jetgate"


@dataclass(slots=True, eq=False)
class Session:
    """One session. `expires`: nanoseconds since the Unix epoch; `digest`: of the cookie's value."""

    credentials: Credentials
    expires: int
    digest: bytes
    timer: WallTimer
    endings: Endings = field(default_factory=Endings)


class Sessions:
    """The sessions there are: each identity has at most `each_max`, and the oldest makes room."""

    def __init__(self, clock: Clock, *, seconds: float, each_max: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._each_max = each_max
        self._by_digest: dict[bytes, Session] = {}
        self._by_key: dict[bytes, OrderedDict[bytes, Session]] = {}

    def begin(self, credentials: Credentials) -> tuple[str, Session]:
        """Begin a session; return the value of its cookie too."""
        value = secrets.token_urlsafe(32)
        digest = sha256(value.encode()).digest()
        timer = WallTimer(self._clock, partial(self._expire, digest))
        expires = self._clock.now() + int(self._seconds * _BILLION)
        session = Session(credentials, expires, digest, timer)
        own = self._by_key.setdefault(credentials.key, OrderedDict())
        if len(own) >= self._each_max:
            self.end(next(iter(own.values())), Ending.SIGNED_OUT)
            own = self._by_key.setdefault(credentials.key, OrderedDict())
        self._by_digest[digest] = own[digest] = session
        timer.arm(expires)
        return value, session

    def find(self, value: str) -> Session | None:
        """The session of a cookie's value, if it has not ended."""
        session = self._by_digest.get(sha256(value.encode("latin-1", "replace")).digest())
        if session is not None and session.expires <= self._clock.now():
            self.end(session, Ending.EXPIRED)
            return None
        return session

    def end(self, session: Session, reason: Ending) -> None:
        """End a session, and what lasts as long as it."""
        if self._by_digest.pop(session.digest, None) is None:
            return
        session.timer.cancel()
        own = self._by_key[session.credentials.key]
        del own[session.digest]
        if not own:
            del self._by_key[session.credentials.key]
        session.endings.end(reason)

    def end_all(self, key: bytes, reason: Ending) -> None:
        """End the sessions of an identity."""
        for session in list(self._by_key.get(key, {}).values()):
            self.end(session, reason)

    def close(self) -> None:
        """End every session."""
        for session in list(self._by_digest.values()):
            self.end(session, Ending.CLOSED)

    def _expire(self, digest: bytes) -> None:
        session = self._by_digest.get(digest)
        if session is not None:
            self.end(session, Ending.EXPIRED)


def cookie_name(*, is_secure: bool) -> str:
    """The cookie's name: over TLS one that no other site and no plain HTTP can set."""
    return _SECURE if is_secure else _PLAIN


def set_cookie(value: str, seconds: int, *, is_secure: bool) -> str:
    """The value of Set-Cookie; an empty value with 0 seconds makes a browser forget it."""
    parts = [f"{cookie_name(is_secure=is_secure)}={value}", "Path=/", f"Max-Age={seconds}"]
    parts += ["HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if is_secure else parts)
