"""Direct Get by sequence on a node that does not lead the stream, read from PostgreSQL.

    request ──▶ answered from storage
         └────▶ forwarded to the leader: any other form of request, streams that storage cannot
                answer for, storage unavailable, full queue ──▶ no responders without a leader

The answers equal those of the leader (`core.jetstream.direct.direct_get`). While a stream has a
leader, all requests go there, unless a standby database is available for reading. At most two reads
run at a time, each of up to 128 messages. A request is forwarded if it waits longer than two
seconds, or finds 1,024 requests in the queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from core.errors import Unavailable
from core.goinput import text_of
from core.jetstream.direct.answers import Answers
from core.jetstream.direct.held import forward
from core.jetstream.direct.request import read_request
from core.pubsub.forwarding import ClusterForwarder
from core.pubsub.receivers import ServiceSubscription
from core.runtime.tasks import spawn, stop
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from core.pubsub.account import Account, Session
    from core.runtime.clock import Clock
    from core.storage.interface import Row, StoredMessages

_PREFIX = b"$JS.API.DIRECT.GET."
_TIMEOUT_NS = 2_000_000_000
_WAITING_MAX = 1024
_BATCH = 128
_READS = 2
_STREAMS_MAX = 1024
_SEQ_MAX = 2**63 - 1
_NOT_FOUND = b"404 Message Not Found"


class _Request(NamedTuple):
    """A Direct Get request as received, and its decoded form.

    Attributes:
        since: Time of arrival, in monotonic nanoseconds.
        seq: The sequence of the requested message.
        status: The status that refuses the request (empty: it is valid).
        no_hdr: Whether the answer has no headers.
    """

    session: Session | None
    subject: bytes
    reply: bytes
    headers: bytes
    body: bytes
    since: int
    seq: int
    status: bytes
    no_hdr: bool

    @property
    def stream(self) -> bytes:
        return self.subject[len(_PREFIX) :]


class StoredGet:
    """Answers Direct Get requests by sequence from storage, for streams that other nodes lead.

    Life cycle: `listen` and `unlisten` alternately, then `close`.

    Args:
        account: The account of the requesters.
        messages: Reads messages from storage.
        clock: Measures how long requests wait.
    """

    def __init__(self, account: Account, messages: StoredMessages, clock: Clock) -> None:
        self.has_standby = messages.has_standby
        self._account = account
        self._messages = messages
        self._clock = clock
        self._subscription: ServiceSubscription | None = None
        self._waiting: deque[_Request] = deque()
        self._reads: set[asyncio.Task[None]] = set()
        self._answers: dict[bytes, Answers] = {}

    def listen(self) -> None:
        """Subscribe to the Direct Get requests that are published on this server."""
        if self._subscription is None:
            subject = _PREFIX + b"*"
            self._subscription = self._account.subscribe(
                subject, self._on_request, local_only=True, not_forwarded=True
            )

    def unlisten(self) -> None:
        """Unsubscribe; waiting requests are still answered or forwarded."""
        if self._subscription is not None:
            self._account.unsubscribe(self._subscription)
            self._subscription = None

    async def close(self) -> None:
        """Unsubscribe, drop the waiting requests without an answer, and cancel the reads."""
        self.unlisten()
        self._waiting.clear()
        await stop(*self._reads)
        self._messages.close()

    # -- requests ----------------------------------------------------------------------------

    def _on_request(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> None:
        if not reply or self._leads(subject):
            return
        found, seq, status, no_hdr = read_request(headers, body), 0, b"", False
        if isinstance(found, bytes):
            status = found
        else:
            seq, no_hdr = min(found.seq, _SEQ_MAX), found.no_hdr
        request = _Request(
            session, subject, reply, headers, body, self._clock.monotonic(), seq, status, no_hdr
        )
        is_ours = isinstance(found, bytes) or found.is_by_sequence()
        if not is_ours or len(self._waiting) >= _WAITING_MAX:
            self._pass_on(request)
            return
        self._waiting.append(request)
        if len(self._reads) < _READS:
            task = spawn(self._drain(), name="direct get from storage")
            self._reads.add(task)
            task.add_done_callback(self._reads.discard)

    def _leads(self, subject: bytes) -> bool:
        """Return whether this node leads the stream, and so answers the request from memory."""
        receivers = self._account.receivers(subject)
        others = (*receivers.services, *(each for group in receivers.groups for each in group))
        return any(
            isinstance(each, ServiceSubscription)
            and not (each.local_only or isinstance(each, ClusterForwarder))
            for each in others
        )

    def _pass_on(self, request: _Request) -> None:
        """Forward a request to the leader; if there is none, the answer is 503 no responders."""
        forward(self._account, request[:5])

    # -- answers -----------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Read and answer the waiting requests until none are left."""
        while self._waiting:
            oldest = self._clock.monotonic() - _TIMEOUT_NS
            batch: list[_Request] = []
            while self._waiting and len(batch) < _BATCH:
                request = self._waiting.popleft()
                if request.since < oldest:
                    self._pass_on(request)
                elif request.session is None or not request.session.closed:
                    batch.append(request)
            if batch:
                await self._read(batch)

    async def _read(self, batch: list[_Request]) -> None:
        """Answer requests from storage; forward those that storage cannot answer."""
        left = dict(enumerate(batch))
        wanted = [(text_of(request.stream), request.seq) for request in batch]
        try:
            async with (
                asyncio.timeout(_TIMEOUT_NS / NANOS_PER_SECOND),
                aclosing(self._messages.read(self._account.name, wanted)) as found,
            ):
                async for some in found:
                    for place, row in some:
                        self._answer(left.pop(place), row)
                    self._account.loop_tick.arm()
                    await asyncio.sleep(0)
        except (Unavailable, TimeoutError):
            pass
        for request in left.values():
            self._pass_on(request)

    def _answer(self, request: _Request, row: Row | None) -> None:
        answers = self._answers.get(request.stream)
        if answers is None:
            if len(self._answers) >= _STREAMS_MAX:
                self._answers.clear()
            answers = self._answers[request.stream] = Answers(request.stream, self._account)
        if request.status or row is None:
            answers.status(request.reply, request.status or _NOT_FOUND)
        elif request.no_hdr:
            self._account.publish(request.reply, b"", b"", row[4])
        else:
            self._account.publish(request.reply, b"", answers.header_block(row, b""), row[4])
