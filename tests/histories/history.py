"""The history of a run: requests of clients and answers, as lines of JSON, one file per client.

All clients run in one process, and times are nanoseconds of its monotonic clock. So times of
different clients are comparable.
"""

import itertools
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

Kind = Literal[
    "publish",
    "remove",
    "deliver",
    "ack",
    "get",
    "read",
    "consumer",
    "stream",
    "stored",
    "fault",
    "end",
    "object",
]
Phase = Literal["", "invoke", "ok", "fail", "unknown"]


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    """One line of a history.

    Attributes:
        t: Time of the event, in monotonic nanoseconds.
        client: Name of the client.
        kind: Kind of the request or observation.
        phase: "invoke" for a request; "ok", "fail" or "unknown" for its outcome.
        op: Number of a request, unique for a client; its outcome has the same number.
        conn: Number of the client's connection, from 1.
        value: The payload, unique for each message of a client: `<client>-<number>`; for an object,
            its description.
        seq: Stream sequence; 0 if unknown.
        cseq, count: Consumer sequence and delivery count of a delivery.
        since: Earliest time at which the delivery may have been requested (monotonic nanoseconds).
        time: Time of storage from the server, in nanoseconds since the Unix epoch.
        expect: Expected last sequence of the subject of a publish; -1 for none.
        batch: Id of the atomic batch of a message; `of` is the number of messages in the batch.
        identified: True if the message has a message id.
        duplicate: True if the acknowledgement reports a duplicate.
        how: The kind of an ack ("ack", "nak", "term", "all"), of a get ("last", "seq"), or of a
            removal ("seq", or "purge" for messages of a subject before `seq`). For a final read:
            "SQL", "NATS" (at the leader), or the name of another node. For an object: "create",
            "update", "delete", "info", or "left" if it exists at the end.
        floor, pending, unacked: Ack floor and counts in a consumer's info.
        first, last, messages: First and last sequence and number of messages in a stream's info.
        subjects, deleted: Numbers of subjects and deleted messages in a stream's info at the end.
        size: Bytes in a stream's info, or of a message in a final read.
        origin: `<stream> <sequence>` from the header of a message of a mirror or source.
        msg_id: Message id of a message in a final read.
        text: Description of an error, of a fault, or of work that did not end.
    """

    t: int
    client: str
    kind: Kind
    phase: Phase = ""
    op: int = 0
    conn: int = 0
    stream: str = ""
    consumer: str = ""
    subject: str = ""
    value: str = ""
    seq: int = 0
    cseq: int = 0
    count: int = 0
    since: int = 0
    time: int = 0
    expect: int = -1
    batch: str = ""
    of: int = 0
    identified: bool = False
    duplicate: bool = False
    how: str = ""
    floor: int = 0
    pending: int = 0
    unacked: int = 0
    first: int = 0
    last: int = 0
    messages: int = 0
    subjects: int = 0
    deleted: int = 0
    size: int = 0
    origin: str = ""
    msg_id: str = ""
    text: str = ""

    def told(self) -> str:
        """Return the event as its line of JSON in the file."""
        return msgspec.json.encode(self).decode()


class StreamRule(msgspec.Struct, omit_defaults=True, frozen=True):
    """The guarantees of a stream, in addition to order and durability.

    Attributes:
        retention: The configured retention; or "latest": the last message of each subject remains;
            "removing": clients remove messages; "ring": the last `max_msgs` messages remain;
            "fading": each message expires after `ttl` nanoseconds.
        mirror: Name of the stream that this one mirrors; empty for none.
        sources: Names of the streams from which it copies each message once and in order.
        dead_letters_of: Name of the consumer whose dead letters it stores; empty for none.
        max_msgs: Limit of messages; 0 for none.
        ttl: Time to live of its messages, in nanoseconds.
    """

    name: str
    retention: str = "limits"
    mirror: str = ""
    sources: tuple[str, ...] = ()
    dead_letters_of: str = ""
    max_msgs: int = 0
    ttl: int = 0


class ConsumerRule(msgspec.Struct, omit_defaults=True, frozen=True):
    """The guarantees of a consumer.

    Attributes:
        acks: The ack policy: "explicit", "all" or "none".
        max_deliver: Maximum number of deliveries of a message; 0 for no limit.
        max_pending: Maximum number of unacknowledged messages; 0 is not checked.
        ack_wait: Nanoseconds before a redelivery without Nak; 0 is not checked.
        node: Name of the node that its only client uses; empty if clients use any node.
        pushed: True for a push consumer, whose subscribers may change while a message is in flight.
    """

    stream: str
    name: str
    acks: str = "explicit"
    max_deliver: int = 0
    max_pending: int = 0
    ack_wait: int = 0
    node: str = ""
    pushed: bool = False


class ReaderRule(msgspec.Struct, omit_defaults=True, frozen=True):
    """The rule for a client that reads a stream from its beginning to its end, in order.

    Attributes:
        client: Name of the client.
        stream: Name of the stream.
        node: Name of the only node that it uses; empty for any node.
    """

    client: str
    stream: str
    node: str = ""


class Rules(msgspec.Struct, frozen=True):
    """The guarantees of a run.

    Attributes:
        streams, consumers, readers: The rules for each of them.
        began: Nanoseconds to add to a monotonic time to get the time since the Unix epoch.
    """

    streams: tuple[StreamRule, ...]
    consumers: tuple[ConsumerRule, ...]
    began: int = 0
    readers: tuple[ReaderRule, ...] = ()


class Writer:
    """The writer of one client's history file, for use by a single thread."""

    def __init__(self, directory: Path, client: str) -> None:
        self._client = client
        self._file = (directory / f"{client}.jsonl").open("ab")
        self._encode = msgspec.json.Encoder().encode
        self._ops = itertools.count(1)
        self.conn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()

    def next_op(self) -> int:
        """Return the number (`Event.op`) for the client's next request, from 1."""
        return next(self._ops)

    def write(self, kind: Kind, phase: Phase = "", **fields: str | int | bool) -> Event:
        """Write an event with the current time as a line, and return the event."""
        event = Event(time.monotonic_ns(), self._client, kind, phase, conn=self.conn, **fields)  # type: ignore[arg-type]
        self._file.write(self._encode(event) + b"\n")
        return event


class SharedWriter(Writer):
    """A writer of a history file for use by several threads."""

    def __init__(self, directory: Path, client: str) -> None:
        super().__init__(directory, client)
        self._lock = threading.Lock()

    def write(self, kind: Kind, phase: Phase = "", **fields: str | int | bool) -> Event:
        with self._lock:
            return super().write(kind, phase, **fields)


def write_rules(directory: Path, rules: Rules) -> None:
    """Write the guarantees of a run to the directory of its history files."""
    (directory / "rules.json").write_bytes(msgspec.json.encode(rules))


def read_rules(directory: Path) -> Rules:
    """Return the guarantees of a run from the directory of its history files."""
    return msgspec.json.decode((directory / "rules.json").read_bytes(), type=Rules)


def read_history(directory: Path) -> list[Event]:
    """Return the events of all clients from the history files in a directory, in order of time."""
    decode = msgspec.json.Decoder(Event).decode
    events = [
        decode(line)
        for file in sorted(directory.glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    return sorted(events, key=lambda event: event.t)
