"""Checks all client sessions by one timer: PINGs, stale connections, and the write deadline.

Every session has one entry in a heap, ordered by its next check. A session from which data was read
since the last check needs no PING. Another one gets a PING, and is closed as stale when `ping_max`
PINGs are unanswered. A session whose socket accepts not a byte for `write_deadline` seconds is
closed as a slow consumer. The heap refers to sessions by number, so a closed session leaves only
its entry.
"""

import heapq

from core.pubsub.server import Hub
from core.transport.session import ClientSession
from core.units import NANOS_PER_SECOND, Nanos


class SessionLiveness:
    """Checks the sessions of a hub.

    `watch` adds a session; `tick` is called four times per second.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._heap: list[tuple[int, int]] = []

    def watch(self, session: ClientSession) -> None:
        """Add a session; its first PING is due after `Limits.first_ping` seconds."""
        limits = self._hub.limits
        first = min(limits.first_ping, session.ping_interval or limits.ping_interval)
        due = self._hub.clock.monotonic() + int(first * NANOS_PER_SECOND)
        heapq.heappush(self._heap, (due, session.client_id))

    def tick(self) -> None:
        """Send a PING to each session whose check is due, or close it.

        Close those over the write deadline.
        """
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
