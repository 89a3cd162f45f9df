"""A builder of small histories, event by event, for tests of the checker."""

from typing import Any

import msgspec

from tests.histories.checker import check
from tests.histories.history import ConsumerRule, Event, Kind, Phase, ReaderRule, Rules, StreamRule

SECOND = 1_000_000_000

RULES = Rules(
    (
        StreamRule("LOG"),
        StreamRule("KV", retention="latest"),
        StreamRule("TRASH", retention="removing"),
        StreamRule("WORK", retention="workqueue"),
        StreamRule("MIRROR", mirror="LOG"),
        StreamRule("SUM", sources=("LOG", "WORK")),
        StreamRule("DEAD", dead_letters_of="C"),
        StreamRule("RING", retention="ring", max_msgs=2),
        StreamRule("FULL", retention="removing", max_msgs=2),
        StreamRule("FADING", retention="fading", ttl=2 * SECOND),
    ),
    (
        ConsumerRule("LOG", "C", max_deliver=3, max_pending=5),
        ConsumerRule("LOG", "ALL", acks="all", node="node1"),
        ConsumerRule("WORK", "W"),
        ConsumerRule("LOG", "WAITS", acks="none", ack_wait=2 * SECOND),
        ConsumerRule("LOG", "PUSHED", acks="none", ack_wait=2 * SECOND, pushed=True),
    ),
    readers=(ReaderRule("reader", "LOG", node="node1"),),
)


class Story:
    """A history that a test writes event by event; each is a little later than the previous one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ops = 0

    def add(self, client: str, kind: Kind, phase: Phase = "", **fields: Any) -> Event:
        """Add and return an event; its time `t` follows that of the previous one unless given."""
        fields.setdefault("t", 10 * len(self.events) + 10)
        self.events.append(Event(client=client, kind=kind, phase=phase, **fields))
        return self.events[-1]

    def publish(self, value: str, seq: int, stream: str = "LOG", **fields: Any) -> None:
        """Add a publish and its outcome; `seq` 0 means no answer, -1 a refusal."""
        client = value.rpartition("-")[0]
        self.ops += 1
        known = {"op": self.ops, "stream": stream, "value": value}
        fields.setdefault("subject", f"{stream.lower()}.{client}")
        self.add(client, "publish", "invoke", **known, **fields)
        if seq > 0:
            self.add(client, "publish", "ok", **known, seq=seq)
        else:
            self.add(client, "publish", "fail" if seq else "unknown", **known)

    def deliver(self, value: str, seq: int, consumer: str = "C", **fields: Any) -> None:
        """Add a delivery that was requested just before."""
        stream = "WORK" if consumer == "W" else "LOG"
        fields = {"count": 1, "since": 10 * len(self.events), **fields}
        fields.setdefault("subject", f"{stream.lower()}.{value.rpartition('-')[0]}")
        self.add(
            consumer, "deliver", stream=stream, consumer=consumer, value=value, seq=seq, **fields
        )

    def ack(self, seq: int, consumer: str = "C", how: str = "ack", phase: Phase = "ok") -> None:
        """Add an acknowledgement and its outcome."""
        self.ops += 1
        stream = "WORK" if consumer == "W" else "LOG"
        known = {
            "op": self.ops, "stream": stream, "consumer": consumer, "seq": seq, "how": how
        }  # fmt: skip
        self.add(consumer, "ack", "invoke", **known)
        self.add(consumer, "ack", phase, **known)

    def ask(self, kind: Kind, phase: Phase = "ok", client: str = "asks", **fields: Any) -> None:
        """Add a request and its outcome; `fields["about"]` has the members of both events."""
        self.ops += 1
        about = {"op": self.ops, **fields.pop("about")}
        self.add(client, kind, "invoke", **about)
        self.add(client, kind, phase, **{**about, **fields})

    def read(self, value: str, seq: int, client: str = "reader") -> None:
        """Add an event in which `client` reads a message of LOG."""
        subject = f"log.{value.rpartition('-')[0]}"
        self.add(client, "read", stream="LOG", value=value, seq=seq, subject=subject)

    def store(self, stream: str, *values: str, **fields: Any) -> None:
        """Add the final read of a stream: values from sequence 1 on; an empty value is a gap."""
        for seq, value in enumerate(values, 1):
            if value:
                name = "work" if value.startswith("w") else "log"
                subject = f"{name}.{value.rpartition('-')[0]}"
                known = {"stream": stream, "seq": seq, "value": value, "subject": subject, **fields}
                self.add("run", "stored", how="SQL", **known)
                identified = any(event.identified for event in self.events if event.value == value)
                msg_id = value if identified and stream != "DEAD" else ""
                self.add("run", "stored", how="NATS", time=1000 + seq, msg_id=msg_id, **known)

    def kinds(self, rules: Rules = RULES) -> set[str]:
        """Return the kinds of violations that the checker finds."""
        events = sorted(self.events, key=lambda event: event.t)
        return {violation.kind for violation in check(events, rules)}


def sound() -> Story:
    """Return a history without violations, with each kind of event."""
    story = Story()
    for number in (1, 2, 3):
        story.publish(f"p-{number}", number, identified=True)
    story.publish("w-1", 1, "WORK", identified=True)
    about = {"stream": "LOG"}
    story.ask("stream", about=about, last=3, first=1, messages=3, subjects=1)
    for number in (1, 2, 3):
        story.read(f"p-{number}", number)
        story.deliver(f"p-{number}", number, "ALL")
    story.ack(3, "ALL", how="all")
    story.deliver("p-1", 1)
    story.ack(1)
    story.deliver("p-2", 2)
    story.ack(2, how="term")
    for count in (1, 2, 3):
        story.deliver("p-3", 3, count=count)
        story.ack(3, how="nak")
    story.deliver("w-1", 1, "W")
    story.ack(1, "W")
    story.ask("consumer", about={"stream": "LOG", "consumer": "C"}, floor=2, last=3)
    return story


def ended(story: Story) -> Story:
    """Add the final reads that match `sound` to a story, and return it."""
    values = ["p-1", "p-2", "p-3"]
    story.store("LOG", *values)
    story.store("MIRROR", *values)
    story.store("SUM", *values, "w-1")
    for event in story.events:
        if event.stream == "SUM":
            event.origin = "WORK 1" if event.value == "w-1" else f"LOG {event.seq}"
    story.store("DEAD", "p-2", "p-3")
    return story


def without(story: Story, **wanted: Any) -> None:
    """Remove the events whose members have all these values."""
    story.events = [
        event
        for event in story.events
        if any(getattr(event, name) != value for name, value in wanted.items())
    ]


def replaced(story: Story, change: dict[str, Any], **wanted: Any) -> None:
    """Change the events whose members have all these values."""
    story.events = [
        msgspec.structs.replace(event, **change)
        if all(getattr(event, name) == value for name, value in wanted.items())
        else event
        for event in story.events
    ]
