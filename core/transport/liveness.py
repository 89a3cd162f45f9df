"""One timer for all sessions: PINGs, stale connections, and the write deadline.

Every session has one place in a heap ordered by when it is checked next. A session that was read
from since the last check is left alone; another gets a PING, and is closed as stale when too many
PINGs went unanswered. A session whose socket took not a byte for `write_deadline` is closed as a
slow consumer. The heap knows sessions by number: one that is gone leaves nothing but its place.
"""

import heapq

from core.pubsub.server import Hub
from core.transport.session import ClientSession

_SECOND = 1_000_000_000


class Liveness:
    """Checks the sessions of a hub; `tick` is called a few times a second."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._heap: list[tuple[int, int]] = []

    def watch(self, session: ClientSession) -> None:
        """Begin to check a session."""
        limits = self._hub.limits
        first = min(limits.first_ping, session.ping_interval or limits.ping_interval)
        due = self._hub.clock.monotonic() + int(first * _SECOND)
        heapq.heappush(self._heap, (due, session.client_id))

    def tick(self) -> None:
        """Check every session whose time has come."""
        now = self._hub.clock.monotonic()
        interval = self._hub.limits.ping_interval
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, client_id = heapq.heappop(heap)
            session = self._hub.sessions.get(client_id)
            if isinstance(session, ClientSession):
                self._check(session, now)
                pause = int((session.ping_interval or interval) * _SECOND)
                heapq.heappush(heap, (now + pause, client_id))
        self._check_writes(now)
        self._hub.turn.arm()

    def _check(self, session: ClientSession, now: int) -> None:
        heard, session.is_heard = session.is_heard, False
        if heard:
            session.last_heard = now
        if heard and session.rtt:
            return
        if session.pings_out >= self._hub.limits.ping_max:
            self._hub.stale_connections += 1
            session.close("Stale Connection", "Stale Connection")
        else:
            session.ping()

    def _check_writes(self, now: int) -> None:
        deadline = int(self._hub.limits.write_deadline * _SECOND)
        blocked = self._hub.blocked
        for session, (before, since) in list(blocked.items()):
            written = session.written()
            if session.closed:
                del blocked[session]
            elif written != before:
                blocked[session] = (written, now)
            elif now - since >= deadline:
                session.close_slow_consumer("Slow Consumer (Write Deadline)")
