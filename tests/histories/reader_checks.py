"""Checks of readers: they get every message in order, and no stale or removed messages.

Each function yields a `Violation` for each case in which the history contradicts the guarantee.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.histories.history import Event
from tests.histories.view import View, Violation, part_of


def followers(view: View) -> Iterator[Violation]:
    """Check that a reader from a stream's beginning gets every message, once and in order."""
    last: dict[tuple[str, str], Event] = {}
    for event in view.of("read"):
        key = event.client, event.stream
        if event.phase == "fail":
            yield Violation("reader", f"{event.client} was told of a loss: {event.text}", (event,))
            continue
        before = last.get(key)
        expected = before.seq + 1 if before is not None else 1
        if event.seq != expected:
            text = f"{event.client} got {event.seq} of {event.stream} instead of {expected}"
            yield Violation("reader", text, (*([before] if before else []), event))
        last[key] = event


def views(view: View) -> Iterator[Violation]:
    """Check that each reader of a whole stream has read all messages that remain at the end."""
    if not view.is_final():
        return
    read: dict[tuple[str, str], set[int]] = defaultdict(set)
    for event in view.of("read"):
        read[event.client, event.stream].add(event.seq)
    for rule in view.rules.readers:
        came = read[rule.client, rule.stream]
        for seq, event in sorted(view.final(rule.stream).items()):
            if seq not in came:
                text = f"{seq} of {rule.stream} never came to {rule.client}"
                at = f" at {rule.node}" * bool(rule.node)
                yield Violation("view", f"{text}{at}: lost {part_of(seq, came)}", (event,))


_TOLD = ("publish", "deliver", "read", "get")


def infos(view: View) -> Iterator[Violation]:
    """Check that a stream's info has no last sequence below one that a client knew before.

    The client must have known it before the info was requested.
    """
    known: dict[str, Event] = {}
    asked: dict[tuple[str, int], tuple[Event, Event | None]] = {}
    for event in view.events:
        if event.kind == "stream":
            key = event.client, event.op
            if event.phase == "invoke":
                asked[key] = event, known.get(event.stream)
            elif event.phase == "ok" and key in asked:
                question, told = asked.pop(key)
                if told is not None and event.last < told.seq:
                    text = f"{event.stream} says to end at {event.last}, {told.seq} was there"
                    yield Violation("stale", text, (told, question, event))
        elif event.kind in _TOLD and event.phase in ("", "ok"):
            before = known.get(event.stream)
            if before is None or before.seq < event.seq:
                known[event.stream] = event


class _Knowledge:
    """The newest message that each connection has seen, by subject, and by stream (subject "")."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int, str, str], Event] = {}

    def learn(self, event: Event, subject: str) -> None:
        for of in (subject, ""):
            key = event.client, event.conn, event.stream, of
            if key not in self._last or self._last[key].seq < event.seq:
                self._last[key] = event

    def of(self, event: Event, subject: str) -> Event | None:
        return self._last.get((event.client, event.conn, event.stream, subject))


def gets(view: View) -> Iterator[Violation]:
    """Check that Direct Get returns no removed message, and none older than its connection knows.

    Messages that only other connections have seen do not count, because another node may lag, as
    replicas of nats-server do. A mirror that answers for its origin may lag too. Its answer names
    the mirror only if it contains a message.
    """
    known = _Knowledge()
    questions: dict[tuple[str, int], Event] = {}
    for event in view.of("publish", "get"):
        key = event.client, event.op
        if event.phase == "invoke":
            questions[key] = event
        elif (question := questions.get(key)) is not None:
            if event.kind == "get" and event.phase in ("ok", "fail"):
                yield from _got(view, known, question, event)
            if event.phase == "ok" and event.seq:
                known.learn(event, event.subject or question.subject)


def _got(view: View, known: _Knowledge, question: Event, event: Event) -> Iterator[Violation]:
    retention = view.streams[event.stream].retention
    if question.how == "seq" and retention == "removing" and event.phase == "ok":
        for removal in view.removed(event.stream, event.subject, event.seq):
            end = removal.outcome
            is_own = end and (end.client, end.conn) == (event.client, event.conn)
            if end and is_own and end.phase == "ok" and end.t < question.t:
                text = f"{event.seq} of {event.stream} was removed"
                yield Violation("removed", text, (end, question, event))
    told = known.of(event, question.subject)
    has_mirror = any(rule.mirror == event.stream for rule in view.streams.values())
    if told is None or (has_mirror and event.phase == "fail"):
        return
    got = event.seq if event.phase == "ok" else 0
    if question.how == "last" and got < told.seq:
        text = f"{question.subject} of {event.stream} ends at {got}, {told.seq} was there"
        yield Violation("stale", text, (told, question, event))
    elif question.how == "seq" and retention == "limits" and not got and question.seq <= told.seq:
        text = f"{question.seq} of {event.stream} was not found, {told.seq} was there"
        yield Violation("stale", text, (told, question, event))
    elif question.how == "seq" and retention == "latest" and got and told.seq > got:
        text = f"{got} of {event.stream} was replaced by {told.seq}"
        yield Violation("removed", text, (told, question, event))


CHECKS = (followers, views, infos, gets)
