"""How many requests an identity may make: a bucket for each, and the headers that tell of it.

The headers are those of draft-ietf-httpapi-ratelimit-headers-10. A bucket is one number, the time
at which it will be full again (the generic cell rate algorithm), so a limit costs no timer and an
identity that pauses costs nothing. Why no library: docs/decisions/0021.
"""

from dataclasses import dataclass

from core.runtime.clock import Clock
from gateway.problems import Problem

_BILLION = 1_000_000_000
_ROOM_MIN = 4096
POLICY = "requests"


@dataclass(frozen=True, slots=True)
class Quota:
    """What is left of a quota: `remaining` requests, all of them again after `seconds`."""

    remaining: int
    seconds: int


class Rates:
    """`requests` in `seconds` for each identity or address; as many at once, if it had paused."""

    def __init__(self, clock: Clock, requests: int, seconds: float) -> None:
        self._clock = clock
        self._requests = requests
        self._each = int(seconds * _BILLION / requests)
        self._window = self._each * requests
        self._full_at: dict[bytes, int] = {}
        self._room = _ROOM_MIN
        self.policy = f'"{POLICY}";q={requests};w={_seconds(self._window)}'

    def take(self, key: bytes) -> Quota:
        """Count a request of an identity. Raises Problem 429 when it has none left."""
        now = self._clock.monotonic()
        full_at = max(self._full_at.get(key, 0), now) + self._each
        if full_at - now > self._window:
            raise self._refusal(full_at - now - self._window, full_at - self._each - now)
        self._full_at[key] = full_at
        if len(self._full_at) > self._room:
            self._forget_full(now)
        return Quota((self._window - (full_at - now)) // self._each, _seconds(full_at - now))

    def give_back(self, key: bytes) -> None:
        """Count a request of an identity no longer."""
        self._full_at[key] = self._full_at.get(key, 0) - self._each

    def headers(self, quota: Quota) -> dict[str, str]:
        """What tells of a quota."""
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
    """Whole seconds, rounded up: who waits so long has waited enough."""
    return -(-nanoseconds // _BILLION)
