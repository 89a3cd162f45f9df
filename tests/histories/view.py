"""The history of a run with indexes by message, sequence and consumer, for the checks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from tests.histories.history import Event, Rules, StreamRule


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated guarantee.

    Attributes:
        kind: One word for the guarantee, such as `lost`.
        text: Description of the violation.
        events: Events that show the violation.
    """

    kind: str
    text: str
    events: tuple[Event, ...] = ()


@dataclass(slots=True)
class Try:
    """A request and its outcome; the outcome is None if the client ended before the answer."""

    sent: Event
    outcome: Event | None = None

    @property
    def phase(self) -> str:
        return self.outcome.phase if self.outcome is not None else "unknown"


@dataclass(slots=True)
class Message:
    """A published message, from the events of its publisher.

    Attributes:
        value: The payload, unique in the history.
        tries: The publish requests of the message, each with its outcome.
        acked: The acknowledgements, by the sequence in each.
    """

    value: str
    tries: list[Try] = field(default_factory=list)
    acked: dict[int, Event] = field(default_factory=dict)

    @property
    def sent(self) -> Event:
        return self.tries[0].sent

    @property
    def may_be_stored(self) -> int:
        """Maximum number of stored copies of the message."""
        possible = sum(each.phase in ("ok", "unknown") for each in self.tries)
        return min(possible, 1) if self.sent.identified else possible

    @property
    def first_ok(self) -> int:
        """Time of the first acknowledgement, in monotonic nanoseconds; 0 without one."""
        return min((event.t for event in self.acked.values()), default=0)


Seen = dict[int, Event]


class View:
    """A history by message, by sequence and by consumer.

    Attributes:
        messages: Messages published by clients, by stream and value.
        seen: The first delivery, read or get of the message at each sequence, by stream.
        removals: Requests to remove messages, with their outcomes, by stream.
        places: Sequences at which each value was observed.
        conflicts: Pairs of events with different messages at the same sequence.
        about: Deliveries and acknowledgements by stream, consumer and sequence.
        stored: Final reads by stream, by method (see `Event.how`), and by sequence.
    """

    def __init__(self, events: list[Event], rules: Rules) -> None:
        self.events = events
        self.rules = rules
        self.streams = {rule.name: rule for rule in rules.streams}
        self.messages: dict[str, dict[str, Message]] = defaultdict(dict)
        self.removals: dict[str, list[Try]] = defaultdict(list)
        self.seen: dict[str, Seen] = defaultdict(dict)
        self.places: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.stored: dict[str, dict[str, Seen]] = defaultdict(lambda: defaultdict(dict))
        self.conflicts: list[tuple[Event, Event]] = []
        self.about: dict[tuple[str, str, int], list[Event]] = defaultdict(list)
        self._gather_messages()
        self._gather_removals()
        for event in self._observations():
            self._see(event)
        for event in self.of("deliver", "ack"):
            self.about[event.stream, event.consumer, event.seq].append(event)

    def of(self, *kinds: str) -> Iterator[Event]:
        """Return the events of some kinds, in order of time."""
        return (event for event in self.events if event.kind in kinds)

    def final(self, stream: str, how: str = "NATS") -> Seen:
        """Return the final read of a stream by the method `how` (`Event.how`), by sequence."""
        return self.stored.get(stream, {}).get(how, {})

    def is_final(self) -> bool:
        """Return True if the history has final reads; without them no message counts as missing."""
        return bool(self.stored)

    @property
    def ways(self) -> set[str]:
        """The methods by which streams were read at the end (`Event.how`)."""
        return {how for ways in self.stored.values() for how in ways}

    def with_retention(self, *retentions: str) -> Iterator[StreamRule]:
        """Yield the rules of the streams with one of these retentions (`StreamRule.retention`)."""
        return (rule for rule in self.rules.streams if rule.retention in retentions)

    def _gather_messages(self) -> None:
        sendings: dict[tuple[str, int], list[Try]] = defaultdict(list)
        for event in self.of("publish"):
            key = event.client, event.op
            if event.phase == "invoke":
                sent = Try(event)
                sendings[key].append(sent)
                known = self.messages[event.stream]
                known.setdefault(event.value, Message(event.value)).tries.append(sent)
                continue
            batch = sendings[key]
            for place, sent in enumerate(reversed(batch)):
                sent.outcome = event
                if event.phase == "ok":
                    message = self.messages[event.stream][sent.sent.value]
                    message.acked.setdefault(event.seq - place, event)

    def _gather_removals(self) -> None:
        self._purges: dict[tuple[str, str], list[Try]] = defaultdict(list)
        self._deletions: dict[tuple[str, int], list[Try]] = defaultdict(list)
        asked: dict[tuple[str, int], Try] = {}
        for event in self.of("remove"):
            key = event.client, event.op
            if event.phase == "invoke":
                asked[key] = Try(event)
                self.removals[event.stream].append(asked[key])
                if event.how == "purge":
                    self._purges[event.stream, event.subject].append(asked[key])
                else:
                    self._deletions[event.stream, event.seq].append(asked[key])
            else:
                asked[key].outcome = event

    def removed(self, stream: str, subject: str, seq: int) -> list[Try]:
        """Return the removals that apply to a message of a stream, ordered by time."""
        purges = self._purges.get((stream, subject), ())
        found = [each for each in purges if seq < each.sent.seq]
        found += self._deletions.get((stream, seq), ())
        return sorted(found, key=lambda each: each.sent.t)

    def _observations(self) -> Iterable[Event]:
        for event in self.of("deliver", "read", "get", "stored"):
            if event.value and event.phase in ("", "ok"):
                yield event

    def _see(self, event: Event) -> None:
        if event.kind == "stored":
            self.stored[event.stream][event.how][event.seq] = event
        first = self.seen[event.stream].setdefault(event.seq, event)
        if (first.value, first.subject) != (event.value, event.subject):
            self.conflicts.append((first, event))
        self.places[event.stream][event.value].add(event.seq)


def number_of(value: str) -> int:
    """Return the number of a message from its payload `<client>-<number>`."""
    return int(value.rpartition("-")[2])


def part_of(place: int, retained: Collection[int]) -> str:
    """Return "prefix", "middle" or "postfix": the position of a lost message among the others."""
    if place > max(retained, default=0):
        return "postfix"
    return "prefix" if place < min(retained) else "middle"
