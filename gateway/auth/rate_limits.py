"""Rate limits of HTTP requests for each principal, and the response headers that report them.

The headers are those of draft-ietf-httpapi-ratelimit-headers-10. The algorithm is the generic cell
rate algorithm: a token bucket stored as the time at which it is full again. So a limit needs no
timer, and a full bucket needs no memory. docs/decisions/0019-keep-http-sessions-in-memory.md has
the reasons against a library.
"""

from dataclasses import dataclass

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND
from gateway.http.problems import Problem

_ROOM_MIN = 4096
POLICY = "requests"


@dataclass(frozen=True, slots=True)
class Quota:
    """The rest of a rate limit: `remaining` requests now, all of them again after `seconds`
    seconds.
    """

    remaining: int
    seconds: int


class RateLimits:
    """A limit of `requests` requests in `seconds` seconds for each principal or address.

    After a pause, a principal may send all `requests` at once.

    Attributes:
        policy: The value of the response header RateLimit-Policy.
    """

    def __init__(self, clock: Clock, requests: int, seconds: float) -> None:
        self._clock = clock
        self._requests = requests
        self._each = int(seconds * NANOS_PER_SECOND / requests)
        self._window = self._each * requests
        self._full_at: dict[bytes, int] = {}
        self._room = _ROOM_MIN
        self.policy = f'"{POLICY}";q={requests};w={_seconds(self._window)}'

    def charge(self, key: bytes) -> Quota:
        """Count a request of a principal or address, and return the rest of its limit.

        Raises Problem 429 with Retry-After if no request is left.
        """
        now = self._clock.monotonic()
        full_at = max(self._full_at.get(key, 0), now) + self._each
        if full_at - now > self._window:
            raise self._refusal(full_at - now - self._window, full_at - self._each - now)
        self._full_at[key] = full_at
        if len(self._full_at) > self._room:
            self._forget_full(now)
        return Quota((self._window - (full_at - now)) // self._each, _seconds(full_at - now))

    def refund(self, key: bytes) -> None:
        """Undo one `charge` of a principal or address."""
        self._full_at[key] = self._full_at.get(key, 0) - self._each

    def headers(self, quota: Quota) -> dict[str, str]:
        """Return the response headers RateLimit-Policy and RateLimit for a quota."""
        left = f'"{POLICY}";r={quota.remaining};t={quota.seconds}'
        return {"RateLimit-Policy": self.policy, "RateLimit": left}

    def _refusal(self, wait: int, full_in: int) -> Problem:
        headers = self.headers(Quota(0, _seconds(full_in)))
        headers["Retry-After"] = str(_seconds(wait))
        detail = f"more than {self._requests} requests in {_seconds(self._window)} s"
        problem = Problem(429, "quota-exceeded", detail, headers=headers)
        problem.extra["violated-policies"] = [POLICY]
        return problem

    def _forget_full(self, now: int) -> None:
        self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        self._room = max(_ROOM_MIN, 2 * len(self._full_at))


def _seconds(nanoseconds: int) -> int:
    """Convert nanoseconds to whole seconds, rounded up, so that Retry-After is never too short."""
    return -(-nanoseconds // NANOS_PER_SECOND)
