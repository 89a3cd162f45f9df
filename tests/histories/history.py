"""The requests of clients and the answers during a run: lines of JSON, one file per client.

Times are of the monotonic clock of the single process that runs all clients, in nanoseconds, so
that times of different clients are comparable.
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
        t: Time of the event, monotonic nanoseconds.
        op: Number of a request, unique for a client; its outcome has the same number.
        conn: Number of the client's connection.
        value: The payload, unique for each message of a client: `<client>-<number>`; for an object,
            its description.
        cseq, count: Consumer sequence and delivery count of a delivery.
        since: Time before which the delivery was not requested.
        time: Time of storage according to the server, nanoseconds since 1970.
        expect: Expected last sequence of the subject of a publish; -1: none.
        batch: Id of the atomic batch of a message; `of` is the number of its messages.
        identified: True if the message carries a message id.
        how: The kind of an ack ("ack", "nak", "term", "all"), of a get ("last", "seq"), or of a
            removal ("seq", or "purge" for messages of a subject before `seq`). For a final read:
            "SQL", "NATS" (at the leader), or the name of another node. For an object: "create",
            "update", "delete", "info", or "left" if it exists at the end.
        floor, pending, unacked: State of a consumer; `first`, `last`, `messages`: of a stream.
        subjects, deleted: Numbers in the stream's info at the end.
        size: Bytes in the stream's info, or of a message in a final read.
        origin: `<stream> <sequence>` in the header of a copied message.
        msg_id: Message id of a message in a final read.
        text: An error, a fault, or work that did not end.
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
        """Return the line as in the file."""
        return msgspec.json.encode(self).decode()


class StreamRule(msgspec.Struct, omit_defaults=True, frozen=True):
    """The guarantees of a stream, in addition to order and durability.

    Attributes:
        retention: The configured value; or "latest": the last message of each subject; "removing":
            clients remove messages; "ring": the latest `max_msgs`; "fading": each message lives for
            `ttl` nanoseconds.
        mirror: Name of the stream that this one mirrors.
        sources: Names of the streams whose messages it has, each once and in their order.
        letters_of: Name of the consumer whose dead letters it has.
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
        acks: "explicit", "all" or "none".
        max_deliver: Maximum number of deliveries; 0: no limit.
        max_pending: Maximum number of unacknowledged messages; 0: not checked.
        ack_wait: Nanoseconds before a redelivery without Nak; 0: not checked.
        node: Name of the node that its only client uses; empty: clients use any node.
        pushed: True for a push consumer, whose subscribers may change before a delivery arrives.
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
    """A client that reads a stream from its beginning to its end, in order.

    Attributes:
        node: Name of the only node that it uses; empty: any node.
    """

    client: str
    stream: str
    node: str = ""


class Rules(msgspec.Struct, frozen=True):
    """The guarantees of a run.

    Attributes:
        began: Nanoseconds to add to a monotonic time to get the time since 1970.
    """

    streams: tuple[StreamRule, ...]
    consumers: tuple[ConsumerRule, ...]
    began: int = 0
    readers: tuple[ReaderRule, ...] = ()


class Writer:
    """The writer of one client's lines, for a single thread."""

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
        """Return a number for the next request."""
        return next(self._ops)

    def write(self, kind: Kind, phase: Phase = "", **fields: str | int | bool) -> Event:
        """Write a line with the current time."""
        event = Event(time.monotonic_ns(), self._client, kind, phase, conn=self.conn, **fields)  # type: ignore[arg-type]
        self._file.write(self._encode(event) + b"\n")
        return event


class SharedWriter(Writer):
    """A writer for several threads."""

    def __init__(self, directory: Path, client: str) -> None:
        super().__init__(directory, client)
        self._lock = threading.Lock()

    def write(self, kind: Kind, phase: Phase = "", **fields: str | int | bool) -> Event:
        with self._lock:
            return super().write(kind, phase, **fields)


def write_rules(directory: Path, rules: Rules) -> None:
    """Write the guarantees to the directory of the histories."""
    (directory / "rules.json").write_bytes(msgspec.json.encode(rules))


def read_rules(directory: Path) -> Rules:
    """Return the guarantees of a run."""
    return msgspec.json.decode((directory / "rules.json").read_bytes(), type=Rules)


def read_history(directory: Path) -> list[Event]:
    """Return the events of all clients, in order of time."""
    decode = msgspec.json.Decoder(Event).decode
    events = [
        decode(line)
        for file in sorted(directory.glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    return sorted(events, key=lambda event: event.t)
