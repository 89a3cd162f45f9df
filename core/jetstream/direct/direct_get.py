"""Direct Get (ADR-31) on the leader of a stream: requests for messages, answered from its log.

Messages in memory are sent at once. Requests for other messages queue and are read with one query;
while it runs, further requests queue for the next one. Requests that arrive while the leadership of
this node is not confirmed are held (`core.jetstream.direct.held`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import Unavailable
from core.jetstream.direct.answers import Answers
from core.jetstream.direct.batches import DirectBatches
from core.jetstream.direct.held import HeldRequests, forward
from core.jetstream.direct.request import (
    LACKS_LEVEL,
    DirectGetRequest,
    decode_request,
    lacks_level,
    read_request,
)
from core.jetstream.log.message import Message, message_at
from core.jetstream.log.subjects import last_by_subject, next_by_subject
from core.model.gotime import parse_time
from core.pubsub.receivers import MESSAGE
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    from core.jetstream.direct.held import Request
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.trust_gate import TrustGate
    from core.pubsub.account import Account, ServiceSubscription, Session
    from core.runtime.loop_tick import LoopTick

_PREFIX = b"$JS.API.DIRECT.GET."
_CACHE_BYTES = 16 << 20
_CACHED_MAX = 4096
_ENTRY_COST = 250
_BATCH = 2000


class DirectGet:
    """Answers `$JS.API.DIRECT.GET.<stream>` and `$JS.API.DIRECT.GET.<stream>.<subject>`.

    Args:
        log: The log of the stream.
        account: The account of the requesters.
        loop_tick: Flushes the output of sessions at the end of each pass of the event loop.
        trust: Whether the leadership of this node is confirmed.
        name: The stream name in the request subject (default: the stream's own name). A mirror may
            answer for its origin.
        queue: The queue group that shares the requests (empty: none).
    """

    def __init__(
        self,
        log: StreamLog,
        account: Account,
        loop_tick: LoopTick,
        trust: TrustGate,
        name: bytes = b"",
        queue: bytes = b"",
    ) -> None:
        self._log = log
        self._account = account
        self._machine = log.machine
        self._prefixes = account.receivers_by_prefix
        self._loop_tick = loop_tick
        self._dirty = loop_tick.dirty
        self._trust = trust
        self._held = HeldRequests(trust, self._on_held)
        self._answering_in = -1  # The loop tick in which the leadership was checked last.
        self._answers = Answers(log.name.encode(), account)
        self._subject = _PREFIX + (name or log.name.encode())
        self._queue = queue
        self._skip = len(self._subject) + 1
        self.subscriptions: list[ServiceSubscription] = []
        # Requests to read from storage: (sequence, reply, without headers, subject whose last
        # message is asked for or b"").
        self._missed: list[tuple[int, bytes, bool, bytes]] = []
        self._reading = False
        self._batches = DirectBatches(log, account, self._answers)
        # Last answers by subject: (machine version at which it was valid, sequence, the bytes
        # that follow the subscription id, increment of `Subscription.sent`).
        self._cache: dict[bytes, tuple[int, int, bytes, int]] = {}
        self._cached_bytes = 0

    def configure(self, allowed: bool) -> None:
        """Subscribe to the requests if `allowed` (the stream allows Direct Get), else unsubscribe.

        Without a subscription the server answers requests with 503 no responders.
        """
        if allowed == bool(self.subscriptions):
            return
        if not allowed:
            for subscription in self.subscriptions:
                self._account.unsubscribe(subscription)
            self.subscriptions = []
            for request in self._held.release():
                forward(self._account, request)
            return
        subscribe = self._account.subscribe
        self.subscriptions = [
            subscribe(self._subject, self._on_request, self._queue),
            subscribe(self._subject + b".>", self._on_subject, self._queue),
        ]

    # -- requests ----------------------------------------------------------------------------

    def _may_answer(self) -> bool:
        """Return whether the leadership is confirmed; remember a yes for this loop tick."""
        if not self._trust.is_open():
            return False
        self._answering_in = self._loop_tick.count
        self._loop_tick.arm()
        return True

    def _on_held(self, requests: list[Request]) -> None:
        """Answer requests that were held while the leadership was not confirmed."""
        self._answering_in = self._loop_tick.count
        self._loop_tick.arm()
        for request in requests:
            handle = self._on_subject if len(request[1]) > self._skip else self._on_request
            handle(*request)

    def _on_subject(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> None:
        """Answer `$JS.API.DIRECT.GET.<stream>.<subject>` with the last message of the subject."""
        if not reply:
            return
        if self._answering_in != self._loop_tick.count and not self._may_answer():
            self._held.hold((session, subject, reply, headers, body))
            return
        wanted = subject[self._skip :]
        if headers and lacks_level(headers):
            self._answers.status(reply, LACKS_LEVEL)
            return
        if body:
            self._with_body(wanted, reply, body)
            return
        known = self._cache.get(wanted)
        if known is None or (known[0] != self._machine.version and not self._is_fresh(wanted)):
            self._last_of(wanted, reply)
            return
        receivers = self._prefixes.get(reply.rpartition(b".")[0]) or self._account.receivers(reply)
        target = receivers.sole
        if target is None:
            self._last_of(wanted, reply)
            return
        out = target.session.out
        if not out:
            self._dirty.append(target.session)
        target.sent += known[3]
        out += (b"HMSG ", reply, target.mid, known[2])

    def _is_fresh(self, subject: bytes) -> bool:
        """Return whether the cached answer of a subject still has the subject's last message."""
        _, seq, tail, sent = self._cache[subject]
        if self._machine.index.last(subject) != seq:
            return False
        self._cache[subject] = (self._machine.version, seq, tail, sent)
        return True

    def _last_of(self, wanted: bytes, reply: bytes, no_hdr: bool = False) -> None:
        """Answer with the last message of a subject, or of the subjects that a filter matches."""
        # Even if a stored subject contains wildcard characters, they act as a filter here.
        if b"*" in wanted or b">" in wanted:
            self._spawn(reply, last_by_subject(self._log, wanted), no_hdr)
        elif seq := self._machine.index.last(wanted):
            self._by_seq(seq, reply, no_hdr, wanted)
        elif self._log.loading is not None:
            self._spawn(reply, last_by_subject(self._log, wanted), no_hdr)
        else:
            self._answers.status(reply, b"404 Message Not Found")

    def _with_body(self, wanted: bytes, reply: bytes, body: bytes) -> None:
        request = decode_request(body)
        if request is None or request.is_malformed():
            self._answers.status(reply, b"408 Malformed Request")
            return
        if request != DirectGetRequest(no_hdr=request.no_hdr, max_bytes=request.max_bytes):
            self._answers.status(reply, b"408 Bad Request")
            return
        self._last_of(wanted, reply, request.no_hdr)

    def _on_request(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> None:
        if not reply:
            return
        if self._answering_in != self._loop_tick.count and not self._may_answer():
            self._held.hold((session, subject, reply, headers, body))
            return
        request = read_request(headers, body)
        if isinstance(request, bytes):
            self._answers.status(reply, request)
            return
        if request.batch or request.multi_last:
            self._batches.ask(session, request, reply)
        elif request.last_by_subj:
            self._last_of(request.last_by_subj.encode(), reply, request.no_hdr)
        elif request.next_by_subj or request.start_time is not None:
            self._spawn(reply, self._next(request), request.no_hdr)
        else:
            self._by_seq(request.seq, reply, request.no_hdr, b"")

    async def _next(self, request: DirectGetRequest) -> Message | None:
        log = self._log
        seq = request.seq
        if request.start_time is not None:
            since = parse_time(request.start_time)
            if not request.next_by_subj:
                return await log.get_at_time(since)
            seq = await log.first_at_time(since)
        if request.next_by_subj:
            return await next_by_subject(log, request.next_by_subj.encode(), seq)
        return await log.get(seq)

    # -- answers -----------------------------------------------------------------------------

    def _by_seq(self, seq: int, reply: bytes, no_hdr: bool, subject: bytes) -> None:
        log = self._log
        found = log.in_tail(seq)
        if found is not None:
            self._answer(reply, found, no_hdr, subject)
            return
        if seq >= log.tail.start or not log.is_live(seq):
            self._answers.status(reply, b"404 Message Not Found")
            return
        self._missed.append((seq, reply, no_hdr, subject))
        if not self._reading:
            self._reading = True
            spawn(self._read_missed(), name=f"direct get {self._log.name}")

    async def _read_missed(self) -> None:
        """Read and answer the queued requests from storage until the queue is empty."""
        log = self._log
        try:
            while self._missed:
                batch, self._missed = self._missed[:_BATCH], self._missed[_BATCH:]
                seqs = sorted({miss[0] for miss in batch})
                try:
                    page = await log.rows.points(seqs)
                except Unavailable:
                    continue  # No answer: the requester times out and may retry.
                live = log.live(page) if page is not None else None
                rows = {s: i for i, s in enumerate(live.seqs)} if live is not None else {}
                for seq, reply, no_hdr, subject in batch:
                    place = rows.get(seq)
                    if place is not None and live is not None:
                        self._answer(reply, message_at(live, place), no_hdr, b"")
                    elif subject and log.machine.index.last(subject) != seq:
                        # A newer message replaced it during the read.
                        self._last_of(subject, reply, no_hdr)
                    elif subject and log.is_live(seq):
                        # A commit that memory does not show yet replaces it.
                        self._spawn(reply, last_by_subject(log, subject), no_hdr)
                    else:
                        self._answers.status(reply, b"404 Message Not Found")
                self._loop_tick.run()
        finally:
            self._reading = False

    def _spawn(self, reply: bytes, query: object, no_hdr: bool = False) -> None:
        spawn(self._reply(reply, query, no_hdr), name=f"direct get {self._log.name}")

    async def _reply(self, reply: bytes, query: object, no_hdr: bool) -> None:
        try:
            found = await query  # type: ignore[misc]  # a coroutine of one of the queries
        except Unavailable:
            return
        if found is None:
            self._answers.status(reply, b"404 Message Not Found")
        else:
            self._answer(reply, found, no_hdr, b"")
        self._loop_tick.arm()

    def _answer(self, reply: bytes, found: Message, no_hdr: bool, cache_as: bytes) -> None:
        payload = found[4]
        if no_hdr:
            self._account.publish(reply, b"", b"", payload)
            return
        block = self._answers.header_block(found, b"")
        body = block + payload
        if cache_as and len(body) < _CACHED_MAX:
            tail = b"%d %d\r\n%b\r\n" % (len(block), len(body), body)
            self._remember(cache_as, found[0], tail, MESSAGE + len(body))
        self._send(reply, len(block), body)

    def _remember(self, subject: bytes, seq: int, tail: bytes, sent: int) -> None:
        """Cache the answer for a subject: `tail` are the bytes that follow the subscription id.

        `sent` is the number of bytes that the answer adds to the subscription's count.
        """
        if self._cached_bytes > _CACHE_BYTES:
            self._cache.clear()
            self._cached_bytes = 0
        self._cache[subject] = (self._machine.version, seq, tail, sent)
        self._cached_bytes += len(subject) + len(tail) + _ENTRY_COST

    def _send(self, reply: bytes, header_size: int, body: bytes) -> None:
        """Write an answer to the output of the only subscriber of `reply`, or else publish it."""
        target = self._account.receivers(reply).sole
        if target is None:
            self._account.publish(reply, b"", body[:header_size], body[header_size:])
            return
        out = target.session.out
        if not out:
            self._loop_tick.dirty.append(target.session)
        size = len(body)
        target.sent += MESSAGE + size
        line = b"%b%d %d\r\n" % (target.mid, header_size, size)
        out += (b"HMSG ", reply, line, body, b"\r\n")
