"""A follower: reads one origin with a consumer, and passes the messages to `stream_sourcing`.

    IDLE --time--> ASKING --consumer--> FOLLOWING --gap, silence, stalled--> IDLE
                      |                (RESETTING: the consumer is reset)
                      +--refused-------> IDLE, for longer each time

A follower depends only on the stored position: after every interruption a new consumer starts after
the last committed copy, so that no message is lost or stored twice. A flow-control request of the
origin is answered once all messages before it are committed; this bounds the messages that wait
here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from core.goinput import parse_uint
from core.jetstream.sourcing.ack_subjects import AckSubjects, parse_ack_subjects
from core.jetstream.sourcing.origin import Origin, StartPosition, without_publish_headers
from core.jetstream.sourcing.origin_session import OriginSession
from core.model.api_errors import api_error, err_code
from core.model.codec import decode_lenient
from core.model.consumer import AckPolicy, ConsumerInfo
from core.model.gojson import JsonError
from core.model.response import ErrorBody, Response
from core.model.stream import StreamSourceInfo
from core.protocol import headers as header_block
from core.protocol.messages import MessageColumns
from core.rules.stream.plans.sourced import SourcedBatch
from core.units import NANOS_PER_SECOND, ConsumerSeq

if TYPE_CHECKING:
    from core.jetstream.services import Services
    from core.pubsub.account import Account

_ANSWER_WITHIN = 10 * NANOS_PER_SECOND
_SILENCE = 10 * NANOS_PER_SECOND
_PAUSE, _PAUSE_MAX = 2 * NANOS_PER_SECOND, 60 * NANOS_PER_SECOND
_IDENTITY = b"Nats-Stream-Identity"
_MISMATCH = err_code("JSConsumerStreamIdentityMismatch")
# A follower with fewer messages left counts as caught up.
_NEARLY = 10
# Errors of servers that support neither the required API level nor the member `sourcing`.
_OLD_SERVER = (err_code("JSRequiredApiLevel"), err_code("JSInvalidJSON"))


class FollowerPhase(Enum):
    """The phases of reading an origin (the stream that a mirror or source copies).

    IDLE: no consumer is in use. ASKING: a consumer is requested. RESETTING: the durable consumer is
    being reset. FOLLOWING: messages of the consumer are processed. CLOSED: reading has ended.
    """

    IDLE = auto()
    ASKING = auto()
    RESETTING = auto()
    FOLLOWING = auto()
    CLOSED = auto()


class DeliveredPosition(NamedTuple):
    """The sequences of one message that the origin's consumer delivered.

    Acknowledgements to the origin contain these sequences, not the position of the last copy. The
    origin refuses an ack beyond its last delivery, and during redelivery the copy is ahead of it.

    Attributes:
        cseq: The consumer sequence.
        sseq: The stream sequence in the origin.
    """

    cseq: ConsumerSeq
    sseq: int


class OriginFollower:
    """Reads one origin, and requests a new consumer after every interruption.

    Args:
        account: The account in which the origin is read.
        services: The objects that all streams of the node share.
        origin: The origin.
        start: Returns the stored position to start from.
        ready: Called when received messages wait to be stored.
    """

    def __init__(
        self,
        account: Account,
        services: Services,
        origin: Origin,
        start: Callable[[OriginFollower], StartPosition],
        ready: Callable[[OriginFollower], None],
    ) -> None:
        self.origin = origin
        self.phase = FollowerPhase.IDLE
        self.armed = 0
        self.busy = False
        """True while messages of this follower are being stored."""
        self.identity = ""
        self.error: ErrorBody | None = None
        self.caught_up = False
        """True once fewer than ten messages were left at the origin."""
        self._account = account
        self._services = services
        self._clock = services.clock
        self._start = start
        self._ready = ready
        self._left = 0
        """Messages of the origin after the last received one."""
        self._held: ErrorBody | None = None
        """Error of the next message, which cannot be stored now; None: no error."""
        self._held_left = 0
        """Count of messages from the one that cannot be stored now on; 0: it can be stored."""
        self._left_out: ErrorBody | None = None
        """Error of the last skipped message, which can never be stored; None: none."""
        self._session: OriginSession | None = None
        self._waiting: deque[tuple[SourcedBatch, DeliveredPosition]] = deque()
        self._due = 0
        self._received_at = 0
        self._fails = 0
        self._asked_at = -_PAUSE
        self._is_plain = False
        self._acks = False
        self._has_consumer = False
        self.forgets = False
        """True if the origin was deleted and created again, so that copying starts over."""
        self._cseq, self._sseq = ConsumerSeq(0), 0
        self._acked_position = DeliveredPosition(ConsumerSeq(0), 0)
        self._flow: tuple[bytes, int] | None = None

    # -- life --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open the session with which the origin is read, and request a consumer."""
        self._session = OriginSession(self._account, self)
        self._ask()

    def close(self, *, forget: bool) -> None:
        """Stop reading the origin.

        With `forget` also delete a durable consumer that this follower created.
        """
        if self.phase is FollowerPhase.CLOSED:
            return
        self.phase = FollowerPhase.CLOSED
        self._waiting.clear()
        self._services.timers.forget(self)
        if self._session is not None:
            if forget and self._acks and self._has_consumer and not self.origin.reference:
                names = f"DELETE.{self.origin.source.name}.{self.origin.consumer}"
                self._session.request(self.origin.subject(names), b"", b"")
            self._session.close()

    def retry_soon(self, *, is_new: bool) -> None:
        """Request a consumer soon, because the origin may have become available.

        Args:
            is_new: The origin or its connection is new, so that the present consumer or its last
                messages may be lost: a new consumer is requested in any case.
        """
        if is_new and self.phase is FollowerPhase.FOLLOWING:
            self._pause(failed=False)
        if self.phase is FollowerPhase.IDLE and self._session is not None:
            self._fails = 0
            self._wait_until(max(self._clock.monotonic(), self._asked_at + _PAUSE // 20))

    # -- time --------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        """Return the time of the next call of `on_deadline`, in monotonic nanoseconds.

        None: there is no deadline.
        """
        if self.phase is FollowerPhase.FOLLOWING:
            return self._received_at + _SILENCE
        return self._due or None

    def on_deadline(self, now: int) -> None:
        """Request a consumer after a pause, a missing answer, or ten seconds without a message.

        `now` is in monotonic nanoseconds.
        """
        if self.phase is FollowerPhase.IDLE:
            if self._due and now >= self._due:
                self._ask()
        elif self.phase in (FollowerPhase.ASKING, FollowerPhase.RESETTING):
            if now >= self._due:
                self._pause(failed=True)
        elif self.phase is FollowerPhase.FOLLOWING and now >= self._received_at + _SILENCE:
            self._pause(failed=False)

    def _wait_until(self, when: int) -> None:
        self._due = when
        self._services.timers.forget(self)
        self._services.timers.at(self, when)

    def _pause(self, *, failed: bool) -> None:
        """Stop using the consumer, and request another one later.

        The next request follows two seconds after the last one. After failures the pause doubles,
        up to 60 seconds.
        """
        assert self._session is not None, "only a follower that began is interrupted"
        self._session.unwatch()
        self._waiting.clear()
        self._flow = None
        self.phase = FollowerPhase.IDLE
        now = self._clock.monotonic()
        pause = _PAUSE
        if failed:
            pause = min(_PAUSE << min(self._fails, 10), _PAUSE_MAX)
            self._fails += 1
            self._wait_until(now + pause)
        else:
            self._wait_until(max(now, self._asked_at + pause))

    # -- asking ------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Request a consumer that starts after the stored position.

        While messages of this follower are being stored, the request waits.
        """
        if self.busy:
            self._due = 0
            return
        assert self._session is not None, "only a follower that began asks"
        start = self._start(self)
        self.identity, self._sseq = start.identity, start.after
        self._cseq, self._flow = ConsumerSeq(0), None
        self._acked_position = DeliveredPosition(self._cseq, start.after)
        self._acks = bool(self.origin.reference)
        deliver = self.origin.deliver_subject()
        self._session.watch(deliver.encode())
        self.phase = FollowerPhase.ASKING
        self._asked_at = self._clock.monotonic()
        self._wait_until(self._asked_at + _ANSWER_WITHIN)
        headers = b"" if self._is_plain else self.origin.headers(start)
        if self.origin.reference:
            self._reset(headers)
            return
        subject, body = self.origin.create(start, deliver, plain=self._is_plain)
        if not self._session.request(subject, headers, body):
            self._pause(failed=True)

    def _reset(self, headers: bytes) -> None:
        """Reset the durable consumer, so that it redelivers its unacknowledged messages."""
        assert self._session is not None, "only a follower that began asks"
        self.phase = FollowerPhase.RESETTING
        name = self.origin.reference or self.origin.consumer
        subject = self.origin.subject(f"RESET.{self.origin.source.name}.{name}")
        if not self._session.request(subject, headers, b""):
            self._pause(failed=True)

    def on_answer(self, headers: bytes, payload: bytes) -> None:
        """Process the answer to a consumer request: consumer info, or an error."""
        if self.phase not in (FollowerPhase.ASKING, FollowerPhase.RESETTING):
            return
        try:
            error = decode_lenient(Response, payload).error
            info = decode_lenient(ConsumerInfo, payload)
        except JsonError as broken:
            self._refused(ErrorBody.of(api_error("JSInvalidJSON", err=str(broken))))
            return
        if error is not None:
            self._refused(error)
            return
        self._has_consumer = True
        self._acks = info.config.ack_policy is AckPolicy.FLOW_CONTROL
        if self.origin.reference and not self._acks:
            kind = "Mirror" if self.origin.mirrors else "Source"
            self._refused(ErrorBody.of(api_error(f"JS{kind}ConsumerRequiresAckFC")))
            return
        identity = header_block.find(headers, _IDENTITY) if headers else None
        self.identity = (identity or b"").decode("utf-8", "replace")
        if self.phase is FollowerPhase.ASKING and self._acks and info.delivered.consumer_seq:
            self._reset(self.origin.headers(StartPosition(0, self.identity)))
            return
        self._follow(info.delivered.stream_seq)

    def _refused(self, error: ErrorBody) -> None:
        self.error = error
        if error.err_code == _MISMATCH and not self.forgets:
            # Another stream has the name now: copy it from its beginning.
            self.forgets = True
            self._fails = 0
            self._pause(failed=False)
            return
        if error.err_code in _OLD_SERVER and not self._is_plain:
            self._is_plain = True
            self._fails = 0
            self._pause(failed=False)
            return
        self._pause(failed=True)

    def _follow(self, behind: int) -> None:
        """Start to process the messages of a consumer.

        `behind` is the origin's sequence before the first message.
        """
        self.phase = FollowerPhase.FOLLOWING
        self.error, self._fails = None, 0
        self._received_at = self._clock.monotonic()
        self._wait_until(self._received_at + _SILENCE)
        if self.origin.mirrors and behind > self._start(self).after:
            skipped = SourcedBatch(self.origin.key, self.identity, behind)
            self._waiting.appendleft((skipped, DeliveredPosition(ConsumerSeq(0), behind)))
        if self._waiting:
            self._ready(self)

    # -- messages ----------------------------------------------------------------------------

    def on_messages(self, columns: MessageColumns) -> None:
        """Process messages of the origin.

        If the consumer sequences have a gap, messages are missing, and a new consumer is requested.
        """
        self._received_at = self._clock.monotonic()
        stamps = parse_ack_subjects(columns.replies)
        if stamps is None or self.phase in (FollowerPhase.IDLE, FollowerPhase.CLOSED):
            return
        start, count = 0, len(stamps.cseqs)
        while start < count:
            if stamps.cseqs[start] == 1 and self._acks:
                self._cseq = ConsumerSeq(0)  # A durable consumer was reset.
            stop = stamps.unbroken(start, self._cseq + 1)
            if stop > start:
                self._receive(columns, stamps, start, stop)
            if stop < count and not (self._acks and stamps.cseqs[stop] == 1):
                break
            start = stop
        if start < count and self.phase is FollowerPhase.FOLLOWING:
            self._pause(failed=False)
            return
        self._left = stamps.left
        self.caught_up = self.caught_up or stamps.left < _NEARLY
        if self._waiting and self.phase is FollowerPhase.FOLLOWING:
            self._ready(self)

    def _receive(self, columns: MessageColumns, stamps: AckSubjects, start: int, stop: int) -> None:
        self._cseq = stamps.cseqs[stop - 1]
        batch = self._batch_of(columns, stamps, start, stop)
        self._sseq = batch.through
        self._waiting.append((batch, DeliveredPosition(self._cseq, stamps.seqs[stop - 1])))

    def _batch_of(
        self, columns: MessageColumns, stamps: AckSubjects, start: int, stop: int
    ) -> SourcedBatch:
        """Return the messages with indices [start, stop) that were not received before, as a batch.

        `stamps` are the parsed ack subjects of `columns`.
        """
        seqs = stamps.seqs[start:stop]
        batch = SourcedBatch(self.origin.key, self.identity, max(seqs[-1], self._sseq))
        batch.seqs, batch.times = seqs, stamps.times[start:stop]
        batch.columns = columns
        if start or stop < len(stamps.seqs):
            batch.columns = columns.part(start, stop)
        return batch.after(self._sseq)

    def _in_stored_form(self, batch: SourcedBatch) -> SourcedBatch:
        """Set the subjects and headers of an origin's messages to those of their stored copies."""
        columns = batch.columns
        if columns.has_headers:
            columns.headers = without_publish_headers(columns.headers, mirrors=self.origin.mirrors)
        if not self.origin.mirrors:
            origin, subjects = self.origin, columns.subjects
            columns.headers = origin.stored_headers(
                columns.headers, batch.seqs, subjects, self.identity
            )
            columns.has_headers = True
        columns.subjects = self.origin.renamed(columns.subjects)
        columns.replies = [b""] * len(columns)
        columns.count_bytes()
        batch.identity = self.identity
        return batch

    def next_batch(self, limit: int) -> tuple[SourcedBatch, DeliveredPosition] | None:
        """Return messages that wait to be stored, and the consumer's sequences after them.

        Returns about `limit` messages at most, or None if no messages wait.
        """
        if self.phase is not FollowerPhase.FOLLOWING or not self._waiting:
            return None
        batch, reached = self._waiting.popleft()
        while len(batch) and self._waiting and len(batch) + len(self._waiting[0][0]) <= limit:
            more, reached = self._waiting.popleft()
            batch.extend(more)
        return self._in_stored_form(batch), reached

    def has_waiting(self) -> bool:
        """Return whether received messages wait to be stored."""
        return self.phase is FollowerPhase.FOLLOWING and bool(self._waiting)

    # -- outcomes of plans -------------------------------------------------------------------

    def on_stored(self, reached: DeliveredPosition) -> None:
        """Record that messages up to `reached` are committed; answer a flow-control request."""
        self.busy = self.forgets = False
        self._held, self._held_left = None, 0
        if self.phase is FollowerPhase.FOLLOWING:
            self._acked_position = reached
            self._answer_flow()
        elif self.phase is FollowerPhase.IDLE and not self._due:
            self._ask()

    def on_left_out(self, error: ErrorBody) -> None:
        """Record the error of a skipped message, which STREAM.INFO then shows."""
        self._left_out = error

    def on_stalled(self, cseq: int, error: ErrorBody | None = None) -> None:
        """Request a message again later, because it could not be stored.

        Args:
            cseq: The consumer sequence of the message.
            error: The error with which the stream refuses the message; None: storage is
                unavailable.
        """
        self.busy = False
        self._held = error
        if self.phase is FollowerPhase.FOLLOWING:
            self._held_left = max(self._left + self._cseq - cseq + 1, 1)
        if self.phase is not FollowerPhase.CLOSED:
            self._pause(failed=True)

    # -- control -----------------------------------------------------------------------------

    def on_control(self, reply: bytes, headers: bytes) -> None:
        """Process a heartbeat or flow-control request of the origin's consumer.

        If a heartbeat shows that a message is missing, a new consumer is requested.
        """
        self._received_at = self._clock.monotonic()
        if reply:
            self._flow = reply, self._cseq
        if self.phase is not FollowerPhase.FOLLOWING:
            return
        if reply:
            self._answer_flow()
            return
        last = parse_uint(header_block.find(headers, b"Nats-Last-Consumer") or b"")
        if last and last != self._cseq:
            self._pause(failed=False)
            return
        stalled = header_block.find(headers, b"Nats-Consumer-Stalled")
        if stalled:
            self._flow = stalled, self._cseq
            self._answer_flow()

    def on_broken(self) -> None:
        """Request a new consumer, because received bytes could not be parsed."""
        if self.phase is not FollowerPhase.CLOSED:
            self._pause(failed=True)

    def _answer_flow(self) -> None:
        """Answer the flow-control request if all messages before it are committed."""
        if self._flow is None or self._acked_position.cseq < self._flow[1]:
            return
        (reply, _), self._flow = self._flow, None
        block = (
            b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"
            % self._acked_position
        )
        self._account.publish(reply, b"", block if self._acks else b"", b"")

    def info(self) -> StreamSourceInfo:
        """Return the progress of copying, for `mirror` or `sources` in STREAM.INFO."""
        source = self.origin.source
        now = self._clock.monotonic()
        return StreamSourceInfo(
            name=source.name,
            external=source.external,
            # As nats-server counts, except for messages that could not be stored: nats-server
            # counts them as stored.
            lag=self._held_left or max(self._left - 1, 0),
            active=now - self._received_at if self._received_at else -1,
            error=self.error or self._held or self._left_out,
            filter_subject=source.filter_subject,
            subject_transforms=source.subject_transforms,
        )
