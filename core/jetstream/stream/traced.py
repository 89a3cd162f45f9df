"""Publishes into a stream with a message trace (ADR-41).

The trace reports the outcome, which only the ack of the message contains. So a traced message gets
a reply subject of its own, and its answer is then forwarded to the publisher. A message that is
only traced (`Nats-Trace-Only`) is decided, but not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from core.errors import ApiError
from core.goinput import text_of
from core.model.gojson import quote
from core.protocol.messages import MessageColumns
from core.pubsub.message_trace import DESTINATION, DISABLED
from core.pubsub.receivers import Trace
from core.rules.stream import headers as h
from core.rules.stream.plan import PlanBuilder, StreamPlan
from core.rules.stream.texts import refusal
from core.runtime.nuid import nuid
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    import asyncio

    from core.jetstream.changes import Change
    from core.jetstream.log.stream_log import StreamLog
    from core.model.stream import StreamConfig
    from core.pubsub.account import Account, Session
    from core.rules.stream.machine import StreamMachine

_WRONG_SIZE, _WRONG_STREAM, _WRONG_MSG_ID, _WRONG_SEQUENCE = 10054, 10060, 10070, 10071
_STORE_FAILED, _NO_ROLLUP, _WRONG_TTL, _NO_TTL = 10077, 10111, 10165, 10166
_WHEN_STORED = frozenset((_STORE_FAILED, _WRONG_TTL))
"""Errors that nats-server detects only when it stores; a message that is only traced lacks them."""
_PLAIN = frozenset((_WRONG_STREAM, _STORE_FAILED, _NO_ROLLUP))
_OTHER_WORDS = {_WRONG_SIZE: "maximum payload exceeded", _NO_TTL: "message TTL disabled"}
_FAST_REPLY = b".$FI"
_ANY = b"-"  # A reply subject, without which there is no answer.


class Stream(Protocol):
    """The interface of a stream's leader (`core.jetstream.stream.runner`) for traced publishes."""

    name: str
    config: StreamConfig
    account: Account
    machine: StreamMachine
    log: StreamLog

    def map_subjects(self, subjects: list[bytes]) -> list[bytes]: ...
    def lacks_interest(self, subject: bytes) -> bool: ...
    def answer_to(self, reply: bytes) -> None: ...
    def submit(self, change: Change) -> asyncio.Future[StreamPlan]: ...
    async def foresee(self, columns: MessageColumns, now: int) -> PlanBuilder: ...
    def ingest(
        self,
        session: Session | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None: ...


class TracedPublishes:
    """Processes the publishes of one stream that have a message trace."""

    def __init__(self, runner: Stream) -> None:
        self._runner = runner

    def ingest(
        self, trace: Trace, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Process one traced publish, and write its outcome into the trace."""
        runner, event = self._runner, trace.streamed(self._runner.name)
        found = h.publish_headers(headers)
        block = h.with_header(headers, DESTINATION, DISABLED)
        [stored_as] = runner.map_subjects([subject])
        outcome = _Outcome(event, found, text_of(stored_as))
        outcome.has_interest = not runner.lacks_interest(stored_as)
        if trace.only and not found.get(h.BATCH_ID):
            trace.hold()
            message = (subject, headers, payload)  # Not `block`: its size must not change.
            spawn(self._try(trace, outcome, reply, message), name=f"trace {runner.name}")
        elif reply.endswith(_FAST_REPLY):  # The reply subject of a fast batch is a command.
            outcome.accepted()
            runner.ingest(None, subject, reply, block, payload)
        else:
            trace.hold()
            inbox = b"_TRACE.%b" % nuid().encode()
            told = partial(self._answered, trace, outcome, reply)
            subscription = runner.account.subscribe(inbox, lambda *message: told(message[4]))
            outcome.forget = partial(runner.account.unsubscribe, subscription)
            runner.answer_to(inbox)
            runner.ingest(None, subject, inbox, block, payload)

    def _answered(self, trace: Trace, outcome: _Outcome, reply: bytes, body: bytes) -> None:
        outcome.forget()
        self._pass_on(reply, body)
        if body:  # Else the message is part of a batch, of which only the end is reported.
            outcome.answered(body)
            trace.release()

    def _pass_on(self, reply: bytes, body: bytes) -> None:
        """Forward the ack to the publisher, if it has a reply subject and acks are enabled."""
        if reply and not self._runner.config.no_ack:
            self._runner.account.publish(reply, b"", b"", body)

    async def _try(
        self,
        trace: Trace,
        outcome: _Outcome,
        reply: bytes,
        message: tuple[bytes, bytes, bytes],
    ) -> None:
        """Decide a message without storing it, as a queued change.

        Writes the outcome into `trace`.
        """
        runner = self._runner
        tried: list[PlanBuilder] = []

        async def decide(now: int) -> PlanBuilder:
            columns = MessageColumns()
            [mapped] = runner.map_subjects([message[0]])
            columns.add(mapped, _ANY, message[1], message[2])
            columns.answered = frozenset((_ANY,))
            tried.append(await runner.foresee(columns, now))
            return runner.machine.unchanged(runner.log.first_seq)

        try:
            await runner.submit(decide)
            answers = [body for plan in tried for _, body in plan.answers]
        except ApiError as error:
            answers = [refusal(error, runner.machine.json_name)]
        body = answers[0] if answers else b""
        if body and outcome.is_refused(body):
            outcome.answered(body)
            self._pass_on(reply, body)
        else:
            outcome.accepted()
        trace.release()


class _Outcome:
    """The outcome of one traced message, which is written into its trace event.

    Attributes:
        has_interest: False if no consumer matches the message, so that it is not stored.
        forget: Ends the subscription to the answer.
    """

    def __init__(self, event: dict[str, Any], found: dict[bytes, bytes], subject: str) -> None:
        self.has_interest = True
        self.forget: Callable[[], None] = lambda: None
        self._event = event
        self._found = found
        self._subject = subject

    def accepted(self) -> None:
        """Record that the message was stored, or would have been stored."""
        self._event["subject"] = self._subject
        if not self.has_interest:
            self._event["nointerest"] = True

    def is_refused(self, body: bytes) -> bool:
        """Return whether an answer refuses the message before the attempt to store it."""
        answer = msgspec.json.decode(body)
        code = answer.get("error", {}).get("err_code", 0)
        return bool(answer.get("duplicate") or (code and code not in _WHEN_STORED))

    def answered(self, body: bytes) -> None:
        """Record the result that the ack contains: stored, duplicate, or an error."""
        answer = msgspec.json.decode(body)
        error = answer.get("error")
        if answer.get("duplicate"):
            self._event["error"] = "msgid is duplicate"
        elif error is None or error["err_code"] in _WHEN_STORED:
            self.accepted()
        if error is not None:
            self._event["error"] = self._text_of(error["err_code"], error["description"])

    def _text_of(self, code: int, description: str) -> str:
        """Return the internal text of nats-server for an error."""
        actual = description.rpartition(": ")[2]
        if code in _OTHER_WORDS:
            return _OTHER_WORDS[code]
        if code == _WRONG_SEQUENCE:
            of_subject = self._found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
            expected = of_subject or self._found.get(h.EXPECTED_LAST_SEQ, b"")
            what = "last sequence by subject" if of_subject else "last sequence"
            return f"{what} mismatch: {expected.decode('utf-8', 'replace')} vs {actual}"
        if code == _WRONG_MSG_ID:
            expected = self._found.get(h.EXPECTED_LAST_MSG_ID, b"")
            wanted = quote(text_of(expected))
            return f"last msgid mismatch: {wanted} vs {quote(actual)}"
        return description if code in _PLAIN else f"{description} ({code})"
