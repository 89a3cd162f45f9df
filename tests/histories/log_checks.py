"""Checks of streams: no lost, invented or duplicate message, and sequences in order.

Each function yields a `Violation` for each case in which the history contradicts the guarantee.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.histories.history import Event
from tests.histories.view import Message, View, Violation, number_of, part_of

_WRONG_NS = 600 * 1_000_000_000  # the fault "skew" shifts clocks of nodes by an hour


def lost(view: View) -> Iterator[Violation]:
    """Check that acknowledged messages exist at the end, unless removed or replaced by a limit."""
    if not view.is_final():
        return
    for rule in view.with_retention("limits", "removing"):
        found = {event.value for event in view.final(rule.name).values()}
        for message in view.messages[rule.name].values():
            if message.acked and message.value not in found:
                seq, acked = next(iter(message.acked.items()))
                removals = view.removed(rule.name, message.sent.subject, seq)
                if any(removal.phase != "fail" for removal in removals):
                    continue
                part = _part(message.value, found)
                yield Violation(
                    "lost",
                    f"{message.value} was acknowledged at {seq} of {rule.name}; lost {part}",
                    (message.sent, acked),
                )
    for rule in view.with_retention("latest"):
        last = {event.subject: event for event in view.final(rule.name).values()}
        for message in view.messages[rule.name].values():
            retained = last.get(message.sent.subject)
            for seq, acked in message.acked.items():
                if retained is None or retained.seq < seq:
                    lines = (message.sent, acked, *([retained] if retained else []))
                    yield Violation("lost", f"{message.sent.subject} has lost {seq}", lines)


def _part(value: str, found: set[str]) -> str:
    """Return a text on the position of a lost message among the messages of its publisher."""
    name, _, number = value.rpartition("-")
    retained = [number_of(other) for other in found if other.rpartition("-")[0] == name]
    return part_of(int(number), retained)


def resurrected(view: View) -> Iterator[Violation]:
    """Check that no message is read after its confirmed removal."""
    for rule in view.with_retention("removing"):
        for seq, event in view.final(rule.name).items():
            for removal in view.removed(rule.name, event.subject, seq):
                if removal.outcome is not None and removal.phase == "ok":
                    text = f"{seq} of {rule.name} was removed, and is there"
                    yield Violation("resurrected", text, (removal.outcome, event))


def disagreements(view: View) -> Iterator[Violation]:
    """Check that all readers see the same message at a sequence at all times."""
    for first, second in view.conflicts:
        text = f"{first.seq} of {first.stream} is {first.value} and {second.value}"
        yield Violation("disagreement", text, (first, second))
    for stream, messages in view.messages.items():
        for message in messages.values():
            for seq, acked in message.acked.items():
                other = view.seen[stream].get(seq)
                if other is not None and other.value != message.value:
                    text = f"{message.value} was acknowledged at {seq} of {stream}"
                    yield Violation("disagreement", f"{text}: {other.value}", (acked, other))


def phantoms(view: View) -> Iterator[Violation]:
    """Check that every message that was read had been published and was not refused."""
    known = {value for messages in view.messages.values() for value in messages}
    for stream, places in view.places.items():
        rule = view.streams[stream]
        is_copy = bool(rule.mirror or rule.sources or rule.dead_letters_of)
        for value, seqs in places.items():
            event = view.seen[stream][min(seqs)]
            message = view.messages[stream].get(value)
            if value not in known or (message is None and not is_copy):
                yield Violation("phantom", f"{value} was never sent to {stream}", (event,))
            elif message is not None and not message.may_be_stored:
                lines = tuple(each.outcome for each in message.tries if each.outcome)
                yield Violation("refused", f"{value} was refused, and is there", (*lines, event))


def duplicates(view: View) -> Iterator[Violation]:
    """Check that a message is stored at most once per publish; with a message id, once in all."""
    for stream, messages in view.messages.items():
        for value, message in messages.items():
            seqs = view.places[stream].get(value, set()) | set(message.acked)
            if len(seqs) > max(message.may_be_stored, 1):
                lines = (message.sent, *message.acked.values())
                text = f"{value} is at {sorted(seqs)} of {stream}"
                yield Violation("duplicate", f"{text}, {message.may_be_stored} allowed", lines)


def gaps(view: View) -> Iterator[Violation]:
    """Check that a stream whose messages were all read has no gap in its sequences."""
    if not view.is_final():
        return
    for rule in view.rules.streams:
        if rule.retention in ("latest", "removing", "ring", "fading"):
            continue
        acked = {seq for message in view.messages[rule.name].values() for seq in message.acked}
        found = acked | set(view.seen[rule.name])
        if rule.retention == "limits":
            found = set(view.final(rule.name))
        if not found or (rule.retention != "limits" and not view.seen[rule.name]):
            continue
        missing = sorted(set(range(1, max(found) + 1)) - found)
        if missing:
            yield Violation("gap", f"{rule.name} has nothing at {missing[:10]}")


def order(view: View) -> Iterator[Violation]:
    """Check that messages of a connection are stored in the order in which they were sent.

    Messages that were sent repeatedly are excluded. A message that was acknowledged before another
    one was sent, on any connection, must also precede it.
    """
    for stream, messages in view.messages.items():
        placed: list[tuple[int, Message]] = []
        for message in messages.values():
            seqs = view.places[stream].get(message.value, set()) | set(message.acked)
            if len(seqs) == 1:
                placed.append((min(seqs), message))
        placed.sort(key=lambda pair: pair[0])
        yield from _connections(stream, placed)
        yield from _real_time(stream, placed)


def _connections(stream: str, placed: list[tuple[int, Message]]) -> Iterator[Violation]:
    last: dict[tuple[str, int], tuple[int, Message]] = {}
    for seq, message in placed:
        if len(message.tries) > 1:
            continue
        key = message.sent.client, message.sent.conn
        before = last.get(key)
        if before is not None and number_of(before[1].value) > number_of(message.value):
            text = f"{message.value} is at {seq} of {stream}, {before[1].value} at {before[0]}"
            yield Violation("order", text, (message.sent, before[1].sent))
        last[key] = seq, message


def _real_time(stream: str, placed: list[tuple[int, Message]]) -> Iterator[Violation]:
    """Check that a message acknowledged before another was sent precedes it."""
    latest: Message | None = None
    for seq, message in placed:
        if latest is not None and message.first_ok and message.first_ok < latest.sent.t:
            text = f"{message.value} is at {seq} of {stream}, behind {latest.value}, sent later"
            yield Violation("order", text, (message.sent, latest.sent))
        if latest is None or message.sent.t > latest.sent.t:
            latest = message


def times(view: View) -> Iterator[Violation]:
    """Check that storage times do not decrease along a stream and are from PostgreSQL's clock."""
    for stream in view.streams:
        last = None
        for _, event in sorted(view.final(stream).items()):
            if last is not None and event.time < last.time:
                yield Violation("time", f"{event.seq} of {stream} is older", (last, event))
            last = event
            message = view.messages[stream].get(event.value)
            if message is not None and message.acked and not _is_then(view, message, event):
                text = f"{event.seq} of {stream} has the time of another hour"
                yield Violation("time", text, (message.sent, event))


def _is_then(view: View, message: Message, stored: Event) -> bool:
    """Return True if a message's time is within `_WRONG_NS` of the publish request and answer."""
    sent, known = message.sent.t + view.rules.began, message.first_ok + view.rules.began
    return sent - _WRONG_NS < stored.time < known + _WRONG_NS


def rivals(view: View) -> Iterator[Violation]:
    """Check that the message of a publish with an expected last sequence follows that sequence.

    (It is the last sequence of the subject.)
    """
    for stream in view.streams:
        last: dict[str, int] = defaultdict(int)
        for seq, event in sorted(view.final(stream).items()):
            message = view.messages[stream].get(event.value)
            if message is not None and message.sent.expect not in (-1, last[event.subject]):
                text = f"{event.value} is behind {last[event.subject]} of {event.subject}"
                yield Violation("rival", text, (message.sent, event))
            last[event.subject] = seq


def batches(view: View) -> Iterator[Violation]:
    """Check that an atomic batch is stored completely, contiguous and in order, or not at all."""
    for stream, messages in view.messages.items():
        members: dict[str, list[Message]] = defaultdict(list)
        for message in messages.values():
            if message.sent.batch:
                members[message.sent.batch].append(message)
        if not view.is_final():
            return
        for batch, parts in members.items():
            seqs = [seq for each in parts for seq in view.places[stream].get(each.value, ())]
            if not seqs:
                continue
            whole = list(range(seqs[0], seqs[0] + parts[0].sent.of))
            if seqs != whole:
                yield Violation("batch", f"{batch} is at {seqs} of {stream}", (parts[0].sent,))


def latest(view: View) -> Iterator[Violation]:
    """Check that a stream with `max_msgs_per_subject=1` has the newest message of each subject."""
    for rule in view.with_retention("latest"):
        newest: dict[str, int] = {}
        for seq, event in view.seen[rule.name].items():
            newest[event.subject] = max(newest.get(event.subject, 0), seq)
        for seq, event in view.final(rule.name).items():
            if seq != newest[event.subject]:
                text = f"{event.subject} has {seq} beside or instead of {newest[event.subject]}"
                yield Violation("latest", text, (event,))


def stored(view: View) -> Iterator[Violation]:
    """Check that final reads from each node, by SQL, and the stream's info agree."""
    if not view.is_final():
        return
    fields = {event.stream: event for event in view.of("stream") if event.phase == "ok"}
    for stream, event in fields.items():
        by_sql = view.final(stream, "SQL")
        for how in view.ways:
            if differing := sorted(set(view.final(stream, how)) ^ set(by_sql)):
                text = f"{stream} differs over {how} and by SQL: {differing[:10]}"
                yield Violation("stored", text)
        messages = len(by_sql)
        subjects = len({each.subject for each in by_sql.values()})
        deleted = event.last - event.first + 1 - messages if messages else 0
        told = event.messages, event.subjects, event.deleted
        if told != (messages, subjects, deleted):
            text = f"{stream} says to have {told} messages, subjects and deleted"
            yield Violation("stored", f"{text}, and has {messages, subjects, deleted}", (event,))
        if event.size != (size := sum(each.size for each in view.final(stream).values())):
            text = f"{stream} says to have {event.size} bytes, and has {size}"
            yield Violation("stored", text, (event,))


def headers(view: View) -> Iterator[Violation]:
    """Check that a stored message has the message id with which it was published, if any."""
    for stream in view.messages:
        for seq, event in sorted(view.final(stream).items()):
            message = view.messages[stream].get(event.value)
            if message and event.msg_id != event.value * message.sent.identified:
                text = f"{seq} of {stream} has the id {event.msg_id!r}"
                yield Violation("header", text, (message.sent, event))


def answers(view: View) -> Iterator[Violation]:
    """Check that no acknowledgement reports a duplicate of a message sent for the first time."""
    for messages in view.messages.values():
        for message in messages.values():
            first = message.tries[0].outcome
            if first is not None and first.duplicate:
                text = f"{message.value} was a duplicate when it was sent for the first time"
                yield Violation("duplicate", text, (message.sent, first))


CHECKS = (
    lost,
    resurrected,
    disagreements,
    phantoms,
    duplicates,
    gaps,
    order,
    times,
    rivals,
    batches,
    latest,
    stored,
    headers,
    answers,
)
