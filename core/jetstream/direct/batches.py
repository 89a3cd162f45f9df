"""Direct Get requests with many answers (ADR-31): batches, and last messages of many subjects.

The requests of one session are answered one after the other, so that the number of sessions bounds
the memory used. Between two slices of an answer the event loop runs other tasks. While the output
to the requester is blocked, no further messages are read for it.

An answer with the last messages of many subjects shows the stream at one sequence. Later publishes
and removals do not change it, except that a message whose row is already deleted is left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from core.errors import Unavailable
from core.jetstream.log.as_of import last_as_of
from core.jetstream.log.counts import count_from
from core.jetstream.log.message import message_at
from core.jetstream.log.scan import scan
from core.model.gotime import parse_time
from core.runtime.tasks import spawn
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from core.jetstream.direct.answers import Answers
    from core.jetstream.direct.request import DirectGetRequest
    from core.jetstream.log.message import Message
    from core.jetstream.log.stream_log import StreamLog
    from core.pubsub.account import Account, Session
    from core.pubsub.receivers import Output

MOST_SUBJECTS = 1024
_CHUNK = 64
_CHUNK_BYTES = 1 << 20

Work = tuple["DirectGetRequest", bytes]


class DirectBatches:
    """Answers the Direct Get requests of one stream that ask for several messages.

    Args:
        log: The log of the stream.
        account: The account of the requesters.
        answers: Builds the answers.
    """

    def __init__(self, log: StreamLog, account: Account, answers: Answers) -> None:
        self._log = log
        self._account = account
        self._answers = answers
        self._queues: dict[Session | None, deque[Work]] = {}

    def ask(self, session: Session | None, request: DirectGetRequest, reply: bytes) -> None:
        """Queue a request; it is answered after the earlier requests of its session."""
        queue = self._queues.get(session)
        if queue is not None:
            queue.append((request, reply))
            return
        self._queues[session] = deque(((request, reply),))
        spawn(self._drain(session), name=f"direct get {self._log.name}")

    async def _drain(self, session: Session | None) -> None:
        queue = self._queues[session]
        try:
            while queue and not self._log.closed and not (session and session.closed):
                request, reply = queue.popleft()
                try:
                    if request.multi_last:
                        await self._multi_last(request, reply)
                    else:
                        await self._batch(request, reply)
                except Unavailable:
                    continue  # No answer: the requester times out and may retry.
        finally:
            del self._queues[session]

    def _max_bytes(self, request: DirectGetRequest) -> int:
        return request.max_bytes or self._account.hub.limits.max_pending

    async def _batch(self, request: DirectGetRequest, reply: bytes) -> None:
        """Answer with up to `batch` matching messages, from a sequence or time on."""
        log = self._log
        seq = request.seq
        if request.start_time is not None:
            seq = await log.first_at_time(parse_time(request.start_time))
        filters = [request.next_by_subj.encode()] if request.next_by_subj else []
        match = compile_filters(filters)
        out = _Reply(log, self._account, self._answers, reply, no_hdr=request.no_hdr)
        through = 0
        if request.batch < 0:
            out.pending = await count_from(log, seq, match, filters)
            through = log.machine.last_seq
        left, most = max(request.batch, 0), self._max_bytes(request)
        async for segment, places in scan(log, seq, filters, left):
            if not left:
                break
            for place in places:
                message = message_at(segment, place)
                if not out.last:
                    out.pending = await count_from(log, message[0], match, filters)
                    through = log.machine.last_seq
                out.put(message)
                left -= 1
                if not left or out.nbytes >= most:
                    break
            if not await out.go_on():
                return
            if not left or out.nbytes >= most:
                break
        if not out.last and request.batch > 0:
            out.status(b"404 Message Not Found\r\n")
            return
        if log.machine.last_seq > through:
            out.pending = await count_from(log, max(out.last + 1, seq), match, filters)
        out.status(
            b"204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n"
            % (out.pending, out.last)
        )

    async def _multi_last(self, request: DirectGetRequest, reply: bytes) -> None:
        """Answer with the last message of each matching subject, as of a sequence or time."""
        log = self._log
        out = _Reply(log, self._account, self._answers, reply, no_hdr=False)
        up_to = request.up_to_seq
        if request.up_to_time is not None:
            up_to = await log.first_at_time(parse_time(request.up_to_time)) - 1
        timed = request.up_to_time is not None
        filters = [pattern.encode() for pattern in request.multi_last or ()]
        # nats-server: with a file store, a future sequence has no results.
        is_ahead = up_to > log.machine.last_seq and log.machine.on_file
        if is_ahead or (timed and up_to < log.machine.first_seq):
            out.status(b"404 No Results\r\n")
            return
        seqs, up_to = await last_as_of(log, filters, up_to, MOST_SUBJECTS)
        if len(seqs) > MOST_SUBJECTS:
            out.status(b"413 Too Many Results\r\n")
            return
        if not seqs:
            out.status(b"404 No Results\r\n")
            return
        wanted = [seq for seq in seqs if seq >= request.seq]
        out.pending = len(wanted)
        await self._send(out, wanted, request.batch, self._max_bytes(request))
        out.status(
            b"204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n"
            b"Nats-UpTo-Sequence: %d\r\n" % (out.pending, out.last, up_to)
        )

    async def _send(self, out: _Reply, seqs: list[int], batch: int, most: int) -> None:
        """Send messages by sequence, up to `batch` messages or `most` bytes.

        Messages whose rows are deleted are left out.
        """
        chunk, start, sent = _CHUNK, 0, 0
        while start < len(seqs):
            some = seqs[start : start + chunk]
            start += len(some)
            before = out.nbytes
            found = await self._log.get_all(some)
            for seq in some:
                if seq not in found:
                    out.pending -= 1
                    continue
                out.put(found[seq])
                sent += 1
                if sent == batch or out.nbytes >= most:
                    return
            if not await out.go_on():
                return
            chunk = _rows_for((out.nbytes - before) // len(some))


def _rows_for(size: int) -> int:
    """Return the number of messages of about `size` bytes to read per query."""
    return min(max(_CHUNK_BYTES // max(size, 1), 1), MOST_SUBJECTS)


class _Reply:
    """Writes the messages and the final status that answer one request.

    Attributes:
        pending: Messages that follow (`Nats-Num-Pending`).
        last: The sequence of the previous message (`Nats-Last-Sequence`); 0: no message yet.
        nbytes: Bytes of subjects, headers and payloads written so far.
    """

    def __init__(
        self, log: StreamLog, account: Account, answers: Answers, reply: bytes, *, no_hdr: bool
    ) -> None:
        self._log = log
        self._account = account
        self._answers = answers
        self._reply = reply
        self._no_hdr = no_hdr
        self.pending = 0
        self.last = 0
        self.nbytes = 0

    def put(self, message: Message) -> None:
        """Write one message to the reply subject."""
        seq, _, subject, headers, payload = message
        if self._no_hdr:
            self._account.publish(self._reply, b"", b"", payload)
        else:
            self.pending -= self.pending > 0
            more = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (self.pending, self.last)
            block = self._answers.header_block(message, more)
            self._account.publish(self._reply, b"", block, payload)
        self.last = seq
        self.nbytes += len(subject) + len(headers) + len(payload)

    def status(self, text: bytes) -> None:
        """Write a status to the reply subject."""
        self._account.publish(self._reply, b"", b"NATS/1.0 " + text + b"\r\n", b"")

    async def go_on(self) -> bool:
        """Let other tasks run, wait while the output to the requester is blocked.

        Returns whether to continue: False if the stream is closed or the reply subject has no
        subscriber. The output is that of a local client, or of the link to another server.
        """
        await asyncio.sleep(0)
        receivers = self._account.receivers(self._reply)
        output: Output | None = (
            receivers.forwarder.blocked() if receivers.forwarder is not None else None
        )
        if receivers.targets:
            output = receivers.targets[0].session
        while output is not None and output.blocked and not output.closed:
            writable = asyncio.Event()
            output.on_writable.append(writable.set)
            await writable.wait()
        return not self._log.closed and self._account.has_interest(self._reply)
