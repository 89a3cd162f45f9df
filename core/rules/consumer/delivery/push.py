"""Push delivery: flow control, idle heartbeats and the rate limit of one push consumer.

Flow control counts the bytes sent. When they exceed half the window, a flow-control request is
sent. Its answer subtracts the bytes sent before the request and doubles the window (2 MiB at first,
32 MiB at most). While the count is above the window no message is delivered.

An idle heartbeat is sent when no message was sent for an interval. It contains the reply subject of
the unanswered flow-control request, so that a client that lost the request can answer it.
"""

from collections.abc import Sequence
from itertools import accumulate, islice

from core.model.names import BASE62
from core.rules.consumer.delivery.pace import TokenBucket

_WINDOW_MAX = 32 * 1024 * 1024
_WINDOW_FIRST = _WINDOW_MAX // 16

FLOW_CONTROL_REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


class Push:
    """Flow control, heartbeats and rate limit of one push consumer.

    `start` is called when the deliver subject gets a subscriber, `stop` when it has none.

    Args:
        prefix: `$JS.FC.<stream>.<consumer>.` (b"": no flow control).
        heartbeat: Interval of idle heartbeats, in nanoseconds (0: none).
        rate_bps: Bits per second (0: unlimited).
        burst: Bytes that may be sent at once under the rate limit.

    Attributes:
        active: Whether the deliver subject has a subscriber.
        beat: Time of the next heartbeat, in monotonic nanoseconds (0: none).
        window, sent: The flow-control window and the bytes counted against it.
        request, request_bytes: Reply subject of the unanswered flow-control request (b"": none),
            and the value of `sent` at that time.
    """

    __slots__ = (
        "_burst",
        "_requests",
        "active",
        "beat",
        "bucket",
        "heartbeat",
        "prefix",
        "request",
        "request_bytes",
        "sent",
        "window",
    )

    def __init__(self, prefix: bytes, heartbeat: int, rate_bps: int, burst: int) -> None:
        self.active = False
        self.prefix = prefix
        self.heartbeat = heartbeat
        self.beat = 0
        self.window = _WINDOW_FIRST
        self.sent = 0
        self.request = b""
        self.request_bytes = 0
        self._requests = 0
        self._burst = burst
        self.bucket: TokenBucket | None = None
        self.set_rate(rate_bps)

    def set_rate(self, rate_bps: int) -> None:
        """Set the rate limit in bits per second (0: no limit)."""
        if not rate_bps:
            self.bucket = None
        elif self.bucket is None:
            self.bucket = TokenBucket(rate_bps, self._burst)
        else:
            self.bucket.set_rate(rate_bps)

    def start(self, now: int) -> None:
        """Begin deliveries to a new subscriber, without flow-control state of an earlier one.

        `now` is in monotonic nanoseconds.
        """
        self.active = True
        self.sent = 0
        self.request = b""
        self.window = _WINDOW_FIRST
        self.beat = now + self.heartbeat if self.heartbeat else 0

    def stop(self) -> None:
        """End deliveries: the deliver subject has no subscriber any more."""
        self.active = False
        self.beat = 0

    def is_open(self, now: int) -> bool:
        """Return whether flow control and the rate limit allow a delivery at `now`.

        `now` is in monotonic nanoseconds.
        """
        if self.bucket is not None and not self.bucket.is_ready(now):
            return False
        return not self.prefix or self.sent <= self.window

    def measures(self) -> bool:
        """Return whether flow control or a rate limit counts the sizes of messages."""
        return self.bucket is not None or self.prefix != b""

    def fitting(self, sizes: Sequence[int]) -> int:
        """Return how many messages of these sizes, from the first on, may be sent now.

        `sizes` are in bytes. Flow control allows the message that exceeds the window; the rate
        limit does not. A flow-control request must follow immediately once half the window is
        exceeded, so the count ends there.
        """
        count = len(sizes)
        if self.bucket is not None:
            count = self.bucket.affordable(sizes)
        if self.prefix:
            half = self.window // 2
            asks_next = not self.request and self.sent <= half
            allowed = (half if asks_next else self.window) - self.sent
            before = accumulate(sizes[:count], initial=0)
            count = sum(1 for total in islice(before, count) if total <= allowed)
        return count

    def count(self, size: int, now: int) -> bytes:
        """Count `size` sent bytes, and begin a new heartbeat interval at `now`.

        `now` is in monotonic nanoseconds. Returns the reply subject of a flow-control request to
        send (b"": none).
        """
        if self.heartbeat:
            self.beat = now + self.heartbeat
        if self.bucket is not None:
            self.bucket.pay(size)
        if not self.prefix:
            return b""
        self.sent += size
        return self.ask() if self.sent > self.window // 2 else b""

    def ask(self) -> bytes:
        """Begin a flow-control request; return its reply subject.

        Returns b"" if another request is unanswered.
        """
        if self.request:
            return b""
        self._requests += 1
        number, digits = self._requests, ""
        for _ in range(4):
            number, digit = divmod(number, len(BASE62))
            digits += BASE62[digit]
        self.request = self.prefix + digits.encode()
        self.request_bytes = self.sent
        return self.request

    def answered(self, subject: bytes) -> bool:
        """Process the answer to a flow-control request, received on `subject`.

        Returns False if that is not the reply subject of the unanswered request.
        """
        if not self.request or subject != self.request:
            return False
        self.window = min(self.window * 2, _WINDOW_MAX)
        self.sent = max(self.sent - self.request_bytes, 0)
        self.request = b""
        self.request_bytes = 0
        return True

    def due_heartbeat(self, now: int) -> bool:
        """Return whether an idle heartbeat is due at `now`; if so, begin the next interval.

        `now` is in monotonic nanoseconds.
        """
        if not self.beat or now < self.beat:
            return False
        self.beat = now + self.heartbeat
        return True

    def deadline(self) -> int | None:
        """Return the time of the next heartbeat, or of the next message under the rate limit.

        It is the earlier of the two, in monotonic nanoseconds; None: neither is due.
        """
        paid = self.bucket.deadline() if self.bucket is not None and self.active else None
        if paid is None:
            return self.beat or None
        return min(paid, self.beat) if self.beat else paid
