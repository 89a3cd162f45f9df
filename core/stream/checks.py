"""Publish preconditions, in the order in which the reference server checks them.

A client sees the error of the first check that fails, so the order of each tuple is part of the
protocol. An empty header value is no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.errors import ApiError
from core.goinput import text_of
from core.model.api_errors import api_error
from core.model.row_limits import LARGEST_RECORD
from core.stream import headers as h
from core.stream import schedule_headers
from core.stream.counting import check_increment
from core.stream.draft import Draft, Message
from core.stream.texts import check_subject
from core.stream.ttl import parse_ttl

_RECORD_TOO_LARGE = "message too large"

Check = Callable[[Draft, Message], None]
"""Raises ApiError, or Duplicate; leaves in the message what it learned."""


class Duplicate(Exception):
    """The message id is known: the message is stored already."""

    def __init__(self, seq: int) -> None:
        self.seq = seq


# -- form: state of the stream, and sizes ----------------------------------------------------------


def not_sealed(draft: Draft, _message: Message) -> None:
    if draft.config.sealed:
        raise api_error("JSStreamSealed")


def max_msg_size(draft: Draft, message: Message) -> None:
    if message.block.find(h.REQUEST_INFO) >= 0:
        message.block = h.stored_block(message.block)  # What is not stored does not count.
    if 0 <= draft.config.max_msg_size < len(message.block) + len(message.payload):
        raise api_error("JSStreamMessageExceedsMaximum")


def storable(draft: Draft, message: Message) -> None:
    """Refuse what storage cannot keep."""
    if len(message.block) > h.MAX_BLOCK:
        raise api_error("JSStreamHeaderExceedsMaximum")
    check_subject(message.subject)
    size = draft.machine.record_size.of(message.subject, message.block, len(message.payload))
    if size > LARGEST_RECORD:
        raise api_error("JSStreamStoreFailed", err=_RECORD_TOO_LARGE)


def is_record_too_large(error: ApiError) -> bool:
    """Say whether no stream can store a message, for its size."""
    return error.description == _RECORD_TOO_LARGE


# -- headers ---------------------------------------------------------------------------------------


def not_in_batch(_draft: Draft, message: Message) -> None:
    if message.found.get(h.BATCH_ID):
        raise api_error("JSAtomicPublishDisabled")


def increment(draft: Draft, message: Message) -> None:
    value = message.found.get(h.INCREMENT)
    if value:
        counts = draft.counting is not None
        check_increment(value, message.payload, message.found, counts=counts)


def has_increment(draft: Draft, message: Message) -> None:
    """Refuse what adds to no counter, in an atomic batch; other publishes hear of it later."""
    if draft.counting is not None and not message.found.get(h.INCREMENT):
        raise api_error("JSMessageIncrMissing")


def expected_stream(draft: Draft, message: Message) -> None:
    stream = message.found.get(h.EXPECTED_STREAM)
    if stream and stream != draft.config.name.encode():
        raise api_error("JSStreamNotMatch")


def ttl_allowed(draft: Draft, message: Message) -> None:
    """Refuse a TTL where the stream allows none; one that cannot be read is refused later."""
    ttl = message.found.get(h.TTL)
    if ttl and not draft.config.allow_msg_ttl and parse_ttl(ttl):
        raise api_error("JSMessageTTLDisabled")


def any_ttl_allowed(draft: Draft, message: Message) -> None:
    """Refuse any TTL where the stream allows none."""
    if message.found.get(h.TTL) and not draft.config.allow_msg_ttl:
        raise api_error("JSMessageTTLDisabled")


def ttl_valid(_draft: Draft, message: Message) -> None:
    ttl = message.found.get(h.TTL)
    if ttl and parse_ttl(ttl) is None:
        raise api_error("JSMessageTTLInvalid")


def expected_last_of_subject(draft: Draft, message: Message) -> None:
    expected = message.found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
    other = message.found.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
    if expected:
        last = draft.last_of(other or message.subject, message.place)
        if h.expected_sequence(expected) != last:
            raise api_error("JSStreamWrongLastSequence", seq=last)
    elif other:
        raise api_error("JSStreamExpectedLastSeqPerSubjectInvalid")


def expected_last(draft: Draft, message: Message) -> None:
    expected = message.found.get(h.EXPECTED_LAST_SEQ)
    if expected and h.expected_sequence(expected) != draft.next_seq - 1:
        raise api_error("JSStreamWrongLastSequence", seq=draft.next_seq - 1)


def schedule(draft: Draft, message: Message) -> None:
    """Check what begins or ends a schedule; one that begins replaces those before it."""
    if schedule_headers.HEADERS.isdisjoint(message.found):
        return
    config, subject, found = draft.config, message.subject, message.found
    message.is_schedule = schedule_headers.check_schedule(config, subject, found, draft.now)
    ended = schedule_headers.check_end(config, subject, found)
    schedules = draft.machine.schedules
    if ended and schedules is not None:
        last = draft.last_of(ended, message.place)
        if last and last != (draft.schedules.get(ended) or schedules.seq_of(ended)):
            raise api_error("JSMessageSchedulesSchedulerInvalid")


def not_sourced(_draft: Draft, message: Message) -> None:
    if message.found.get(h.STREAM_SOURCE):
        raise api_error("JSMessageSourceHdrNotAllowed")


def not_duplicate(draft: Draft, message: Message) -> None:
    msg_id = message.found.get(h.MSG_ID)
    if msg_id and draft.dedups:
        seq = draft.find_id(msg_id)
        if seq is not None:
            raise Duplicate(seq)


def expected_last_msg_id(draft: Draft, message: Message) -> None:
    expected = message.found.get(h.EXPECTED_LAST_MSG_ID)
    if expected and expected != draft.last_msg_id:
        msg_id = text_of(draft.last_msg_id)
        raise api_error("JSStreamWrongLastMsgID", id=msg_id)


def rollup(draft: Draft, message: Message) -> None:
    kind = message.found.get(h.ROLLUP, b"").lower()
    if not kind:
        return
    if not draft.config.allow_rollup_hdrs or draft.config.deny_purge:
        raise api_error("JSStreamRollupFailed", err="rollup not permitted")
    if kind not in (b"sub", b"all"):
        text = text_of(kind)
        raise api_error("JSStreamRollupFailed", err=f'rollup value invalid: "{text}"')
    message.rollup = kind


def copied_rollup(draft: Draft, message: Message) -> None:
    """Take a copy for a roll-up only where the stream allows it; nothing is refused."""
    kind = message.found.get(h.ROLLUP, b"").lower()
    if draft.config.allow_rollup_hdrs and not draft.config.deny_purge and kind in (b"sub", b"all"):
        message.rollup = kind


# -- atomic batches --------------------------------------------------------------------------------


def no_expected_last_msg_id(_draft: Draft, message: Message) -> None:
    if message.found.get(h.EXPECTED_LAST_MSG_ID):
        header = h.EXPECTED_LAST_MSG_ID.decode()
        raise api_error("JSAtomicPublishUnsupportedHeaderBatch", header=header)


def no_duplicate_in_batch(draft: Draft, message: Message) -> None:
    """Refuse an id that is known, and one that the batch itself has, even without a window."""
    msg_id = message.found.get(h.MSG_ID)
    if msg_id and (msg_id in draft.ids or (draft.dedups and draft.find_id(msg_id))):
        raise api_error("JSAtomicPublishContainsDuplicateMessage")


def batch_expected_last(draft: Draft, message: Message) -> None:
    """Only the first message of a batch may expect a last sequence."""
    expected_last(draft, message)
    if message.place and message.found.get(h.EXPECTED_LAST_SEQ):
        raise api_error("JSStreamWrongLastSequenceConstant")


def batch_expected_last_of_subject(draft: Draft, message: Message) -> None:
    """Compare with what is stored before the batch; of a subject it writes nothing is expected."""
    expected = message.found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
    other = message.found.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
    if not expected:
        if other:
            raise api_error("JSStreamExpectedLastSeqPerSubjectInvalid")
        return
    subject = other or message.subject
    if subject in draft.written:
        raise api_error("JSStreamWrongLastSequenceConstant")
    last = draft.committed_last_of(subject)
    if h.expected_sequence(expected) != last:
        raise api_error("JSStreamWrongLastSequence", seq=last)


def batch_rollup(draft: Draft, message: Message) -> None:
    """Refuse a roll-up that would replace what the batch itself adds."""
    rollup(draft, message)
    if message.rollup == b"sub" and message.subject in draft.written:
        raise api_error("JSStreamRollupFailed", err="batch rollup sub invalid")
    if message.rollup == b"all" and message.place:
        raise api_error("JSStreamRollupFailed", err="batch rollup all invalid")


# -- the order -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of one kind of message, each tuple in order.

    Args:
        form: Before all others, in a batch of which any message may be too large.
        headers: Of a message with `Nats-*` headers.
        stored: Of a message that is written, after all others.
        lone: Those of `headers` that concern a message with no other header than this one.
    """

    form: tuple[Check, ...]
    headers: tuple[Check, ...]
    stored: tuple[Check, ...] = ()
    lone: Mapping[bytes, tuple[Check, ...]] = field(default_factory=dict)


_LONE: Mapping[bytes, tuple[Check, ...]] = {h.MSG_ID: (not_duplicate,), h.INCREMENT: (increment,)}

PUBLISHED = Checks(
    form=(not_sealed, max_msg_size, not_in_batch, storable),
    headers=(
        not_in_batch,
        increment,
        expected_stream,
        ttl_allowed,
        expected_last_of_subject,
        expected_last,
        schedule,
        not_sourced,
        not_duplicate,
        expected_last_msg_id,
        rollup,
    ),
    stored=(ttl_valid,),
    lone={
        **_LONE,
        h.EXPECTED_STREAM: (expected_stream,),
        h.EXPECTED_LAST_SUBJECT_SEQ: (expected_last_of_subject,),
        h.EXPECTED_LAST_SEQ: (expected_last,),
        h.TTL: (ttl_allowed,),
        h.ROLLUP: (rollup,),
    },
)
"""A publish of its own."""

FAST = Checks(
    form=(not_sealed, max_msg_size, storable),
    headers=(
        increment,
        expected_stream,
        any_ttl_allowed,
        ttl_valid,
        not_duplicate,
        not_sourced,
        expected_last,
        expected_last_of_subject,
        schedule,
        rollup,
        expected_last_msg_id,
    ),
    lone=_LONE,
)
"""A message of a fast-ingest batch; headers of atomic batches say nothing."""

ATOMIC = Checks(
    form=(),
    headers=(
        no_expected_last_msg_id,
        storable,
        increment,
        expected_stream,
        any_ttl_allowed,
        ttl_valid,
        no_duplicate_in_batch,
        not_sourced,
        has_increment,
        batch_expected_last,
        batch_expected_last_of_subject,
        schedule,
        batch_rollup,
    ),
)
"""A message of an atomic batch, whose form was checked when it was put aside."""

COPIED = Checks(
    form=(not_sealed, max_msg_size, storable),
    headers=(not_duplicate, copied_rollup),
)
"""A copy of what an origin has accepted; a TTL that cannot be read is kept, without effect."""

SCHEDULED = Checks(
    form=(not_sealed, max_msg_size, not_in_batch, storable),
    headers=(not_duplicate, expected_last_msg_id, rollup),
    stored=(ttl_valid,),
)
"""What a schedule sends: what only clients may not say, it may."""
