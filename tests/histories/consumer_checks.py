"""Checks of consumers: at-least-once delivery, and no delivery after a confirmed ack or term.

Each function yields a `Violation` for each case in which the history contradicts the guarantee.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.histories.history import ConsumerRule, Event
from tests.histories.view import View, Violation, part_of

ENDS = {"ack", "term", "all"}
_TAKEOVER_NS = 10_000_000_000
"""Nanoseconds after a fault within which the leader may change."""

_EARLY_NS = 500_000_000
"""Greatest error of a node's estimate of the database clock, in nanoseconds."""

Key = tuple[str, str]


def _of(event: Event) -> Key:
    return event.stream, event.consumer


def redelivered(view: View) -> Iterator[Violation]:
    """Check that messages with a confirmed acknowledgement are not delivered again.

    A delivery is a violation if it was requested after the confirmation, or arrived after it on the
    connection of the acknowledgement. It may have been in flight to another connection before.
    """
    ended: dict[tuple[str, str, int], Event] = {}
    all_until: dict[Key, list[Event]] = defaultdict(list)
    for event in view.of("deliver", "ack"):
        if event.kind == "ack":
            if event.phase == "ok" and event.how == "all":
                all_until[_of(event)].append(event)
            elif event.phase == "ok" and event.how in ENDS:
                ended.setdefault((*_of(event), event.seq), event)
            continue
        ends = [each for each in all_until[_of(event)] if each.seq >= event.seq]
        if (end := ended.get((*_of(event), event.seq))) is not None:
            ends.append(end)
        for end in ends:
            is_same = (event.client, event.conn) == (end.client, end.conn)
            if event.since > end.t or is_same:
                text = f"{event.consumer} got {event.seq} of {event.stream} after its end"
                yield Violation("redelivered", text, (end, event))
                break


def deliveries(view: View) -> Iterator[Violation]:
    """Check that no message is delivered more than `max_deliver` times; each fault may add one."""
    faults = sum(event.kind == "fault" and event.phase == "invoke" for event in view.events)
    bounds = {(rule.stream, rule.name): rule.max_deliver for rule in view.rules.consumers}
    counts: Counter[tuple[str, str, int, int]] = Counter()
    for event in view.of("deliver"):
        bound = bounds[_of(event)]
        if bound and event.count > bound:
            text = f"{event.seq} was delivered for the {event.count}th time, {bound} are allowed"
            yield Violation("max-deliver", text, (event,))
        place = *_of(event), event.seq, event.count
        counts[place] += 1
        if bound and counts[place] > 1 + faults:
            text = f"{event.seq} was delivered {counts[place]} times as number {event.count}"
            yield Violation("max-deliver", text, (event,))


def waits(view: View) -> Iterator[Violation]:
    """Check that no message is redelivered before its `ack_wait`, except after a Nak.

    The wait begins when a delivery is sent, at the earliest when it was requested. A pushed message
    has no request, and a new member may get one that was sent before it subscribed; so for pushed
    messages the time of storage counts.
    """
    bounds = {(rule.stream, rule.name): rule.ack_wait for rule in view.rules.consumers}
    pushed = {(rule.stream, rule.name) for rule in view.rules.consumers if rule.pushed}
    for (stream, consumer, seq), lines in view.about.items():
        sent: dict[int, Event] = {}
        for event in lines:
            if event.kind == "ack":
                sent = {} if event.how == "nak" else sent
                continue
            before = sent.get(event.count - 1)
            wait = bounds.get((stream, consumer), 0) - _EARLY_NS
            if before is not None and event.t < _sent(view, before, pushed) + wait:
                text = f"{seq} of {stream} came to {consumer} again before its wait was over"
                yield Violation("early", text, (before, event))
            sent[event.count] = event


def _sent(view: View, delivery: Event, pushed: set[tuple[str, str]]) -> int:
    """Return the earliest time at which a delivery may have been sent."""
    if _of(delivery) in pushed:
        return delivery.time - view.rules.began
    return delivery.since


def pending(view: View) -> Iterator[Violation]:
    """Check that at most `max_ack_pending` messages are delivered and not acknowledged."""
    bounds = {(rule.stream, rule.name): rule.max_pending for rule in view.rules.consumers}
    for event in view.of("consumer"):
        bound = bounds.get(_of(event), 0)
        if bound and event.unacked > bound:
            text = f"{event.consumer} has {event.unacked} open, {bound} are allowed"
            yield Violation("pending", text, (event,))


def processed(view: View) -> Iterator[Violation]:
    """Check that every consumer got all its messages.

    It must have acknowledged those that retention has removed from the stream.
    """
    if not view.is_final():
        return
    delivered: dict[Key, set[int]] = defaultdict(set)
    answered: dict[Key, set[int]] = defaultdict(set)
    for event in view.of("deliver", "ack"):
        if event.kind == "deliver":
            delivered[_of(event)].add(event.seq)
        elif event.phase == "invoke" and event.how in ENDS:
            answered[_of(event)].add(event.seq)
    for rule in view.rules.consumers:
        if rule.acks == "none":
            continue
        key = rule.stream, rule.name
        is_gone = view.streams[rule.stream].retention in ("workqueue", "interest")
        for seq, event in _must_have_come(view, rule):
            if seq not in delivered[key]:
                part = part_of(seq, delivered[key])
                at = f" at {rule.node}" * bool(rule.node)
                text = f"{seq} of {rule.stream} never came to {rule.name}{at}: lost {part}"
                yield Violation("unprocessed", text, (event,))
            elif is_gone and seq not in answered[key]:
                text = f"{seq} of {rule.stream} is gone, {rule.name} never acknowledged it"
                yield Violation("unprocessed", text, (event,))


def _must_have_come(view: View, rule: ConsumerRule) -> Iterator[tuple[int, Event]]:
    if view.streams[rule.stream].retention in ("limits", "removing"):
        yield from sorted(view.final(rule.stream).items())
        return
    for message in view.messages[rule.stream].values():
        yield from message.acked.items()


class _Floor:
    """Tracks the highest sequence up to which all messages have a confirmed acknowledgement."""

    def __init__(self) -> None:
        self.seq = 0
        self._ended: set[int] = set()

    def end(self, event: Event) -> None:
        if event.how == "all":
            self.seq = max(self.seq, event.seq)
            return
        self._ended.add(event.seq)
        while self.seq + 1 in self._ended:
            self.seq += 1
            self._ended.discard(self.seq)


def floors(view: View) -> Iterator[Violation]:
    """Check that a consumer's ack floor includes confirmed acks and never decreases.

    A new leader may not know unconfirmed acknowledgements. So a decrease of the floor counts as a
    violation only if no fault began or ended shortly before.
    """
    confirmed: dict[Key, _Floor] = defaultdict(_Floor)
    asked: dict[tuple[str, int], int] = {}
    shown: dict[tuple[str, int, str, str], Event] = {}
    faulty = 0
    for event in view.of("ack", "consumer", "fault"):
        if event.kind == "fault":
            faulty = event.t + _TAKEOVER_NS
        elif event.kind == "ack":
            if event.phase == "ok" and event.how in ENDS:
                confirmed[_of(event)].end(event)
        elif event.phase == "invoke":
            asked[event.client, event.op] = confirmed[_of(event)].seq
        elif event.phase == "ok":
            key = event.client, event.conn, *_of(event)
            least, before = asked.get((event.client, event.op), 0), shown.get(key)
            if event.floor < least:
                text = f"{event.consumer} says {event.floor}, confirmed was up to {least}"
                yield Violation("floor", text, (event,))
            elif before is not None and before.t > faulty and event.floor < before.floor:
                text = f"{event.consumer} says {event.floor} behind {before.floor}"
                yield Violation("floor", text, (before, event))
            elif event.floor > event.last:
                text = f"{event.consumer} says {event.floor}, delivered up to {event.last}"
                yield Violation("floor", text, (event,))
            shown[key] = event


def dead_letters(view: View) -> Iterator[Violation]:
    """Check that each message that reached `max_deliver` or was terminated has one dead letter.

    A message that was acknowledged at its first delivery must have none.
    """
    for rule in view.rules.streams:
        if not rule.dead_letters_of or not view.is_final():
            continue
        found = Counter(event.value for event in view.final(rule.name).values())
        [consumer] = [each for each in view.rules.consumers if each.name == rule.dead_letters_of]
        for seq, event in sorted(view.final(consumer.stream).items()):
            lines = view.about[consumer.stream, consumer.name, seq]
            least, most = _dead_letters_due(lines)
            if not least <= found[event.value] <= most:
                text = f"{event.value} has {found[event.value]} letters, not {least} to {most}"
                yield Violation("letter", text, tuple(lines[-10:]))


def _dead_letters_due(lines: list[Event]) -> tuple[int, int]:
    """Return the minimum and maximum number of dead letters of a message, from its deliveries."""
    came = [event for event in lines if event.kind == "deliver"]
    ends = [event for event in lines if event.kind == "ack" and event.how in ENDS]
    phases = {(event.how, event.phase) for event in ends}
    if ("ack", "ok") in phases:
        return 0, int(len(came) > 1)
    if ("term", "ok") in phases:
        return 1, 1
    return int(("ack", "invoke") not in phases), 1


CHECKS = (redelivered, deliveries, waits, pending, processed, floors, dead_letters)
