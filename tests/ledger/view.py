"""The history of a run in the order in which its checks ask for it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from tests.ledger.history import Event, Rules, StreamRule


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept.

    Attributes:
        kind: which one, a word.
        events: the lines that show it.
    """

    kind: str
    text: str
    events: tuple[Event, ...] = ()


@dataclass(slots=True)
class Try:
    """A question and what came of it; None: the client ended before."""

    sent: Event
    outcome: Event | None = None

    @property
    def phase(self) -> str:
        return self.outcome.phase if self.outcome is not None else "unknown"


@dataclass(slots=True)
class Message:
    """Everything that its publisher knows of a message.

    Attributes:
        acked: the sequences that it was said to have, and the lines that said so.
    """

    value: str
    tries: list[Try] = field(default_factory=list)
    acked: dict[int, Event] = field(default_factory=dict)

    @property
    def sent(self) -> Event:
        return self.tries[0].sent

    @property
    def may_be_stored(self) -> int:
        """How many copies of it there may be."""
        possible = sum(each.phase in ("ok", "unknown") for each in self.tries)
        return min(possible, 1) if self.sent.identified else possible

    @property
    def first_ok(self) -> int:
        """When it was first known to be stored; 0: never."""
        return min((event.t for event in self.acked.values()), default=0)


Seen = dict[int, Event]


class View:
    """A history by message, by place and by consumer.

    Attributes:
        messages: what clients published into each stream, by value.
        seen: the first line that tells what is at a place, acknowledgements included.
        removals: of each stream, the questions and their outcomes.
        places: where each value was seen.
        conflicts: lines that disagree with the first about what is at a place.
        about: deliveries and acknowledgements by stream, consumer and sequence.
        stored: what was read of each stream in the end, by who read and by sequence.
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
        """The lines of some kinds, in the order of time."""
        return (event for event in self.events if event.kind in kinds)

    def final(self, stream: str, how: str = "NATS") -> Seen:
        """What a stream had in the end."""
        return self.stored.get(stream, {}).get(how, {})

    def is_final(self) -> bool:
        """Whether the run was read to its end: else nothing can be said to be missing."""
        return bool(self.stored)

    @property
    def ways(self) -> set[str]:
        """How streams were read in the end."""
        return {how for ways in self.stored.values() for how in ways}

    def with_retention(self, *retentions: str) -> Iterator[StreamRule]:
        """The streams that keep their messages in one of these ways."""
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
        asked: dict[tuple[str, int], Try] = {}
        for event in self.of("remove"):
            key = event.client, event.op
            if event.phase == "invoke":
                asked[key] = Try(event)
                self.removals[event.stream].append(asked[key])
            else:
                asked[key].outcome = event

    def removed(self, stream: str, subject: str, seq: int) -> list[Try]:
        """The removals that a message of a stream falls under, in the order of time."""
        return [each for each in self.removals[stream] if _covers(each.sent, subject, seq)]

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


def _covers(removal: Event, subject: str, seq: int) -> bool:
    if removal.how == "purge":
        return subject == removal.subject and seq < removal.seq
    return seq == removal.seq


def number_of(value: str) -> int:
    """The how manieth message of its publisher."""
    return int(value.rpartition("-")[2])


def part_of(place: int, kept: Collection[int]) -> str:
    """Where among those that are left a lost one stood: prefix, middle or postfix."""
    if place > max(kept, default=0):
        return "postfix"
    return "prefix" if place < min(kept) else "middle"
