"""Rate limits: a bucket for each principal, and the headers that report it.

The headers are those of draft-ietf-httpapi-ratelimit-headers-10. A bucket is one number, the time
at which it is full again (the generic cell rate algorithm). So a limit needs no timer, and an idle
principal needs no memory. docs/decisions/0019-keep-http-sessions-in-memory.md has the reasons
against a library.
"""

from dataclasses import dataclass

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND
from gateway.http.problems import Problem

_ROOM_MIN = 4096
POLICY = "requests"


@dataclass(frozen=True, slots=True)
class Quota:
    """The rest of a quota: `remaining` requests, full again after `seconds`."""

    remaining: int
    seconds: int


class RateLimits:
    """A limit of `requests` in `seconds` for each principal or address.

    After a pause, all of them may come at once.
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
        """Count a request of a principal. Raises Problem 429 if none is left."""
        now = self._clock.monotonic()
        full_at = max(self._full_at.get(key, 0), now) + self._each
        if full_at - now > self._window:
            raise self._refusal(full_at - now - self._window, full_at - self._each - now)
        self._full_at[key] = full_at
        if len(self._full_at) > self._room:
            self._forget_full(now)
        return Quota((self._window - (full_at - now)) // self._each, _seconds(full_at - now))

    def refund(self, key: bytes) -> None:
        """Undo the count of one request."""
        self._full_at[key] = self._full_at.get(key, 0) - self._each

    def headers(self, quota: Quota) -> dict[str, str]:
        """Return the response headers that report a quota."""
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
    """Return whole seconds, rounded up, so that waiting for them is always enough."""
    return -(-nanoseconds // NANOS_PER_SECOND)
