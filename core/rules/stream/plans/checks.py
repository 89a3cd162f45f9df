"""The checks of a published message, in the order of nats-server.

A client sees the error of the first check that fails, so the order of each tuple is part of the
protocol. An empty header value counts as an absent header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.errors import ApiError
from core.goinput import text_of
from core.model.api_errors import api_error
from core.model.row_limits import LARGEST_RECORD
from core.rules.stream import headers as h
from core.rules.stream.counters import check_increment
from core.rules.stream.plans.draft import Draft, Message
from core.rules.stream.schedules import schedule_headers
from core.rules.stream.texts import check_subject
from core.rules.stream.ttl import parse_ttl

_RECORD_TOO_LARGE = "message too large"

Check = Callable[[Draft, Message], None]
"""A check of one message.

It raises ApiError to refuse the message, or `Duplicate`. It may set `rollup` and `is_schedule` of
the message.
"""


class Duplicate(Exception):
    """Raised for a message whose id is stored already; `seq` is the stored message's sequence."""

    def __init__(self, seq: int) -> None:
        self.seq = seq


# -- form: state of the stream, and sizes ----------------------------------------------------------


def not_sealed(draft: Draft, _message: Message) -> None:
    if draft.config.sealed:
        raise api_error("JSStreamSealed")


def max_msg_size(draft: Draft, message: Message) -> None:
    if message.block.find(h.REQUEST_INFO) >= 0:
        message.block = h.stored_block(message.block)  # Headers that are not stored do not count.
    if 0 <= draft.config.max_msg_size < len(message.block) + len(message.payload):
        raise api_error("JSStreamMessageExceedsMaximum")


def storable(draft: Draft, message: Message) -> None:
    """Raise ApiError if storage cannot hold the message.

    That is so if its headers, its subject, or the message as a whole are too large.
    """
    if len(message.block) > h.MAX_BLOCK:
        raise api_error("JSStreamHeaderExceedsMaximum")
    check_subject(message.subject)
    size = draft.machine.record_size.of(message.subject, message.block, len(message.payload))
    if size > LARGEST_RECORD:
        raise api_error("JSStreamStoreFailed", err=_RECORD_TOO_LARGE)


def is_record_too_large(error: ApiError) -> bool:
    """Return whether an error means that a message is too large for every stream."""
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
    """Raise ApiError if a message of an atomic batch lacks the increment in a counter stream.

    For other publishes `Counting.add` checks the same later.
    """
    if draft.counting is not None and not message.found.get(h.INCREMENT):
        raise api_error("JSMessageIncrMissing")


def expected_stream(draft: Draft, message: Message) -> None:
    stream = message.found.get(h.EXPECTED_STREAM)
    if stream and stream != draft.config.name.encode():
        raise api_error("JSStreamNotMatch")


def ttl_allowed(draft: Draft, message: Message) -> None:
    """Raise ApiError for a valid TTL if the stream allows none. An invalid TTL fails later."""
    ttl = message.found.get(h.TTL)
    if ttl and not draft.config.allow_msg_ttl and parse_ttl(ttl):
        raise api_error("JSMessageTTLDisabled")


def any_ttl_allowed(draft: Draft, message: Message) -> None:
    """Raise ApiError for any TTL, valid or not, if the stream allows none."""
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
    """Raise ApiError if the headers that begin or end a message schedule (ADR-51) are invalid.

    A valid schedule replaces the earlier schedule of its subject.
    """
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


def sourced_rollup(draft: Draft, message: Message) -> None:
    """Set the roll-up of a sourced message if the stream allows roll-ups; refuse no message."""
    kind = message.found.get(h.ROLLUP, b"").lower()
    if draft.config.allow_rollup_hdrs and not draft.config.deny_purge and kind in (b"sub", b"all"):
        message.rollup = kind


# -- atomic batches --------------------------------------------------------------------------------


def no_expected_last_msg_id(_draft: Draft, message: Message) -> None:
    if message.found.get(h.EXPECTED_LAST_MSG_ID):
        header = h.EXPECTED_LAST_MSG_ID.decode()
        raise api_error("JSAtomicPublishUnsupportedHeaderBatch", header=header)


def no_duplicate_in_batch(draft: Draft, message: Message) -> None:
    """Raise ApiError if a message id is stored, or another message of the batch has it.

    The second check applies even to streams without a duplicate window.
    """
    msg_id = message.found.get(h.MSG_ID)
    if msg_id and (msg_id in draft.ids or (draft.dedups and draft.find_id(msg_id))):
        raise api_error("JSAtomicPublishContainsDuplicateMessage")


def batch_expected_last(draft: Draft, message: Message) -> None:
    """Raise ApiError if the expected last sequence differs from the actual one.

    Only the first message of an atomic batch may have this header.
    """
    expected_last(draft, message)
    if message.place and message.found.get(h.EXPECTED_LAST_SEQ):
        raise api_error("JSStreamWrongLastSequenceConstant")


def batch_expected_last_of_subject(draft: Draft, message: Message) -> None:
    """Raise ApiError if the subject's last sequence before the batch is not the expected one.

    Also refuses a subject that an earlier message of the batch has.
    """
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
    """Raise ApiError if a roll-up would replace messages of the batch itself."""
    rollup(draft, message)
    if message.rollup == b"sub" and message.subject in draft.written:
        raise api_error("JSStreamRollupFailed", err="batch rollup sub invalid")
    if message.rollup == b"all" and message.place:
        raise api_error("JSStreamRollupFailed", err="batch rollup all invalid")


# -- the order -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of one kind of message, each tuple in order.

    Attributes:
        form: Checks before all others, only in a batch in which a message may be too large.
        headers: Checks of a message with `Nats-*` headers.
        stored: Checks after all others, of a message that is stored.
        lone: The subset of `headers` that applies to a message with only this one header.
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
"""The checks of a single publish, neither in a batch nor sourced."""

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
"""The checks of a fast-ingest message; headers of atomic batches are ignored."""

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
"""The checks of an atomic batch message. Its form was checked when the batch received it."""

SOURCED = Checks(
    form=(not_sealed, max_msg_size, storable),
    headers=(not_duplicate, sourced_rollup),
)
"""The checks of a message copied by a mirror or source; the origin has accepted it.

An invalid TTL is stored, without effect.
"""

SCHEDULED = Checks(
    form=(not_sealed, max_msg_size, not_in_batch, storable),
    headers=(not_duplicate, expected_last_msg_id, rollup),
    stored=(ttl_valid,),
)
"""The checks of a message that a schedule publishes.

Headers that clients may not set are allowed.
"""
