"""The headers that publish or end a schedule, and those of the messages it sends (ADR-51).

The order of the checks is that of nats-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.subjects import collide, is_valid_publish_subject
from core.rules.stream import headers as h
from core.rules.stream.schedules.schedule import Schedule, parse_schedule
from core.rules.stream.ttl import parse_ttl

if TYPE_CHECKING:
    from core.model.stream import StreamConfig

PURGE = b"purge"
"""The value of `Nats-Schedule-Next` in the last message of a schedule, which ends it."""

HEADERS = frozenset((h.SCHEDULE, h.SCHEDULE_TIME_ZONE, h.SCHEDULER, h.SCHEDULE_NEXT))
"""The headers by which a publish may begin or end a schedule."""

_ROLLUP_SUB = b"sub"
_LINE_END = b"\r\n"
# Headers of a schedule, or of the message it copies, that the messages it sends do not get.
_DROPPED_PREFIXES = (b"Nats-Schedule", b"Nats-Expected-")
_DROPPED = frozenset((h.MSG_ID, h.TTL, h.ROLLUP))


def check_schedule(
    config: StreamConfig, subject: bytes, found: dict[bytes, bytes], now: int
) -> bool:
    """Validate the schedule headers of a publish; return whether it begins a schedule.

    If so, the roll-up header that every schedule has is added to `found`.

    Args:
        config: The configuration of the stream.
        subject: The subject of the publish.
        found: Its `Nats-*` headers.
        now: Wall-clock time in nanoseconds since the Unix epoch.

    Raises:
        ApiError: JSMessageSchedulesDisabled, JSMessageTTLDisabled, or JSMessageSchedules...Invalid
            for an invalid pattern, time zone, TTL, roll-up, target or source.
    """
    try:
        schedule = parse_schedule(found.get(h.SCHEDULE, b""), found.get(h.SCHEDULE_TIME_ZONE))
        if schedule is not None and schedule.first(now) is None:
            raise api_error("JSMessageSchedulesPatternInvalid")
    except ApiError:
        if not config.allow_msg_schedules:
            raise api_error("JSMessageSchedulesDisabled") from None
        raise
    if schedule is None:
        return False
    if not config.allow_msg_schedules:
        raise api_error("JSMessageSchedulesDisabled")
    ttl = found.get(h.SCHEDULE_TTL)
    if ttl and parse_ttl(ttl) is None:
        raise api_error("JSMessageSchedulesTTLInvalid")
    if found.get(h.SCHEDULE_ROLLUP, b"") not in (b"", _ROLLUP_SUB):
        raise api_error("JSMessageSchedulesRollupInvalid")
    if ttl and not config.allow_msg_ttl:
        raise api_error("JSMessageTTLDisabled")
    _check_places(config, subject, found)
    rollup = found.setdefault(h.ROLLUP, _ROLLUP_SUB)
    if rollup and rollup.lower() != _ROLLUP_SUB:
        raise api_error("JSMessageSchedulesRollupInvalid")
    return True


def _check_places(config: StreamConfig, subject: bytes, found: dict[bytes, bytes]) -> None:
    """Raise ApiError if the target or source subject of a schedule is invalid."""
    target, source = found.get(h.SCHEDULE_TARGET, b""), found.get(h.SCHEDULE_SOURCE, b"")
    goal, origin = _text(target), _text(source)
    if goal is None or target == subject:
        raise api_error("JSMessageSchedulesTargetInvalid")
    if source and (origin is None or source in (target, subject)):
        raise api_error("JSMessageSchedulesSourceInvalid")
    if not any(collide(one, goal) for one in config.subjects):
        raise api_error("JSMessageSchedulesTargetInvalid")
    if origin is not None and not any(collide(one, origin) for one in config.subjects):
        raise api_error("JSMessageSchedulesSourceInvalid")


def _text(subject: bytes) -> str | None:
    """Return a subject as text; None if no client may publish on it."""
    text = subject.decode("utf-8", "surrogateescape")
    return text if is_valid_publish_subject(text) else None


def check_end(config: StreamConfig, subject: bytes, found: dict[bytes, bytes]) -> bytes:
    """Return the subject whose schedule a publish ends (b"": it ends none).

    Raises ApiError JSMessageSchedulesSchedulerInvalid if the headers are invalid,
    JSMessageSchedulesDisabled if the stream has no schedules.
    """
    following, scheduler = found.get(h.SCHEDULE_NEXT), found.get(h.SCHEDULER, b"")
    if not following:
        if scheduler:
            raise api_error("JSMessageSchedulesSchedulerInvalid")
        return b""
    if following != PURGE or scheduler == subject or _text(scheduler) is None:
        raise api_error("JSMessageSchedulesSchedulerInvalid")
    if not config.allow_msg_schedules:
        raise api_error("JSMessageSchedulesDisabled")
    return scheduler


def stored_schedule(block: bytes) -> bytes:
    """Return the header block of a schedule as stored: a roll-up of its subject is added."""
    if h.find(block, h.ROLLUP):
        return block
    return _with(block, h.ROLLUP, _ROLLUP_SUB)


def ended_by(found: dict[bytes, bytes]) -> bytes:
    """Return the subject whose schedule an accepted message ends and removes (b"": none)."""
    return found.get(h.SCHEDULER, b"") if found.get(h.SCHEDULE_NEXT) == PURGE else b""


def replaced_by(subject: bytes, block: bytes) -> list[bytes]:
    """Return the subjects whose earlier messages a publish may replace or remove.

    A roll-up or a new schedule replaces messages of its own subject; the end of a schedule removes
    that of another subject.
    """
    found = h.publish_headers(block)
    subjects = [ended_by(found)]
    if found.get(h.ROLLUP, b"").lower() == _ROLLUP_SUB or found.get(h.SCHEDULE):
        subjects.append(subject)
    return [one for one in subjects if one]


def output_block(
    content: bytes, schedule: Schedule, place: bytes, block: bytes, following: int | None
) -> bytes:
    """Return the header block of a message that a due schedule sends.

    Args:
        content: The header block of the message that is copied.
        schedule: The schedule.
        place: The subject of the schedule.
        block: The header block of the schedule.
        following: The next due time in nanoseconds since the Unix epoch (None: the schedule ends).
    """
    lines = content.split(_LINE_END)[1:-2] if content else []
    lines = [
        line
        for line in lines
        if not line.startswith(_DROPPED_PREFIXES) and line.partition(b":")[0] not in _DROPPED
    ]
    out = _LINE_END.join([b"NATS/1.0", *lines, b"", b""])
    out = _with(out, h.SCHEDULER, place)
    out = _with(out, h.SCHEDULE_NEXT, PURGE if following is None else schedule.shown(following))
    for name, source in ((h.TTL, h.SCHEDULE_TTL), (h.ROLLUP, h.SCHEDULE_ROLLUP)):
        value = h.find(block, source)
        if value:
            out = _with(out, name, value)
    return out


def _with(block: bytes, name: bytes, value: bytes) -> bytes:
    return b"%b%b: %b\r\n\r\n" % (block[: -len(_LINE_END)], name, value)
