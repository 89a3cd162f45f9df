"""Publishers that survive failures of nodes, as client libraries do: with timeouts and
reconnects.
"""

import contextlib
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Self

from bench.wire import CHUNK, HELLO, Address

STALL_S = 0.5
"""Seconds without progress after which a publisher with a full window sends again."""
TICK_S = 0.01
_RETRY_S = 0.05
_CONNECT_S = 1.0


class Publisher:
    """One publishing connection, which only the thread of its `Load` uses.

    Times are those of `time.perf_counter`, in seconds.

    Args:
        number: Index of the node that it prefers, and last token of its subject.
        nodes: Addresses of the nodes.
        stream: Name of the stream.
        payload: Payload of each message.
        window: Maximum number of unanswered messages; 0: `rate` alone limits them.
        rate: Messages per second, answered or not; 0: `window` alone limits them.

    Attributes:
        acks: Number of acknowledged messages, by the tick (10 ms) in which the ack was read.
        last: Time of the last acknowledgement.
        gap: The longest time in seconds without an acknowledgement since `mark`.
        gap_end: Time at which that gap ended.
    """

    def __init__(
        self,
        number: int,
        nodes: Sequence[Address],
        stream: str,
        payload: bytes,
        *,
        window: int = 0,
        rate: float = 0,
    ) -> None:
        self.home = self.place = number
        self.acks: Counter[int] = Counter()
        self.last = time.perf_counter()
        self.gap, self.gap_end = 0.0, self.last
        self.sock: socket.socket | None = None
        self.wants_home = False
        self._nodes, self._window, self._rate = nodes, window, rate
        kind = "w" if window else "r"
        self._inbox = b"_INBOX.%b%d." % (kind.encode(), number)
        self._head = b"PUB %b.%d %b" % (stream.encode(), number, self._inbox)
        self._tail = b" %d\r\n%b\r\n" % (len(payload), payload)
        self._sent = self._answered = self._base = 0
        self._rest = self._out = b""
        self._began = self._retry_at = self._moved = 0.0

    def mark(self) -> None:
        """Measure the longest time without an acknowledgement from now on."""
        self.last = self.gap_end = time.perf_counter()
        self.gap = 0.0

    def connect(self, now: float) -> bool:
        """Connect to the current node; if that fails, choose the next node. Returns True if
        connected.

        If `wants_home` is set, the preferred node is chosen first. `now` is in seconds of
        `time.perf_counter`.
        """
        if now < self._retry_at:
            return False
        if self.wants_home:
            self.place, self.wants_home = self.home, False
        try:
            self.sock = socket.create_connection(self._nodes[self.place], timeout=_CONNECT_S)
        except OSError:
            self.place = (self.place + 1) % len(self._nodes)
            self._retry_at = now + _RETRY_S
            return False
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self._rest, self._out = b"", HELLO % b"" + b"SUB %b* 1\r\n" % self._inbox
        self._answered, self._began, self._moved = self._sent, now, now
        self._base = self._sent
        return True

    def read(self, now: float) -> None:
        """Read answers and count acknowledgements, as of `now` in seconds of `time.perf_counter`.

        Raises OSError if the connection has ended.
        """
        assert self.sock is not None
        piece = self.sock.recv(CHUNK)
        if not piece:
            raise ConnectionResetError
        whole, _, self._rest = (self._rest + piece).rpartition(b"\r\n")
        if b"PING" in whole:
            self._out += b"PONG\r\n"
        if acks := whole.count(b'"seq":'):
            self.acks[int(now / TICK_S)] += acks
            if now - self.last > self.gap:
                self.gap, self.gap_end = now - self.last, now
            self.last = self._moved = now
        at = whole.rfind(b"MSG " + self._inbox)  # ends of MSG or HMSG; acks arrive in order
        if at >= 0:
            begin = at + 4 + len(self._inbox)
            self._answered = int(whole[begin : whole.index(b" ", begin)]) + 1
            if not acks:  # a refused client waits before it tries again
                self._retry_at = now + _RETRY_S

    def write(self, now: float) -> None:
        """Send the messages that are due at `now`, in seconds of `time.perf_counter`.

        Raises OSError if the connection has ended.
        """
        assert self.sock is not None
        if self._window and now - self._moved > STALL_S:
            self._answered, self._moved = self._sent, now
        if len(self._out) < CHUNK and now >= self._retry_at:
            count = self._due(now)
            numbers = range(self._sent, self._sent + count)
            self._out += b"".join(self._head + b"%d" % i + self._tail for i in numbers)
            self._sent += count
        with contextlib.suppress(BlockingIOError):
            self._out = self._out[self.sock.send(self._out) :] if self._out else b""

    def _due(self, now: float) -> int:
        if self._window:
            return max(0, self._window - (self._sent - self._answered))
        return max(0, int((now - self._began) * self._rate) - (self._sent - self._base))

    def close(self) -> None:
        """Close the connection."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None


class Load:
    """Publishers in a thread of their own, which ends with the `with` block."""

    def __init__(self, publishers: Sequence[Publisher]) -> None:
        self.publishers = publishers
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def mark(self) -> None:
        """Measure the longest time without an acknowledgement from now on."""
        for publisher in self.publishers:
            publisher.mark()

    def go_home(self) -> None:
        """Reconnect each publisher to the node that it prefers."""
        for publisher in self.publishers:
            publisher.wants_home = publisher.place != publisher.home

    def flows(self, since: float) -> bool:
        """Return True if each publisher got an acknowledgement after the time `since`.

        `since` is in seconds of `time.perf_counter`.
        """
        return all(publisher.last > since for publisher in self.publishers)

    def _run(self) -> None:
        with contextlib.closing(select.epoll()) as poll:
            while not self._over.is_set():
                self._poll_once(poll)
        for publisher in self.publishers:
            publisher.close()

    def _poll_once(self, poll: select.epoll) -> None:
        ready = {fd for fd, _ in poll.poll(0.002)}
        for publisher in self.publishers:
            now = time.perf_counter()
            if publisher.wants_home:
                publisher.close()
            if publisher.sock is None:
                if not publisher.connect(now):
                    continue
                assert publisher.sock is not None, "connected"
                poll.register(publisher.sock.fileno(), select.EPOLLIN)
            try:
                if publisher.sock.fileno() in ready:
                    publisher.read(now)
                publisher.write(now)
            except OSError:
                publisher.close()
