"""The trust window: the time for which a node may rely on its leases without a check. No I/O.

The locks of an owner are in PostgreSQL and can be lost without notice: the session ends, or the
database fails over. So trust expires by itself. The window is counted from the *start* of the last
successful check, because an answer may be old when it arrives. The window has the length
`ttl - margin`. It ends before other nodes may treat the owner as stalled, which they do after
`stale` without a heartbeat:

    check sent ---- answered ------------------- ttl - margin ---- ttl
    |<------------------ trusted ------------------>|
    others see the check's heartbeat at the earliest when it was sent, and wait `stale` for the next

Times are monotonic nanoseconds. Correctness never depends on this window: every write checks its
epoch. The window saves useless attempts of a node that has lost its leases. It also prevents that
node from delivering or showing data that the next owner may have changed
(`core.jetstream.trust_gate`).
"""

from core.node.lease_times import LeaseTimes
from core.units import Nanos


class TrustWindow:
    """The time in which a node relies on the last confirmation of its leases; closed at first."""

    def __init__(self, times: LeaseTimes) -> None:
        self._span = times.ttl - times.margin
        self._until: int | None = None

    def confirm(self, started: Nanos) -> None:
        """Record a successful check of the leases.

        `started` is the time at which the check began, in monotonic nanoseconds.
        """
        self._until = max(self._until or 0, started + self._span)

    def withdraw(self) -> None:
        """Close the window at once, until the next `confirm`."""
        self._until = None

    def trusted(self, now: Nanos) -> bool:
        """Return whether the node may rely on its leases at `now` without a new check.

        `now` is in monotonic nanoseconds.
        """
        return self._until is not None and now < self._until
