"""The guarantees of limits: no more and no less than they allow, and no needless refusal."""

from collections.abc import Iterator

from tests.ledger.history import Event, StreamRule
from tests.ledger.view import Message, Try, View, Violation

_SECOND = 1_000_000_000
_EARLY_NS = _SECOND // 2
"""Nanoseconds by which a node's estimate of the database's time may be wrong."""
_LATE_NS = 10 * _SECOND
"""Nanoseconds for which expired messages may remain visible.

A former leader may be stopped or cut off meanwhile.
"""
_FULL = '"err_code": 10077'


def limits(view: View) -> Iterator[Violation]:
    """Check that no stream reports more messages than its limit."""
    for event in view.of("stream"):
        rule = view.streams.get(event.stream)
        if rule is not None and rule.max_msgs and event.messages > rule.max_msgs:
            text = f"{event.stream} has {event.messages} messages, {rule.max_msgs} are allowed"
            yield Violation("limit", text, (event,))


def rings(view: View) -> Iterator[Violation]:
    """Check that a stream that discards old messages has the latest ones, up to its limit."""
    if not view.is_final():
        return
    for rule in view.with_retention("ring"):
        found = set(view.final(rule.name))
        acked = {
            seq: event
            for message in view.messages[rule.name].values()
            for seq, event in message.acked.items()
        }
        end = max(found | set(acked), default=0)
        first = max(1, end - rule.max_msgs + 1)
        for seq in sorted(set(range(first, end + 1)) - found):
            lines = (acked[seq],) if seq in acked else ()
            yield Violation("limit", f"{rule.name} has lost {seq}, from {first} to {end}", lines)
        for seq in sorted(found - set(range(first, end + 1))):
            text = f"{rule.name} still has {seq}, before {first}"
            yield Violation("limit", text, (view.final(rule.name)[seq],))


def refusals(view: View) -> Iterator[Violation]:
    """Check that only a stream that may have been full refuses for that reason."""
    for stream, messages in view.messages.items():
        refused = [
            each
            for message in messages.values()
            for each in message.tries
            if each.phase == "fail" and each.outcome and _FULL in each.outcome.text
        ]
        for each in refused:
            most = view.streams[stream].max_msgs
            possible = sum(_may_be_there(view, stream, each, one) for one in messages.values())
            if not most or possible < most:
                text = f"{each.sent.value} was refused by {stream}, which had at most {possible}"
                lines = tuple(line for line in (each.sent, each.outcome) if line)
                yield Violation("limit", text, lines)


def _may_be_there(view: View, stream: str, refused: Try, message: Message) -> bool:
    """Return True if a message may have been in a stream when another one was refused."""
    if refused.outcome is None or message.sent.t > refused.outcome.t or not message.may_be_stored:
        return False
    removals = view.removed(stream, message.sent.subject, max(message.acked, default=1 << 62))
    return not any(
        removal.phase == "ok" and removal.outcome and removal.outcome.t < refused.sent.t
        for removal in removals
    )


def lifetimes(view: View) -> Iterator[Violation]:
    """Check that a message with a TTL lives for that time and not much longer, at all nodes."""
    for rule in view.with_retention("fading"):
        at = {
            seq: message for message in view.messages[rule.name].values() for seq in message.acked
        }
        asked: dict[tuple[str, int], Event] = {}
        faulty = -_LATE_NS
        for event in view.of("get", "fault"):
            if event.kind == "fault":
                faulty = event.t
            if event.stream != rule.name:
                continue
            key = event.client, event.op
            if event.phase == "invoke":
                asked[key] = event
            elif (question := asked.get(key)) and (message := at.get(question.seq)):
                is_quiet = question.t > faulty + _LATE_NS  # else a leader may be cut off
                yield from _lived(rule, message, question, event, is_quiet=is_quiet)


def _lived(
    rule: StreamRule, message: Message, question: Event, answer: Event, *, is_quiet: bool
) -> Iterator[Violation]:
    lines = message.sent, question, answer
    if answer.phase == "fail" and answer.t < message.sent.t + rule.ttl - _EARLY_NS:
        yield Violation("lifetime", f"{message.value} was gone before its time", lines)
    is_over = question.t > message.first_ok + rule.ttl + _LATE_NS
    if answer.phase == "ok" and is_over and is_quiet:
        yield Violation("lifetime", f"{message.value} was there long after its time", lines)


def objects(view: View) -> Iterator[Violation]:
    """Check that a created stream or consumer exists, as configured, until it is deleted.

    One client creates, updates and deletes each of them, in sequence. After an unknown outcome it
    may or may not exist.
    """
    known: dict[tuple[str, str], Event | None] = {}
    left: set[tuple[str, str]] = set()
    for event in view.of("object"):
        if event.how == "left":
            left.add((event.stream, event.consumer))
        elif event.how == "info":
            last = known.get((event.stream, event.consumer))
            name = event.consumer or event.stream
            if last is None:
                continue
            if event.phase == ("ok" if last.how == "delete" else "fail"):
                text = f"{name} is {'there' if event.phase == 'ok' else 'gone'} after: {last.how}"
                yield Violation("object", text, (last, event))
            elif event.phase == "ok" and event.value != last.value:
                text = f"{name} has another configuration than after: {last.how}"
                yield Violation("object", text, (last, event))
        elif event.phase != "invoke":
            known[event.stream, event.consumer] = event if event.phase == "ok" else None
        else:
            known[event.stream, event.consumer] = None
    if not view.is_final():
        return
    for key, last in known.items():
        if last is not None and (key in left) == (last.how == "delete"):
            text = f"{key[1] or key[0]} is {'there' if key in left else 'gone'} in the end"
            yield Violation("object", f"{text}, after: {last.how}", (last,))


CHECKS = (limits, rings, refusals, lifetimes, objects)
