"""Push delivery: flow control, heartbeats and the rate limit of one deliver subject.

Flow control: bytes sent count up; past half the window a FlowControl request goes out whose
answer counts them down again and doubles the window (2 MiB at first, 32 MiB at most). While the
count is beyond the window nothing is delivered. Heartbeats go out when nothing was sent for an
interval and name the outstanding request, so that a client which lost it can answer.
"""

from collections.abc import Sequence
from itertools import accumulate, islice

from core.consumer.pace import Bucket

_WINDOW_MAX = 32 * 1024 * 1024
_WINDOW_FIRST = _WINDOW_MAX // 16
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

FLOW_CONTROL_REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


class Push:
    """What limits deliveries to a subject, apart from acknowledgements.

    Args:
        prefix: `$JS.FC.<stream>.<consumer>.`; empty = no flow control.
        heartbeat: Nanoseconds; 0 = none.
        rate_bps: Bits per second; 0 = unlimited.
        burst: Bytes that may go out at once under the rate limit.
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
        self.bucket: Bucket | None = None
        self.set_rate(rate_bps)

    def set_rate(self, rate_bps: int) -> None:
        """Take a rate limit in bits per second; 0 = none."""
        if not rate_bps:
            self.bucket = None
        elif self.bucket is None:
            self.bucket = Bucket(rate_bps, self._burst)
        else:
            self.bucket.set_rate(rate_bps)

    def start(self, now: int) -> None:
        """Somebody listens: begin afresh, whatever the receiver before left unanswered."""
        self.active = True
        self.sent = 0
        self.request = b""
        self.window = _WINDOW_FIRST
        self.beat = now + self.heartbeat if self.heartbeat else 0

    def stop(self) -> None:
        """Nobody listens any more."""
        self.active = False
        self.beat = 0

    def is_open(self, now: int) -> bool:
        """Whether flow control and the rate limit let something out now."""
        if self.bucket is not None and not self.bucket.is_ready(now):
            return False
        return not self.prefix or self.sent <= self.window

    def measures(self) -> bool:
        """Whether the size of messages matters."""
        return self.bucket is not None or self.prefix != b""

    def fitting(self, sizes: Sequence[int]) -> int:
        """How many messages of these sizes may go out now, from the first on.

        Flow control lets the message out that goes beyond the window; the rate limit does not.
        Past half the window a request has to follow at once, so the count ends there.
        """
        count = len(sizes)
        if self.bucket is not None:
            count = self.bucket.affordable(sizes)
        if self.prefix:
            half = self.window // 2
            asks_next = not self.request and self.sent <= half
            room = (half if asks_next else self.window) - self.sent
            before = accumulate(sizes[:count], initial=0)
            count = sum(1 for total in islice(before, count) if total <= room)
        return count

    def count(self, size: int, now: int) -> bytes:
        """Count bytes that went out; the reply subject of a request to send now, or b""."""
        if self.heartbeat:
            self.beat = now + self.heartbeat
        if self.bucket is not None:
            self.bucket.pay(size)
        if not self.prefix:
            return b""
        self.sent += size
        return self.ask() if self.sent > self.window // 2 else b""

    def ask(self) -> bytes:
        """Make a flow-control request unless one is outstanding; its reply subject, or b""."""
        if self.request:
            return b""
        self._requests += 1
        number, digits = self._requests, ""
        for _ in range(4):
            number, digit = divmod(number, len(_DIGITS))
            digits += _DIGITS[digit]
        self.request = self.prefix + digits.encode()
        self.request_bytes = self.sent
        return self.request

    def answered(self, subject: bytes) -> bool:
        """Take the answer to a flow-control request; False if it is not the outstanding one."""
        if not self.request or subject != self.request:
            return False
        self.window = min(self.window * 2, _WINDOW_MAX)
        self.sent = max(self.sent - self.request_bytes, 0)
        self.request = b""
        self.request_bytes = 0
        return True

    def due_heartbeat(self, now: int) -> bool:
        """Whether a heartbeat has to go out now (and start the next interval)."""
        if not self.beat or now < self.beat:
            return False
        self.beat = now + self.heartbeat
        return True

    def deadline(self) -> int | None:
        """When a heartbeat is due or the rate limit lets something pass."""
        paid = self.bucket.deadline() if self.bucket is not None and self.active else None
        if paid is None:
            return self.beat or None
        return min(paid, self.beat) if self.beat else paid
