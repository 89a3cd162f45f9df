"""Checks of limits: `max_msgs`, discard policies, TTL, and the life of streams and consumers.

Each function yields a `Violation` for each case in which the history contradicts the guarantee.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.histories.history import Event, StreamRule
from tests.histories.view import Message, View, Violation

_SECOND = 1_000_000_000
_EARLY_NS = _SECOND // 2
"""Greatest error of a node's estimate of the database clock, in nanoseconds."""
_LATE_NS = 10 * _SECOND
"""Nanoseconds for which an expired message may remain visible.

The reason is a leader that is suspended or cut off from PostgreSQL.
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
    """Check that a stream refuses a publish as full only if it may have been full."""
    for stream, messages in view.messages.items():
        refused = [
            each
            for message in messages.values()
            for each in message.tries
            if each.phase == "fail" and each.outcome and _FULL in each.outcome.text
        ]
        if not refused:
            continue
        sent, gone = _presence(view, stream, messages.values())
        for each in refused:
            assert each.outcome is not None, "a refusal has an outcome"
            most = view.streams[stream].max_msgs
            # Each message that may have been there, without those certainly removed before.
            possible = bisect_right(sent, each.outcome.t) - bisect_left(gone, each.sent.t)
            if not most or possible < most:
                text = f"{each.sent.value} was refused by {stream}, which had at most {possible}"
                yield Violation("limit", text, (each.sent, each.outcome))


def _presence(view: View, stream: str, messages: Iterable[Message]) -> tuple[list[int], list[int]]:
    """Return two sorted lists of times: from which each message may exist, and of its removal."""
    deleted: dict[int, int] = {}
    purges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for removal in view.removals[stream]:
        if removal.phase != "ok" or removal.outcome is None:
            continue
        if removal.sent.how == "purge":
            purges[removal.sent.subject].append((removal.sent.seq, removal.outcome.t))
        else:
            at = deleted.get(removal.sent.seq, removal.outcome.t)
            deleted[removal.sent.seq] = min(at, removal.outcome.t)
    sent: list[int] = []
    gone: list[int] = []
    for message in messages:
        if not message.may_be_stored:
            continue
        sent.append(message.sent.t)
        seq = max(message.acked, default=1 << 62)
        ends = [at for below, at in purges.get(message.sent.subject, ()) if seq < below]
        if seq in deleted:
            ends.append(deleted[seq])
        if ends:
            gone.append(max(min(ends), message.sent.t))
    return sorted(sent), sorted(gone)


def lifetimes(view: View) -> Iterator[Violation]:
    """Check that a message with a TTL is readable until it expires, and not much longer."""
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

    A single client creates, updates and deletes each of them, one request after the other. After a
    request with an unknown outcome the object may or may not exist.
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
