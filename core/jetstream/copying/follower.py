"""Follower: keeps a stream up with one origin.

    IDLE --time--> ASKING --consumer--> FOLLOWING --gap, silence, no room--> IDLE
                      |                (RESETTING: the consumer starts over)
                      +--refused-------> IDLE, for longer each time

Nothing is remembered but what is stored: after every interruption a consumer is asked for behind
the last copy that was committed, so that nothing is lost and nothing comes twice. Flow-control
requests are answered when what was sent before them is committed; that bounds what waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from core.goinput import parse_uint
from core.jetstream.copying.inbox import Inbox
from core.jetstream.copying.origin import Origin, Start, cleaned
from core.jetstream.copying.stamps import Stamps, read_stamps
from core.model.api_errors import api_error, err_code
from core.model.codec import decode_lenient
from core.model.consumer import AckPolicy, ConsumerInfo
from core.model.gojson import JsonError
from core.model.response import ErrorBody, Response
from core.model.stream import StreamSourceInfo
from core.protocol import headers as header_block
from core.protocol.messages import MessageColumns
from core.stream.copying import Run

if TYPE_CHECKING:
    from core.jetstream.services import Services
    from core.pubsub.account import Account

_SECOND = 1_000_000_000
_ANSWER_WITHIN = 10 * _SECOND
_SILENCE = 10 * _SECOND
_PAUSE, _PAUSE_MAX = 2 * _SECOND, 60 * _SECOND
_IDENTITY = b"Nats-Stream-Identity"
_MISMATCH = err_code("JSConsumerStreamIdentityMismatch")
# Fewer messages than this behind the origin is as good as none.
_NEARLY = 10
# Servers that do not know what is asked for: a required API level, a member of the configuration.
_OLD_SERVER = (err_code("JSRequiredApiLevel"), err_code("JSInvalidJSON"))


class Phase(Enum):
    IDLE = auto()
    ASKING = auto()
    RESETTING = auto()
    FOLLOWING = auto()
    CLOSED = auto()


class Reached(NamedTuple):
    """How far the origin's consumer was with a message.

    The origin takes no acknowledgement beyond what it delivered. So it is told this, and not how
    far the copy is: that is further while messages come again.

    Attributes:
        cseq: the consumer sequence.
        sseq: the sequence in the origin.
    """

    cseq: int
    sseq: int


class Follower:
    """Copies from one origin.

    Args:
        account: where to ask.
        services: the node's services.
        origin: whom to follow.
        start: tells where to begin, from what is stored.
        ready: called when messages wait to be stored.
    """

    def __init__(
        self,
        account: Account,
        services: Services,
        origin: Origin,
        start: Callable[[Follower], Start],
        ready: Callable[[Follower], None],
    ) -> None:
        self.origin = origin
        self.phase = Phase.IDLE
        self.armed = 0
        self.busy = False
        """Whether some of what it brought is being stored now."""
        self.identity = ""
        self.error: ErrorBody | None = None
        self.caught_up = False
        """Whether it was nearly at the end of the origin once."""
        self._account = account
        self._services = services
        self._clock = services.clock
        self._start = start
        self._ready = ready
        self._left = 0
        """How many messages the origin has behind the last that came."""
        self._held: ErrorBody | None = None
        """Why the next message cannot be stored now."""
        self._held_left = 0
        """How many messages are not copied while the next cannot be stored; 0: it can."""
        self._left_out: ErrorBody | None = None
        """Why the last message was left out that can never be stored."""
        self._inbox: Inbox | None = None
        self._waiting: deque[tuple[Run, Reached]] = deque()
        self._due = 0
        self._heard = 0
        self._fails = 0
        self._asked_at = -_PAUSE
        self._is_plain = False
        self._acks = False
        self._has_consumer = False
        self.forgets = False
        """Whether the origin is not the stream that was copied so far."""
        self._cseq = self._sseq = 0
        self._kept = Reached(0, 0)
        self._flow: tuple[bytes, int] | None = None

    # -- life --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to follow."""
        self._inbox = Inbox(self._account, self)
        self._ask()

    def close(self, *, forget: bool) -> None:
        """Stop; `forget` a consumer that would stay behind at the origin."""
        if self.phase is Phase.CLOSED:
            return
        self.phase = Phase.CLOSED
        self._waiting.clear()
        self._services.timers.forget(self)
        if self._inbox is not None:
            if forget and self._acks and self._has_consumer and not self.origin.reference:
                names = f"DELETE.{self.origin.source.name}.{self.origin.consumer}"
                self._inbox.ask(self.origin.subject(names), b"", b"")
            self._inbox.close()

    def poke(self, *, is_new: bool) -> None:
        """The origin may be there: do not wait for the time to come.

        Args:
            is_new: It, or the way to it, is another one: its consumer, or what that sent last,
                may be lost.
        """
        if is_new and self.phase is Phase.FOLLOWING:
            self._pause(failed=False)
        if self.phase is Phase.IDLE and self._inbox is not None:
            self._fails = 0
            self._wait_until(max(self._clock.monotonic(), self._asked_at + _PAUSE // 20))

    # -- time --------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        """When something is due next."""
        if self.phase is Phase.FOLLOWING:
            return self._heard + _SILENCE
        return self._due or None

    def on_deadline(self, now: int) -> None:
        """Ask, or ask again."""
        if self.phase is Phase.IDLE:
            if self._due and now >= self._due:
                self._ask()
        elif self.phase in (Phase.ASKING, Phase.RESETTING):
            if now >= self._due:
                self._pause(failed=True)
        elif self.phase is Phase.FOLLOWING and now >= self._heard + _SILENCE:
            self._pause(failed=False)

    def _wait_until(self, when: int) -> None:
        self._due = when
        self._services.timers.forget(self)
        self._services.timers.at(self, when)

    def _pause(self, *, failed: bool) -> None:
        """Let go of the consumer and ask for another one later."""
        assert self._inbox is not None, "only a follower that began is interrupted"
        self._inbox.unwatch()
        self._waiting.clear()
        self._flow = None
        self.phase = Phase.IDLE
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
        """Ask for a consumer behind what is stored; not before all that came is."""
        if self.busy:
            self._due = 0
            return
        assert self._inbox is not None, "only a follower that began asks"
        start = self._start(self)
        self.identity, self._sseq = start.identity, start.after
        self._cseq, self._kept, self._flow = 0, Reached(0, start.after), None
        self._acks = bool(self.origin.reference)
        deliver = self.origin.deliver_subject()
        self._inbox.watch(deliver.encode())
        self.phase = Phase.ASKING
        self._asked_at = self._clock.monotonic()
        self._wait_until(self._asked_at + _ANSWER_WITHIN)
        headers = b"" if self._is_plain else self.origin.headers(start)
        if self.origin.reference:
            self._reset(headers)
            return
        subject, body = self.origin.create(start, deliver, plain=self._is_plain)
        if not self._inbox.ask(subject, headers, body):
            self._pause(failed=True)

    def _reset(self, headers: bytes) -> None:
        """Have a durable consumer send again what it was not told to be stored."""
        assert self._inbox is not None, "only a follower that began asks"
        self.phase = Phase.RESETTING
        name = self.origin.reference or self.origin.consumer
        subject = self.origin.subject(f"RESET.{self.origin.source.name}.{name}")
        if not self._inbox.ask(subject, headers, b""):
            self._pause(failed=True)

    def on_answer(self, headers: bytes, payload: bytes) -> None:
        """Take the consumer, or the reason why there is none."""
        if self.phase not in (Phase.ASKING, Phase.RESETTING):
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
        if self.phase is Phase.ASKING and self._acks and info.delivered.consumer_seq:
            self._reset(self.origin.headers(Start(0, self.identity)))
            return
        self._follow(info.delivered.stream_seq)

    def _refused(self, error: ErrorBody) -> None:
        self.error = error
        if error.err_code == _MISMATCH and not self.forgets:
            # Another stream has the name now; it is copied from its beginning.
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
        """The consumer is there; it sends what lies behind a sequence."""
        self.phase = Phase.FOLLOWING
        self.error, self._fails = None, 0
        self._heard = self._clock.monotonic()
        self._wait_until(self._heard + _SILENCE)
        if self.origin.mirrors and behind > self._start(self).after:
            skipped = Run(self.origin.key, self.identity, behind)
            self._waiting.appendleft((skipped, Reached(0, behind)))
        if self._waiting:
            self._ready(self)

    # -- messages ----------------------------------------------------------------------------

    def on_messages(self, columns: MessageColumns) -> None:
        """Take what the origin sent."""
        self._heard = self._clock.monotonic()
        stamps = read_stamps(columns.replies)
        if stamps is None or self.phase in (Phase.IDLE, Phase.CLOSED):
            return
        start, count = 0, len(stamps.cseqs)
        while start < count:
            if stamps.cseqs[start] == 1 and self._acks:
                self._cseq = 0  # A durable consumer started over.
            stop = stamps.unbroken(start, self._cseq + 1)
            if stop > start:
                self._take(columns, stamps, start, stop)
            if stop < count and not (self._acks and stamps.cseqs[stop] == 1):
                break
            start = stop
        if start < count and self.phase is Phase.FOLLOWING:
            self._pause(failed=False)
            return
        self._left = stamps.left
        self.caught_up = self.caught_up or stamps.left < _NEARLY
        if self._waiting and self.phase is Phase.FOLLOWING:
            self._ready(self)

    def _take(self, columns: MessageColumns, stamps: Stamps, start: int, stop: int) -> None:
        self._cseq = stamps.cseqs[stop - 1]
        run = self._run(columns, stamps, start, stop)
        self._sseq = run.through
        self._waiting.append((run, Reached(self._cseq, stamps.seqs[stop - 1])))

    def _run(self, columns: MessageColumns, stamps: Stamps, start: int, stop: int) -> Run:
        """Return messages as they will be stored; those that came before are not among them."""
        seqs = stamps.seqs[start:stop]
        run = Run(self.origin.key, self.identity, max(seqs[-1], self._sseq))
        run.seqs, run.times = seqs, stamps.times[start:stop]
        run.columns = columns
        if start or stop < len(stamps.seqs):
            run.columns = columns.part(start, stop)
        return run.after(self._sseq)

    def _dress(self, run: Run) -> Run:
        """Give messages the subjects and headers that they are stored with."""
        columns = run.columns
        if columns.has_headers:
            columns.headers = cleaned(columns.headers, mirrors=self.origin.mirrors)
        if not self.origin.mirrors:
            origin, subjects = self.origin, columns.subjects
            columns.headers = origin.blocks(columns.headers, run.seqs, subjects, self.identity)
            columns.has_headers = True
        columns.subjects = self.origin.renamed(columns.subjects)
        columns.replies = [b""] * len(columns)
        columns.count_bytes()
        run.identity = self.identity
        return run

    def next_run(self, limit: int) -> tuple[Run, Reached] | None:
        """Return what waits, up to about so many messages, and how far the consumer was."""
        if self.phase is not Phase.FOLLOWING or not self._waiting:
            return None
        run, reached = self._waiting.popleft()
        while len(run) and self._waiting and len(run) + len(self._waiting[0][0]) <= limit:
            more, reached = self._waiting.popleft()
            run.extend(more)
        return self._dress(run), reached

    def has_waiting(self) -> bool:
        """Whether there is something to store."""
        return self.phase is Phase.FOLLOWING and bool(self._waiting)

    # -- what was stored ---------------------------------------------------------------------

    def kept(self, reached: Reached) -> None:
        """What came up to there is committed."""
        self.busy = self.forgets = False
        self._held, self._held_left = None, 0
        if self.phase is Phase.FOLLOWING:
            self._kept = reached
            self._answer_flow()
        elif self.phase is Phase.IDLE and not self._due:
            self._ask()

    def left_out(self, error: ErrorBody) -> None:
        """Show why a message is left out of the copy, until another one is or this ends."""
        self._left_out = error

    def stalled(self, cseq: int, error: ErrorBody | None = None) -> None:
        """Ask again for the message with this consumer sequence, which could not be stored.

        Args:
            cseq: the consumer sequence.
            error: why the stream cannot take it; None: storage is unavailable.
        """
        self.busy = False
        self._held = error
        if self.phase is Phase.FOLLOWING:
            self._held_left = max(self._left + self._cseq - cseq + 1, 1)
        if self.phase is not Phase.CLOSED:
            self._pause(failed=True)

    # -- control -----------------------------------------------------------------------------

    def on_control(self, reply: bytes, headers: bytes) -> None:
        """Take a heartbeat or a flow-control request."""
        self._heard = self._clock.monotonic()
        if reply:
            self._flow = reply, self._cseq
        if self.phase is not Phase.FOLLOWING:
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
        """Ask again for what could not be read."""
        if self.phase is not Phase.CLOSED:
            self._pause(failed=True)

    def _answer_flow(self) -> None:
        """Answer the flow-control request if all that was sent before it is stored."""
        if self._flow is None or self._kept.cseq < self._flow[1]:
            return
        (reply, _), self._flow = self._flow, None
        block = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n" % self._kept
        self._account.publish(reply, b"", block if self._acks else b"", b"")

    def info(self) -> StreamSourceInfo:
        """How far it is, as the API shows it."""
        source = self.origin.source
        now = self._clock.monotonic()
        return StreamSourceInfo(
            name=source.name,
            external=source.external,
            # As the reference server counts, but for what it takes to be copied and is not.
            lag=self._held_left or max(self._left - 1, 0),
            active=now - self._heard if self._heard else -1,
            error=self.error or self._held or self._left_out,
            filter_subject=source.filter_subject,
            subject_transforms=source.subject_transforms,
        )
