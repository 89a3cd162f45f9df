"""What readers are promised: nothing left out, nothing stale, nothing that is gone."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from tests.ledger.history import Event
from tests.ledger.view import View, Violation


def followers(view: View) -> Iterator[Violation]:
    """Who follows a stream from its beginning gets everything, once and in order."""
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


Key = TypeVar("Key")


class _Known:
    """What is known to be stored at a time: the highest sequence of each stream and subject."""

    def __init__(self) -> None:
        self.streams: dict[str, Event] = {}
        self.subjects: dict[tuple[str, str], Event] = {}
        self._subject_of: dict[tuple[str, int], str] = {}

    def learn(self, event: Event) -> None:
        """Take in what a client has just been told."""
        if event.kind == "publish" and event.phase == "invoke":
            self._subject_of[event.client, event.op] = event.subject
            return
        if event.phase not in ("", "ok") or event.kind not in ("publish", "deliver", "read", "get"):
            return
        if not event.seq:
            return
        subject = event.subject or self._subject_of.get((event.client, event.op), "")
        _raise(self.streams, event.stream, event)
        _raise(self.subjects, (event.stream, subject), event)


def _raise(known: dict[Key, Event], key: Key, event: Event) -> None:
    if key not in known or known[key].seq < event.seq:
        known[key] = event


def stale(view: View) -> Iterator[Violation]:
    """Who asks after others were told something is told no less.

    A copy follows its origin: of what it has only the reader's own connection counts.
    """
    known = _Known()
    asked: dict[tuple[str, int], tuple[Event, Event | None, Event | None]] = {}
    own: dict[tuple[str, int, str, str], int] = defaultdict(int)
    for event in view.events:
        if event.kind in ("get", "stream"):
            key = event.client, event.op
            if event.phase == "invoke":
                stream = known.streams.get(event.stream)
                subject = known.subjects.get((event.stream, event.subject))
                asked[key] = event, stream, subject
            elif event.phase in ("ok", "fail") and key in asked:
                yield from _answer(view, event, *asked.pop(key), own)
        known.learn(event)


def _answer(
    view: View,
    event: Event,
    question: Event,
    stream: Event | None,
    subject: Event | None,
    own: dict[tuple[str, int, str, str], int],
) -> Iterator[Violation]:
    if event.kind == "stream":
        if event.phase == "ok" and stream is not None and event.last < stream.seq:
            text = f"{event.stream} says to end at {event.last}, {stream.seq} was there"
            yield Violation("stale", text, (stream, question, event))
        return
    rule = view.streams[event.stream]
    if question.how == "last":
        got = event.seq if event.phase == "ok" else 0
        mine = event.client, event.conn, event.stream, question.subject
        least = own[mine]
        if not rule.mirror and subject is not None:
            least = max(least, subject.seq)
        if got < least:
            text = f"{question.subject} of {event.stream} ends at {got}, {least} was there"
            yield Violation("stale", text, (*([subject] if subject else []), question, event))
        own[mine] = max(own[mine], got)
    elif event.phase == "fail" and rule.retention == "limits" and not rule.mirror:
        if stream is not None and question.seq <= stream.seq:
            text = f"{question.seq} of {event.stream} was not found, {stream.seq} was there"
            yield Violation("stale", text, (stream, question, event))
    elif (
        event.phase == "ok"
        and rule.retention == "latest"
        and subject is not None  # the question names the subject that the sequence was seen at
        and subject.seq > question.seq
    ):
        text = f"{question.seq} of {event.stream} was replaced by {subject.seq}"
        yield Violation("removed", text, (subject, question, event))


CHECKS = (followers, stale)
