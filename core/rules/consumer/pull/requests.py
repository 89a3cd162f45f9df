"""Pull requests: parsing, the queue in which they wait, and the statuses that end them.

Waiting requests get one message each, in rotation. A request leaves the queue when its batch is
complete, when the next message exceeds its `max_bytes`, when it expires, or, with `no_wait`, when
no more messages are available. A request whose batch is incomplete ends with exactly one status.
Statuses are added to `Waiting.outbox` as (reply subject, header block), in the order of events.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from core.goinput import parse_int, trim_space
from core.model import codec
from core.model.consumer import ConsumerConfig, NextRequest, PriorityPolicy
from core.model.gojson import JsonError
from core.model.gotime import format_duration
from core.units import ConsumerSeq

_BATCH = attrgetter("batch")
PRIORITY_MAX = 9

IDLE_HEARTBEAT = b"100 Idle Heartbeat"
NO_MESSAGES = b"404 No Messages"
REQUEST_TIMEOUT = b"408 Request Timeout"
REQUESTS_PENDING = b"408 Requests Pending"
EXCEEDED_MAX_WAITING = b"409 Exceeded MaxWaiting"
SIZE_EXCEEDS = b"409 Message Size Exceeds MaxBytes"
BATCH_COMPLETED = b"409 Batch Completed"
CONSUMER_DELETED = b"409 Consumer Deleted"
PUSH_BASED = b"409 Consumer is push based"
WRONG_PIN = b"423 Nats-Wrong-Pin-Id"
PIN_MISMATCH = b"423 Nats-Pin-Id mismatch"
SERVER_SHUTDOWN = b"409 Server Shutdown"


def status(line: bytes) -> bytes:
    """Return a header block that consists of the status `line`, such as `404 No Messages`."""
    return b"NATS/1.0 %b\r\n\r\n" % line


def status_left(line: bytes, request: "PullRequest") -> bytes:
    """Return the header block of a status that ends a pull request.

    It contains the numbers of messages and bytes that the request still wanted.
    """
    return b"NATS/1.0 %b\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n" % (
        line,
        request.batch,
        request.max_bytes,
    )


def idle_heartbeat(cseq: ConsumerSeq, sseq: int, stalled: bytes = b"") -> bytes:
    """Return the header block of an idle heartbeat with the last delivered sequences.

    `stalled` is the reply subject of an unanswered flow-control request (b"": none).
    """
    extra = b"Nats-Consumer-Stalled: %b\r\n" % stalled if stalled else b""
    return b"NATS/1.0 %b\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n%b\r\n" % (
        IDLE_HEARTBEAT,
        cseq,
        sseq,
        extra,
    )


@dataclass(slots=True, eq=False)
class PullRequest:
    """One pull request of a client. Times are monotonic nanoseconds (0: none).

    Under the overflow policy, a request with `min_pending` or `min_ack_pending` gets messages only
    while one of these two conditions holds.

    Attributes:
        reply: Reply subject.
        batch: Messages left to deliver.
        expires: Time at which the request ends.
        no_wait: Whether the request ends when there is no message for it.
        max_bytes: Bytes left to deliver (0: no limit).
        heartbeat: Interval of idle heartbeats, in nanoseconds (0: no heartbeats).
        beat: Time of the next heartbeat.
        delivered: Number of delivered messages.
        receivers, frame, frame_for: Caches of `core.jetstream.consumer.pump`.
        parked: Whether the request gets no messages at present, because the output to its client is
            blocked.
        group: Name of the priority group ("": none).
        pin: Id of the pinned client ("": none).
        priority: Priority from 0 (first) to 9.
        min_pending: Least `num_pending` of the consumer (0: no condition).
        min_ack_pending: Least `num_ack_pending` of the consumer (0: no condition).
    """

    reply: bytes
    batch: int = 1
    expires: int = 0
    no_wait: bool = False
    max_bytes: int = 0
    heartbeat: int = 0
    beat: int = 0
    delivered: int = 0
    receivers: object = None
    frame: bytes = b""
    frame_for: object = None
    parked: bool = False
    group: str = ""
    pin: str = ""
    priority: int = 0
    min_pending: int = 0
    min_ack_pending: int = 0

    def wants(self, pending: int, ack_pending: int) -> bool:
        """Return whether the request gets messages at these counts, under the overflow policy."""
        if self.min_pending <= 0 and self.min_ack_pending <= 0:
            return True
        return 0 < self.min_pending <= pending or 0 < self.min_ack_pending <= ack_pending

    def is_plain(self, now: int) -> bool:
        """Return whether only the batch limits the request at `now` (monotonic nanoseconds).

        True if it has no `max_bytes`, its client's output is not blocked, and it has not expired.
        """
        return not (self.max_bytes or self.parked or 0 < self.expires <= now)

    def ends_without_messages(self) -> bool:
        """Return whether the request ends when no message is available for it now."""
        return self.no_wait and (self.delivered > 0 or not self.expires)

    def wakes(self) -> int:
        """Return the time of the request's next heartbeat or end, whichever is earlier.

        In monotonic nanoseconds (0: neither).
        """
        if self.beat and (not self.expires or self.beat < self.expires):
            return self.beat
        return self.expires


class BadRequest(ValueError):
    """A pull request that is refused; `line` is the status to answer."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line.encode()


_read = codec.older_reader(NextRequest)
_GO_STRUCT = NextRequest.go_name


def read_request(body: bytes, reply: bytes, now: int, config: ConsumerConfig) -> PullRequest:
    """Parse the body of a pull request and check it against the limits of the consumer.

    The body is empty (one message), digits (a batch), or a JSON object with all options. Any other
    body counts as one message. `now` is in monotonic nanoseconds.

    Raises:
        BadRequest: The request is refused, with the status for the client.
    """
    body = trim_space(body)
    asked = NextRequest(batch=1)
    is_object = body[:1] == b"{"
    if is_object:
        asked = _read_object(body)
    elif body:
        asked = NextRequest(batch=_read_number(body))
    if asked.idle_heartbeat > 0 and asked.idle_heartbeat * 2 > asked.expires:
        raise BadRequest("400 Bad Request - heartbeat value too large")
    if 0 < config.max_batch < asked.batch:
        raise BadRequest(f"409 Exceeded MaxRequestBatch of {config.max_batch}")
    if 0 < config.max_expires < asked.expires:
        limit = format_duration(config.max_expires)
        raise BadRequest(f"409 Exceeded MaxRequestExpires of {limit}")
    if 0 < config.max_bytes < asked.max_bytes:
        raise BadRequest(f"409 Exceeded MaxRequestMaxBytes of {config.max_bytes}")
    if is_object:  # another body has no group, which nats-server allows
        _check_group(asked, config)
    return PullRequest(
        reply,
        asked.batch,
        # A negative expiry is allowed: the request expires at the first check.
        expires=now + asked.expires if asked.expires else 0,
        no_wait=asked.no_wait,
        max_bytes=max(asked.max_bytes, 0),
        heartbeat=max(asked.idle_heartbeat, 0),
        beat=now + asked.idle_heartbeat if asked.idle_heartbeat > 0 else 0,
        group=asked.group,
        pin=asked.id,
        priority=asked.priority,
        min_pending=asked.min_pending,
        min_ack_pending=asked.min_ack_pending,
    )


def _check_group(asked: NextRequest, config: ConsumerConfig) -> None:
    """Raise BadRequest if options of the request contradict the priority policy."""
    policy = config.priority_policy
    problem = ""
    if policy is not PriorityPolicy.OVERFLOW and (asked.min_pending or asked.min_ack_pending):
        problem = "Not a Overflow Priority consumer"
    elif policy is not PriorityPolicy.PINNED_CLIENT and asked.id:
        problem = "Not a Pinned Client Priority consumer"
    elif not 0 <= asked.priority <= PRIORITY_MAX:
        problem = f"Priority must be between 0 and {PRIORITY_MAX}"
    elif policy is not PriorityPolicy.NONE and not asked.group:
        problem = "Priority Group missing"
    elif policy is not PriorityPolicy.NONE and asked.group not in config.priority_groups:
        problem = "Invalid Priority Group"
    if problem:
        raise BadRequest(f"400 Bad Request - {problem}")


def _read_number(body: bytes) -> int:
    """Return the batch of a pull request whose body has only digits; 1 if it exceeds 64 bits."""
    number = parse_int(body.decode("latin-1"))
    return 1 if number is None else number


def _read_object(body: bytes) -> NextRequest:
    try:
        return _read(body)
    except JsonError as error:
        text = str(error).replace(_GO_STRUCT, "")
        raise BadRequest(f"400 Bad Request - {text}") from None


class Waiting:
    """The queue of waiting pull requests of one consumer.

    Attributes:
        queue: The requests, the next to get messages first.
        outbox: Statuses to send, as (reply subject, header block).
    """

    __slots__ = ("_earliest", "outbox", "queue")

    def __init__(self) -> None:
        self.queue: deque[PullRequest] = deque()
        self.outbox: list[tuple[bytes, bytes]] = []
        self._earliest = 0

    pin = ""
    """Id of the pinned client; always empty here, set only by `GroupWaiting`."""

    def __len__(self) -> int:
        return len(self.queue)

    def adopt_requests(self, other: "Waiting") -> None:
        """Move the requests and statuses of another queue to the end of this one."""
        for request in other.queue:
            self.add(request)
        self.outbox += other.outbox

    def add(self, request: PullRequest) -> None:
        """Add a pull request to the end of the queue."""
        self.queue.append(request)
        wakes = request.wakes()
        if wakes and (not self._earliest or wakes < self._earliest):
            self._earliest = wakes

    def deadline(self) -> int | None:
        """Return the time of the next `expire`, in monotonic nanoseconds (None: no call is needed).

        The time may be too early, never too late.
        """
        return (self._earliest or None) if self.queue else None

    def asked(self) -> int:
        """Return the number of messages that all waiting requests still want."""
        return sum(map(_BATCH, self.queue))

    def can_serve(self) -> bool:
        """Return whether a waiting request can get messages now."""
        queue = self.queue
        if not queue:
            return False
        return not queue[0].parked or any(not request.parked for request in queue)

    def pass_over(self) -> None:
        """Do nothing: without priority groups, all requests continue to wait.

        Called when no request can get the next message.
        """

    def assign(
        self, limit: int, now: int, size_of: Callable[[int], int] | None = None
    ) -> list[PullRequest]:
        """Assign the next `limit` messages to requests; return the request of each message.

        The result is shorter if no request is left, or if a status has to be sent before the next
        message. The caller sends the messages, then the outbox, then calls again.

        Args:
            limit: Number of messages.
            now: Monotonic nanoseconds.
            size_of: Returns the size in bytes of the message at an index of this call, counted
                against `max_bytes` (None: sizes do not count).
        """
        queue = self.queue
        if len(queue) == 1 and not queue[0].max_bytes and not queue[0].parked:
            return self._assign_alone(queue[0], limit, now)
        if all(request.is_plain(now) for request in islice(queue, limit)):
            return self._assign_rounds(limit, now)
        owners: list[PullRequest] = []
        passed = 0
        while queue and len(owners) < limit and passed < len(queue) and not self.outbox:
            request = queue.popleft()
            if request.parked:
                queue.append(request)
                passed += 1
                continue
            if request.expires and request.expires <= now:
                self.outbox.append((request.reply, status_left(REQUEST_TIMEOUT, request)))
                continue
            if request.max_bytes and size_of and not self._fits(request, size_of(len(owners))):
                continue
            passed = 0
            owners.append(request)
            self._serve(request, 1, now)
            if request.batch > 0:
                queue.append(request)
            elif request.max_bytes > 0:
                self.outbox.append((request.reply, status_left(BATCH_COMPLETED, request)))
        return owners

    def _assign_alone(self, request: PullRequest, limit: int, now: int) -> list[PullRequest]:
        if request.expires and request.expires <= now:
            self.queue.clear()
            self.outbox.append((request.reply, status_left(REQUEST_TIMEOUT, request)))
            return []
        # A batch of zero or less still gets one message, as every request does.
        count = min(limit, max(request.batch, 1))
        self._serve(request, count, now)
        if request.batch <= 0:
            self.queue.clear()
        return [request] * count

    def _assign_rounds(self, limit: int, now: int) -> list[PullRequest]:
        """Assign messages to requests that only their batch limits, several to each at a time.

        `now` is in monotonic nanoseconds. Returns the request of each message.
        """
        queue = self.queue
        owners: list[PullRequest] = []
        while queue and len(owners) < limit:
            left = limit - len(owners)
            rounds = 0
            if left >= len(queue):
                rounds = min(left // len(queue), max(min(map(_BATCH, queue)), 1))
            served = list(queue) if rounds else [queue.popleft() for _ in range(left)]
            for request in served:
                self._serve(request, rounds or 1, now)
            owners += served * (rounds or 1)
            waiting = [request for request in served if request.batch > 0]
            if rounds:
                queue.clear()
            queue.extend(waiting)
        return owners

    def _fits(self, request: PullRequest, size: int) -> bool:
        """Count a message of `size` bytes against `max_bytes`; if it is too large, end the request.

        Returns whether the message fits.
        """
        if size > request.max_bytes:
            self.outbox.append((request.reply, status_left(SIZE_EXCEEDS, request)))
            return False
        request.max_bytes -= size
        if not request.max_bytes:
            request.batch = 1
        return True

    def _serve(self, request: PullRequest, count: int, now: int) -> None:
        request.batch -= count
        request.delivered += count
        if request.heartbeat:
            request.beat = now + request.heartbeat

    def end_of_stream(self) -> None:
        """End `no_wait` requests with a status, because the stream has no more messages.

        A request with an expiry that has got no message yet continues to wait.
        """
        if not any(request.no_wait for request in self.queue):
            return
        for request in list(self.queue):
            if request.ends_without_messages():
                self.queue.remove(request)
                self.outbox.append((request.reply, status(NO_MESSAGES)))

    def expire(self, now: int, cseq: ConsumerSeq, sseq: int) -> None:
        """End expired requests with a status, and add due heartbeats to the outbox.

        If any request is due, `no_wait` requests end too: they still wait only because
        `max_ack_pending` is reached. `now` is in monotonic nanoseconds; `cseq` and `sseq` are the
        last delivered sequences.
        """
        if not self._earliest or now < self._earliest:
            return
        earliest, kept = 0, deque[PullRequest]()
        has_woken = any(0 < request.wakes() <= now for request in self.queue)
        for request in self.queue:
            if request.expires and request.expires <= now:
                self.outbox.append((request.reply, status_left(REQUEST_TIMEOUT, request)))
                continue
            if has_woken and request.ends_without_messages():
                self.outbox.append((request.reply, status(NO_MESSAGES)))
                continue
            if request.beat and request.beat <= now:
                self.outbox.append((request.reply, idle_heartbeat(cseq, sseq)))
                request.beat = now + request.heartbeat
            wakes = request.wakes()
            if wakes and (not earliest or wakes < earliest):
                earliest = wakes
            kept.append(request)
        self.queue = kept
        self._earliest = earliest

    def drop(self, request: PullRequest) -> None:
        """Remove a request without a status, because its reply subject has no subscriber."""
        if request in self.queue:
            self.queue.remove(request)

    def end_all(self, line: bytes, *, tell_left: bool = False) -> None:
        """End every request with the status `line`.

        `tell_left` adds the messages and bytes that each request still wants.
        """
        for request in self.queue:
            block = status_left(line, request) if tell_left else status(line)
            self.outbox.append((request.reply, block))
        self.queue.clear()
