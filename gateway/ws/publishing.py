"""Publishes and requests of one WebSocket connection; replies are sent to the client as frames.

Publishes of one loop tick are written to the NATS connection together. A callback handles each
reply, so no task exists per message.
"""

import asyncio
from dataclasses import dataclass
from functools import partial

from msgspec import UNSET

from core.client import (
    ClientError,
    ConnectionLost,
    MessageColumns,
    Msg,
    NoResponders,
    ReplyBatch,
    RequestTimeout,
    read_ack,
)
from core.errors import ApiError
from core.units import NANOS_PER_SECOND
from gateway.formats.validation import duration, publish_subject
from gateway.http.problems import Problem, problem_of
from gateway.messages import idempotency
from gateway.messages.batch_lines import failure_of, header_block, payload_of, receipt_problem
from gateway.ws.frames import Error, Outgoing, PackedOutgoing, Published, Publishes, Requests
from gateway.ws.link import Link

_SUBJECTS_CACHED_MAX = 1024


@dataclass(slots=True)
class _Sent:
    """A batch of publishes, or one request, with pending replies.

    Attributes:
        ids: Frame ids by index in the batch; None after the frame is answered.
        within: Timeout of the batch, in seconds.
        wants_receipts: True for publishes: the replies are PubAcks.
        refusal: If set, the batch queries if a refused message was stored before; this is the
            problem to report if it was not (`gateway.messages.idempotency`).
    """

    ids: list[int | None]
    batch: MessageColumns
    replies: ReplyBatch
    within: float
    wants_receipts: bool
    refusal: Problem | None = None


class RequestSender:
    """Sends the publishes and requests of a WebSocket connection, and writes replies as frames.

    Attributes:
        unanswered: Number of pending replies.
    """

    def __init__(self, link: Link) -> None:
        self.unanswered = 0
        self._link = link
        self._settings = link.gateway.settings
        self._batch = MessageColumns()
        self._ids: list[int | None] = []
        self._subjects: dict[str, bytes] = {}
        self._sent: set[ReplyBatch] = set()

    def publish(self, frame: Publishes) -> None:
        """Publish the message of a frame; its receipt is written later, if the frame requests one.

        Raises Problem for an invalid message, ClientError if the connection is lost.
        """
        block = header_block(frame.headers, self._settings, frame.msg_id, frame.expect)
        subject, payload = self._checked(frame, block)
        if not frame.receipt:
            self._link.gateway.client.publish(subject, payload, headers=block)
            return
        self._link.require_replies()
        if not self._ids:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ids.append(frame.id)
        self._batch.add(subject, b"", block, payload)
        self.unanswered += 1

    def request(self, frame: Requests) -> None:
        """Send the request of a frame; its reply is written later.

        Raises Problem for an invalid message or timeout, ClientError if the connection is lost.
        """
        self._link.require_replies()
        settings = self._settings
        within: float = settings.request_timeout_default
        if frame.timeout is not None:
            within = duration(frame.timeout, "timeout") / NANOS_PER_SECOND
        if within > settings.request_timeout_max:
            limit = f"{settings.request_timeout_max:g}s"
            raise Problem(400, "bad-parameter", f"timeout: more than {limit}")
        block = header_block(frame.headers, settings)
        subject, payload = self._checked(frame, block)
        batch = MessageColumns()
        batch.add(subject, b"", block, payload)
        self.unanswered += 1
        self._send([frame.id], batch, within, wants_receipts=False)

    def close(self) -> None:
        """Cancel all pending replies; no frames are written for them."""
        for replies in self._sent:
            replies.on_answer = None
            replies.done.cancel()
        self._sent.clear()
        self._ids.clear()

    def _checked(self, frame: Outgoing | PackedOutgoing, block: bytes) -> tuple[bytes, bytes]:
        subject = self._subjects.get(frame.subject)
        if subject is None:
            subject = publish_subject(frame.subject, self._settings)
            if len(self._subjects) >= _SUBJECTS_CACHED_MAX:
                self._subjects.clear()
            self._subjects[frame.subject] = subject
        payload = payload_of(frame) if isinstance(frame, Outgoing) else _packed(frame)
        limit = self._link.gateway.client.info.max_payload
        if len(payload) + len(block) > limit:
            detail = f"headers and payload: larger than {limit} bytes"
            raise Problem(413, "body-too-large", detail)
        return subject, payload

    def _flush(self) -> None:
        ids, batch = self._ids, self._batch
        if ids:
            self._ids, self._batch = [], MessageColumns()
            self._send(ids, batch, self._settings.publish_timeout, wants_receipts=True)

    def _send(
        self,
        ids: list[int | None],
        batch: MessageColumns,
        within: float,
        *,
        wants_receipts: bool,
        refusal: Problem | None = None,
    ) -> None:
        headers = batch.headers if batch.has_headers else None
        client = self._link.gateway.client
        try:
            replies = client.request_many(batch.subjects, batch.payloads, headers)
        except ClientError as error:
            for ident in ids:
                self._fail(ident, problem_of(error))
            return
        sent = _Sent(ids, batch, replies, within, wants_receipts, refusal)
        self._sent.add(replies)
        replies.on_answer = partial(self._answered, sent)
        for index, payload in enumerate(replies.payloads):
            if payload is not None:  # refused by the client itself
                self._answered(sent, index)
        late = asyncio.get_running_loop().call_later(within, self._late, sent)
        replies.done.add_done_callback(partial(self._over, sent, late))

    def _answered(self, sent: _Sent, index: int) -> None:
        ident, sent.ids[index] = sent.ids[index], None
        if ident is None:
            return
        replies = sent.replies
        payload, status = replies.payloads[index] or b"", replies.statuses.get(index, 0)
        if sent.wants_receipts:
            return self._receipt(sent, index, ident, payload, status)
        if status == 503 and not payload:
            return self._fail(ident, problem_of(NoResponders(sent.batch.subjects[index])))
        if status == 403 and not payload:
            return self._fail(ident, failure_of(replies, index))
        self.unanswered -= 1
        codec = self._link.codec
        body = codec.replied(Msg(b"", b"", replies.headers.get(index, b""), payload))
        self._link.put(codec.answer("reply", ident, body))

    def _receipt(self, sent: _Sent, index: int, ident: int, payload: bytes, status: int) -> None:
        if status:
            return self._fail(ident, sent.refusal or failure_of(sent.replies, index))
        try:
            ack = read_ack(payload)
        except (ApiError, ValueError):
            problem = sent.refusal or receipt_problem(payload, 0)
            query = idempotency.duplicate_query(sent.batch.headers[index])
            if sent.refusal or not query or not idempotency.is_refused(payload):
                return self._fail(ident, problem)
            repetition = MessageColumns()
            repetition.add(sent.batch.subjects[index], b"", query, b"")
            return self._send(
                [ident], repetition, sent.within, wants_receipts=True, refusal=problem
            )
        self.unanswered -= 1
        made = Published(ident, ack.stream, ack.seq, ack.duplicate, ack.domain, ack.val)
        self._link.send_frame(made)

    def _fail(self, ident: int | None, problem: Problem) -> None:
        if ident is not None:
            self.unanswered -= 1
            self._link.send_frame(Error(problem.members(), ident))

    def _late(self, sent: _Sent) -> None:
        for index, ident in enumerate(sent.ids):
            if ident is not None:
                sent.ids[index] = None
                error = RequestTimeout(sent.batch.subjects[index], sent.within)
                self._fail(ident, problem_of(error))
        sent.replies.done.cancel()

    def _over(self, sent: _Sent, late: asyncio.TimerHandle, done: "asyncio.Future[None]") -> None:
        late.cancel()
        self._sent.discard(sent.replies)
        if not done.cancelled() and done.exception() is not None:
            for index, ident in enumerate(sent.ids):
                sent.ids[index] = None
                self._fail(ident, problem_of(ConnectionLost()))


def _packed(frame: PackedOutgoing) -> bytes:
    if isinstance(frame.data, bytes):
        if frame.text is not UNSET:
            raise Problem(400, "bad-line", "only one of data and text")
        return frame.data
    return frame.text.encode() if isinstance(frame.text, str) else b""
