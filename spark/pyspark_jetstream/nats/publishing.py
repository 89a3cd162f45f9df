"""Publisher that sends many messages to streams before it waits for their acks."""

import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import add

from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.errors import (
    Disconnected,
    NatsError,
    Refused,
    Timeout,
    is_passing,
    is_unserved,
    refused,
)
from pyspark_jetstream.nats.headers import status_of
from pyspark_jetstream.nats.parser import Columns
from pyspark_jetstream.nats.requests import Requests
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.nats.tries import Tries


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages to publish, a list for each part; entry i of all lists is message i.

    Attributes:
        subjects: Subjects.
        blocks: Header blocks; `b""` for a message without headers.
        payloads: Payloads.
    """

    subjects: list[bytes]
    blocks: list[bytes]
    payloads: list[bytes]

    def __len__(self) -> int:
        return len(self.subjects)


_ASK = 5.0
"""Timeout of the request for the streams of a subject, in seconds."""


class NotStored(NatsError):
    """A stream refused a published message.

    Args:
        place: Index of the message among all that the publisher sent, from 0.
        subject: Subject of the message.
        error: The server's error.
    """

    def __init__(self, place: int, subject: str, error: Refused) -> None:
        super().__init__(f"message {place} to {subject} was not stored: {error}")
        self.place, self.subject, self.error = place, subject, error


class _Chunk:
    """The messages of one `Publisher.send`, with the acknowledgement of each."""

    __slots__ = ("acks", "first", "left", "messages", "number", "replies", "size")

    def __init__(self, number: int, first: int, messages: Messages) -> None:
        self.number = number
        self.first = first
        self.messages = messages
        self.replies: list[bytes] = []
        self.acks: list[bytes | None] = [None] * len(messages)
        self.left = len(messages)
        self.size = sum(map(len, messages.blocks)) + sum(map(len, messages.payloads))

    def assign_run(self, subjects: list[bytes], payloads: list[bytes], begin: int) -> int:
        """Assign answers from index `begin` on, if they acknowledge the next messages in order.

        Returns the number of assigned answers: all that belong to this chunk, or 0.
        """
        # The first unacknowledged message, if all acks came in order so far
        at = len(self.acks) - self.left
        end = min(begin + self.left, len(subjects))
        stop = at + end - begin
        if subjects[begin:end] != self.replies[at:stop] or any(self.acks[at:stop]):
            return 0
        self.acks[at:stop] = payloads[begin:end]
        self.left -= stop - at
        return stop - at


class Publisher:
    """Publisher over one connection, which it opens again after a failure.

    After that, it sends all unacknowledged messages again. To prevent duplicates, each message
    needs a `Nats-Msg-Id`. Life cycle: `send` for each group of messages, `finish`, `close`.

    Args:
        settings: Servers and credentials.
        in_flight: Largest number of unacknowledged messages.
        bytes_in_flight: Largest number of their bytes. A `send` that alone exceeds a limit waits
            until no other message is unacknowledged.
        on_stored: Called with the acknowledgements of each `send`, in the order of sending.
        stream: The stream that must store the messages; "" for any.
    """

    def __init__(
        self,
        settings: Settings,
        in_flight: int,
        bytes_in_flight: int,
        on_stored: Callable[[list[bytes]], None] = lambda acks: None,
        stream: str = "",
    ) -> None:
        self._settings = settings
        self._most = in_flight
        self._most_bytes = bytes_in_flight
        self._on_stored = on_stored
        self._stream, self._usual = stream, usual(stream)
        self._connection: Connection | None = None
        self._acks = Columns()
        self._inbox = b""
        self._open: deque[_Chunk] = deque()
        self._by_number: dict[bytes, _Chunk] = {}
        self._chunks = 0
        self._sent = 0
        self._left = 0
        self._bytes = 0
        self._tries = Tries(settings)

    @property
    def connection(self) -> Connection:
        """The connection, opened on first use."""
        if self._connection is None:
            connection = Connection(self._settings, self._tries.left())
            self._inbox = f"{self._settings.inbox_prefix}.{secrets.token_hex(11)}.".encode()
            _, self._acks = connection.subscribe(f"{self._inbox.decode()}>")
            self._connection = connection
        return self._connection

    @property
    def max_payload(self) -> int:
        """Largest size of a message's headers and payload together, in bytes, by the server's INFO.

        Raises Disconnected if no server can be reached within the limits of the settings.
        """
        self._retried(lambda: self.connection)
        return self.connection.max_payload

    def send(self, messages: Messages) -> None:
        """Send messages; wait before that while the limits of unacknowledged messages are reached.

        Returns before the messages are stored; `finish` waits for that.

        Raises:
            NotStored: A stream refused one of the messages sent so far.
            Disconnected, Timeout: The attempts to reconnect are exhausted.
        """
        chunk = _Chunk(self._chunks, self._sent, messages)
        while self._open and (
            self._left + chunk.left > self._most or self._bytes + chunk.size > self._most_bytes
        ):
            self._retried(self._wait)
        self._chunks += 1
        self._sent += len(messages)
        self._left += len(messages)
        self._bytes += chunk.size
        self._open.append(chunk)
        self._by_number[b"%d" % chunk.number] = chunk
        self._retried(lambda: self._write(chunk))

    def finish(self) -> None:
        """Wait until all sent messages are acknowledged.

        Raises:
            NotStored: A stream refused one of them.
            Disconnected, Timeout: The attempts to reconnect are exhausted.
        """
        while self._open:
            self._retried(self._wait)

    def close(self) -> None:
        """Close the connection, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, chunk: _Chunk) -> None:
        """Send the unacknowledged messages of a chunk."""
        connection = self.connection
        chunk.replies = places(b"%b%d." % (self._inbox, chunk.number), len(chunk.messages))
        connection.send(operations(chunk.messages, chunk.acks, chunk.replies))

    def _wait(self) -> None:
        """Read until the oldest chunk is stored; pass the acks of stored chunks to `on_stored`."""
        chunk = self._open[0]
        connection = self.connection

        def stored() -> bool:
            self._assign_acks()
            return chunk.left == 0

        connection.wait(stored, self._settings.timeout, "published messages")
        self._tries.restart()
        while self._open and self._open[0].left == 0:
            done = self._open.popleft()
            self._bytes -= done.size
            del self._by_number[b"%d" % done.number]
            self._on_stored([ack or b"" for ack in done.acks])

    def _assign_acks(self) -> None:
        """Assign the received acks to their messages."""
        acks = self._acks
        if not len(acks):
            return
        subjects, payloads, headers = acks.subjects[:], acks.payloads[:], acks.headers[:]
        acks.clear()
        if any(headers) or not acknowledge(payloads, self._usual):
            self._assign_each(subjects, payloads, headers, check=True)
            return
        at = 0
        for chunk in self._open:  # answers mostly arrive in the order of sending
            taken = chunk.assign_run(subjects, payloads, at)
            at += taken
            self._left -= taken
            if chunk.left:
                break
        if at < len(subjects):
            self._assign_each(subjects[at:], payloads[at:], headers[at:], check=False)

    def _assign_each(
        self, subjects: list[bytes], payloads: list[bytes], headers: list[bytes], *, check: bool
    ) -> None:
        """Assign answers in any order; with `check`, look for errors among them."""
        failure: tuple[int, str, Refused] | None = None
        for subject, payload, header in zip(subjects, payloads, headers, strict=True):
            _, number, place = subject.rsplit(b".", 2)
            chunk = self._by_number.get(number)
            if chunk is None or chunk.acks[int(place)] is not None:
                continue
            if check and (error := error_of(payload, header, self._stream)) is not None:
                name = chunk.messages.subjects[int(place)].decode("utf-8", "replace")
                failure = failure or (chunk.first + int(place), name, error)
                continue
            chunk.acks[int(place)] = payload
            chunk.left -= 1
            self._left -= 1
        if failure is not None:
            raise NotStored(*failure)

    def _retried(self, step: Callable[[], object]) -> None:
        """Run a step; after a broken connection, send unacknowledged messages again."""
        while True:
            try:
                step()
            except Disconnected as error:
                self._again(error)
            except Timeout as error:
                self._refuse_unserved()
                self._again(error)
            except NotStored as error:
                if is_unserved(error.error):
                    self._refuse_unserved(error)
                elif not is_passing(error.error):
                    raise
                self._again(error)
            else:
                return
            step = self._write_all

    def _refuse_unserved(self, error: NotStored | None = None) -> None:
        """Raise NotStored if no stream has the subject: its messages would never be acknowledged.

        Args:
            error: The error "no responders"; None if a message has no answer at all.
        """
        if error is None:
            chunk = self._open[0] if self._open else None
            if chunk is None or None not in chunk.acks:
                return
            place = chunk.acks.index(None)
            subject = chunk.messages.subjects[place].decode("utf-8", "replace")
            place += chunk.first
        else:
            place, subject = error.place, error.subject
        if self._streams_of(subject) == 0:
            raise NotStored(place, subject, Refused(503, 0, "no stream takes this subject"))

    def _streams_of(self, subject: str) -> int | None:
        """Return the number of streams that store a subject; None if unknown."""
        try:
            with Connection(self._settings) as connection:
                names = f"{self._settings.api_prefix}.STREAM.NAMES"
                answer = Requests(connection).api(names, {"subject": subject}, _ASK)
        except NatsError:
            return None
        return len(answer.get("streams") or ())

    def _write_all(self) -> None:
        """Connect, and send all unacknowledged messages. The caller waits for them afterwards."""
        assert self.connection is not None, "it is made here"
        for chunk in self._open:
            self._write(chunk)

    def _again(self, error: NatsError) -> None:
        """Close the connection and pause before a retry; raise `error` if the attempts are
        exhausted.

        Acks that arrive late go to the inbox of the closed connection, so none is counted twice.
        """
        self.close()
        if not self._tries.again():
            raise error


def places(begin: bytes, count: int) -> list[bytes]:
    """Return `count` reply subjects: `begin` followed by the index of the message, from 0."""
    for place in range(len(_PLACES), count):
        _PLACES.append(b"%d" % place)
    return [begin + place for place in _PLACES[:count]]


_PLACES: list[bytes] = []
"""Indexes as text, cached because formatting them is most of the cost of a reply subject."""


def operations(messages: Messages, acks: Sequence[bytes | None], replies: Sequence[bytes]) -> bytes:
    """Return the bytes of the PUB and HPUB operations of all messages without an ack.

    Args:
        messages: The messages.
        acks: The acknowledgement of each message; None without one.
        replies: The reply subject of each message.
    """
    if not any(acks) and all(messages.blocks):
        blocks, payloads = messages.blocks, messages.payloads
        sizes = list(map(len, blocks))
        totals = map(add, sizes, map(len, payloads))
        rows = zip(messages.subjects, replies, sizes, totals, blocks, payloads, strict=True)
        # One format string for all messages is faster than one for each.
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" * len(acks) % tuple(chain.from_iterable(rows))
    each = zip(messages.subjects, messages.blocks, messages.payloads, replies, acks, strict=True)
    return b"".join(
        [
            b"HPUB %b %b %d %d\r\n%b%b\r\n"
            % (subject, reply, len(block), len(block) + len(payload), block, payload)
            if block
            else b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
            for subject, block, payload, reply, ack in each
            if ack is None
        ]
    )


def usual(stream: str) -> "re.Pattern[bytes]":
    """Return a regular expression that matches the usual publish acks of a stream; "": of any
    stream.
    """
    name = re.escape(json.dumps(stream)[1:-1].encode()) if stream else rb'[^"\\]+'
    return re.compile(
        rb'\{"stream": ?"%b", ?"seq": ?[0-9]{1,20}(, ?"[a-z]+": ?(true|"[^"\\]*"|[0-9]{1,20}))*\}'
        % name
    )


def acknowledge(answers: Sequence[bytes], pattern: "re.Pattern[bytes]") -> bool:
    """Return True if all answers match `pattern`, so that all are acknowledgements.

    If it returns False, each answer must be parsed: an acknowledgement may have another form.

    Args:
        answers: Payloads of answers to publishes.
        pattern: The result of `usual`.
    """
    return all(map(pattern.fullmatch, answers)) and b'"error"' not in b"".join(answers)


def error_of(payload: bytes, header: bytes, stream: str = "") -> Refused | None:
    """Return the error in an answer to a publish; None if the answer is an acknowledgement.

    Args:
        payload, header: Payload and header block of the answer. Any client that subscribes to the
            subject may have sent it.
        stream: The stream that must store the message; "" for any.
    """
    nothing = Refused(0, 0, f"the answer is no acknowledgement: {payload[:200]!r}")
    try:
        answer = json.loads(payload) if payload else {}
        error = answer.get("error")
        if error:
            return refused(error)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return nothing
    status = status_of(header)
    if status is not None:
        words = status.text or ("no stream takes this subject" if status.code == 503 else "")
        return Refused(status.code, 0, words)
    if not payload:
        return Refused(0, 0, "an empty answer: this is no stream")
    found, seq = answer.get("stream"), answer.get("seq")
    if not isinstance(found, str) or not isinstance(seq, int) or isinstance(seq, bool):
        return nothing
    if stream and found != stream:
        return Refused(0, 0, f"stream {found!r} has answered, expected stream {stream!r}")
    return None
