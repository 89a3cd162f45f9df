"""What clients asked and were told during a run: a line of JSON each, a file for each client.

Times are of the monotonic clock of the one process that all clients live in, in nanoseconds, so
that "before" has a meaning between clients.
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
    """One line.

    Attributes:
        t: when, monotonic nanoseconds.
        op: of what is asked: the number by which its outcome finds it, unique for a client.
        conn: the number of the client's connection.
        value: the payload, unique for each message that a client makes: `<client>-<number>`; of an
            object, its description.
        cseq, count: of a delivery: its consumer sequence, and the how manieth it says to be.
        since: before this time nobody had asked for the delivery.
        time: when the server says to have stored it, nanoseconds since 1970.
        expect: last sequence of the subject that a publish demands; -1: none.
        batch: the atomic batch that it is part of, and `of` how many messages.
        identified: it carries a message id.
        how: ack, nak, term, all; last or seq of a get; seq of a removal, or purge, which takes what
            is before `seq` of a subject; how the whole stream was read in the end: by SQL, or over
            NATS from who leads, or from another node; create, update, delete or info of an
            object, and left: it is there in the end.
        floor, pending, unacked: of a consumer; `first`, `last`, `messages`: of a stream.
        subjects, deleted: how many a stream says to have, at the end.
        size: the bytes that a stream says to have, and of a message as it was read in the end.
        origin: `<stream> <sequence>` that a copy says to be of.
        msg_id: that of a message as it was read in the end.
        text: an error, a fault, what does not come to an end.
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
        """The line as it stands in the file."""
        return msgspec.json.encode(self).decode()


class StreamRule(msgspec.Struct, omit_defaults=True, frozen=True):
    """What a stream promises beside keeping everything in order.

    Attributes:
        retention: as in its configuration; "latest": the last message of each subject;
            "removing": what clients remove is gone; "ring": the latest `max_msgs`; "fading": each
            message lives for `ttl` nanoseconds.
        mirror: the stream that it equals.
        sources: the streams whose messages it has, each once and in their order.
        letters_of: the consumer whose failed messages it has.
    """

    name: str
    retention: str = "limits"
    mirror: str = ""
    sources: tuple[str, ...] = ()
    letters_of: str = ""
    max_msgs: int = 0
    ttl: int = 0


class ConsumerRule(msgspec.Struct, omit_defaults=True, frozen=True):
    """What a consumer promises.

    Attributes:
        acks: explicit, all or none.
        max_deliver: 0: no bound.
        max_pending: how many may be delivered and not acknowledged; 0: that is not checked.
        ack_wait: nanoseconds before which nothing is delivered again by itself; 0: likewise.
        node: the one that its only client stays with; empty: clients go wherever they are served.
        pushed: it delivers to a subject, so to whoever listens when a delivery arrives.
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
    """Who is to read a stream from its beginning to its end, in order.

    Attributes:
        node: the one that it stays with; empty: it goes wherever it is served.
    """

    client: str
    stream: str
    node: str = ""


class Rules(msgspec.Struct, frozen=True):
    """What was promised in a run.

    Attributes:
        began: what to add to times of the monotonic clock for those since 1970, nanoseconds.
    """

    streams: tuple[StreamRule, ...]
    consumers: tuple[ConsumerRule, ...]
    began: int = 0
    readers: tuple[ReaderRule, ...] = ()


class Writer:
    """Writes the lines of one client; only one thread uses it."""

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
        """A number for something that is about to be asked."""
        return next(self._ops)

    def write(self, kind: Kind, phase: Phase = "", **said: str | int | bool) -> Event:
        """Write a line about now."""
        event = Event(time.monotonic_ns(), self._client, kind, phase, conn=self.conn, **said)  # type: ignore[arg-type]
        self._file.write(self._encode(event) + b"\n")
        return event


class SharedWriter(Writer):
    """One that several threads use."""

    def __init__(self, directory: Path, client: str) -> None:
        super().__init__(directory, client)
        self._lock = threading.Lock()

    def write(self, kind: Kind, phase: Phase = "", **said: str | int | bool) -> Event:
        with self._lock:
            return super().write(kind, phase, **said)


def write_rules(directory: Path, rules: Rules) -> None:
    """Keep what was promised beside what happened."""
    (directory / "rules.json").write_bytes(msgspec.json.encode(rules))


def read_rules(directory: Path) -> Rules:
    """What was promised in a run."""
    return msgspec.json.decode((directory / "rules.json").read_bytes(), type=Rules)


def read_history(directory: Path) -> list[Event]:
    """Every line of every client, in the order of time."""
    decode = msgspec.json.Decoder(Event).decode
    events = [
        decode(line)
        for file in sorted(directory.glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    return sorted(events, key=lambda event: event.t)
