"""The timer for all sessions: PINGs, stale connections, and the write deadline.

Every session has one entry in a heap, ordered by its next check. A session with input since the
last check is left alone. Another gets a PING, and is closed as stale when too many PINGs are
unanswered. A session whose socket accepts not a byte for `write_deadline` is closed as a slow
consumer. The heap refers to sessions by number, so a closed session leaves only its entry.
"""

import heapq

from core.pubsub.server import Hub
from core.transport.session import ClientSession
from core.units import NANOS_PER_SECOND, Nanos


class SessionLiveness:
    """The checks of all sessions of a hub. Call `tick` a few times per second."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._heap: list[tuple[int, int]] = []

    def watch(self, session: ClientSession) -> None:
        """Start checking a session."""
        limits = self._hub.limits
        first = min(limits.first_ping, session.ping_interval or limits.ping_interval)
        due = self._hub.clock.monotonic() + int(first * NANOS_PER_SECOND)
        heapq.heappush(self._heap, (due, session.client_id))

    def tick(self) -> None:
        """Check every session whose check is due."""
        now = self._hub.clock.monotonic()
        interval = self._hub.limits.ping_interval
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, client_id = heapq.heappop(heap)
            session = self._hub.sessions.get(client_id)
            if isinstance(session, ClientSession):
                self._check(session, now)
                pause = int((session.ping_interval or interval) * NANOS_PER_SECOND)
                heapq.heappush(heap, (now + pause, client_id))
        self._check_writes(now)
        self._hub.loop_tick.arm()

    def _check(self, session: ClientSession, now: Nanos) -> None:
        has_read, session.has_read = session.has_read, False
        if has_read:
            session.last_read = now
        if has_read and session.rtt:
            return
        if session.pings_out >= self._hub.limits.ping_max:
            self._hub.stale_connections += 1
            session.close("Stale Connection", "Stale Connection")
        else:
            session.ping()

    def _check_writes(self, now: int) -> None:
        deadline = int(self._hub.limits.write_deadline * NANOS_PER_SECOND)
        blocked = self._hub.blocked
        for session, (before, since) in list(blocked.items()):
            written = session.written()
            if session.closed:
                del blocked[session]
            elif written != before:
                blocked[session] = (written, now)
            elif now - since >= deadline:
                session.close_slow_consumer("Slow Consumer (Write Deadline)")
