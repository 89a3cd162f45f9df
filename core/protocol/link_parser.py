"""The parser of operations from another server: a member of the cluster, or the hub of a leaf node.

Both kinds of connections transfer messages in the same form (`core.protocol.routed`); those of a
cluster add the name of an account. Subclasses parse their other operations.

`LinkParser.feed` takes the bytes of one read of the socket, split at any position, and calls the
sink's methods in order. nats-server 2.15.1 limits neither lines nor payloads; the limits of this
module bound the bytes kept between two reads. Consecutive messages of a large read are passed on as
one batch (`core.protocol.messages.MessageColumns`).
"""

from typing import Generic, Protocol, TypeVar

from core.errors import ProtocolError
from core.protocol.gather import (
    GATHER_ALL,
    MAX_SIZE_DIGITS,
    WORTH_GATHERING,
    Form,
    gather,
)
from core.protocol.messages import MessageColumns
from core.protocol.partial_payload import UNKNOWN_OPERATION, PartialPayload, check_end
from core.protocol.routed import Queues
from core.protocol.words import splitter

MAX_LINE = 1024 * 1024
"""Largest control line in bytes; an INFO line contains all client URLs of a server."""
MAX_SIZE = 64 * 1024 * 1024
"""Largest headers and payload of a message in bytes: the largest `max_payload` that can be set."""
_LIMITS = MAX_SIZE, MAX_LINE, GATHER_ALL
_BLANKS = b" \t\r\n\x0b\x0c"
_FEW = 8
"""If a batch has fewer messages than this, the rest of the read is parsed one by one."""

Message = tuple[bytes, bytes, bytes, Queues, int, int]
"""Account, subject, reply, queue groups, bytes of the header block, bytes of headers and
payload.
"""


class LinkSink(Protocol):
    """The methods that the parser calls for messages and keep-alives; they may raise ProtocolError.

    On connections without account names (leaf nodes), the account is b"".
    """

    def on_message_begun(self) -> None:
        """Handle the beginning of a message whose payload has not arrived completely.

        A ProtocolError raised by this method ends the connection before the rest arrives.
        """
        ...

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None: ...
    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        """Handle consecutive messages of one account, without queue groups.

        The parser does not use the lists of `batch` afterwards.
        """
        ...

    def on_info(self, body: bytes) -> None: ...
    def on_ping(self) -> None: ...
    def on_pong(self) -> None: ...
    def on_err(self, text: bytes) -> None: ...


SinkT = TypeVar("SinkT", bound=LinkSink)


class LinkParser(Generic[SinkT]):
    """Parses messages and keep-alives from another server; a subclass parses all other operations.

    Args:
        sink: Its methods are called for each operation.
        form: The form of the peer's message lines.
        beginnings: The verbs of the other operations.
    """

    def __init__(self, sink: SinkT, form: Form, beginnings: tuple[bytes, ...]) -> None:
        self._sink = sink
        self._form = form
        self._messages = form.plain, form.headed
        self._beginnings = (
            *self._messages,
            *beginnings,
            b"PING",
            b"PONG",
            b"INFO",
            b"-ERR",
            b"+OK",
        )
        self._longest = max(map(len, self._beginnings))
        self._rest = b""  # the beginning of a control line
        self._payload = PartialPayload()
        self._message: Message = (b"", b"", b"", (), 0, 0)

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the connection, which may end at any position.

        Raises ProtocolError for an invalid operation; the parser must not be used after that.
        """
        if self._payload.missing:
            if (completed := self._payload.add(data)) is None:
                return
            whole, data = completed
            self._deliver(self._message, whole)
        elif self._rest:
            data = self._rest + data
        self._rest = b""
        if data:
            self._read(data, self._gather(data, 0))

    def _read(self, data: bytes, position: int) -> None:
        end, find, split = len(data), data.find, splitter(data)
        at, plain, marks = self._form.subject, self._form.plain, self._form.marks
        on_message = self._sink.on_message
        while 0 <= position < end:
            eol = find(b"\n", position)
            if eol < 0:
                self._keep(data[position:])
                return
            args = split(data[position:eol])
            others = len(args) - at - 2
            if (
                (others == 0 or (others == 1 and args[-2] not in marks))
                and args[0] == plain
                and data[position] > 32
                and (digits := args[-1]).isdigit()
                and len(digits) <= MAX_SIZE_DIGITS
                and (stop := eol + 1 + int(digits)) + 2 <= end
                and stop - eol <= MAX_SIZE
                and data[stop] == 13
                and data[stop + 1] == 10
            ):
                on_message(
                    args[1] if at > 1 else b"",
                    args[at],
                    args[-2] if others else b"",
                    (),
                    b"",
                    data[eol + 1 : stop],
                )
                position = stop + 2
            else:
                position = self._read_any(data, position, eol, args)

    def _gather(self, data: bytes, position: int) -> int:
        """Pass consecutive messages from `position` on to the sink as batches; return their end."""
        while len(data) - position >= WORTH_GATHERING:
            if not data.startswith(self._messages, position):
                break
            batch, account, position = gather(data, position, self._form, _LIMITS)
            count = len(batch)
            if count > 1:
                self._sink.on_batch(account, batch)
            elif count:
                ((subject, reply, headers, payload),) = batch.messages()
                self._sink.on_message(account, subject, reply, (), headers, payload)
            if count < _FEW:
                break  # these messages have another form, or are better parsed one by one
        return position

    def _read_any(self, data: bytes, position: int, eol: int, args: list[bytes]) -> int:
        """Parse an operation of any form. Return the index of its end; -1: it is incomplete."""
        is_indented = data[position] in _BLANKS
        verb = args[0].upper() if args and not is_indented else b""
        if verb not in self._messages:
            self._control(verb, args, data[position:eol])
            return self._gather(data, eol + 1)
        message = read_message(args, self._form, has_headers=verb == self._form.headed)
        start = eol + 1
        stop = start + message[5]
        if stop + 2 > len(data):
            self._sink.on_message_begun()
            self._message = message
            self._payload.begin(data[start:], message[5])
            return -1
        check_end(data, stop)
        self._deliver(message, data[start:stop])
        return stop + 2

    def _deliver(self, message: Message, whole: bytes) -> None:
        account, subject, reply, queues, size, _ = message
        self._sink.on_message(account, subject, reply, queues, whole[:size], whole[size:])

    def _control(self, verb: bytes, args: list[bytes], line: bytes) -> None:
        """Handle an operation other than a message. Raises ProtocolError."""
        sink = self._sink
        if verb == b"PING":
            sink.on_ping()
        elif verb == b"PONG":
            sink.on_pong()
        elif verb == b"INFO":
            sink.on_info(line[4:].strip())
        elif verb == b"-ERR":
            sink.on_err(line[4:].strip().strip(b"'"))
        elif verb != b"+OK":
            raise ProtocolError(UNKNOWN_OPERATION)

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a control line. Raises ProtocolError if it cannot become one."""
        begun = rest[: self._longest].upper()
        if not any(begun.startswith(name[: len(begun)]) for name in self._beginnings):
            raise ProtocolError(UNKNOWN_OPERATION)
        if len(rest) > MAX_LINE:
            raise ProtocolError("maximum control line exceeded")
        self._rest = rest


def read_message(args: list[bytes], form: Form, *, has_headers: bool) -> Message:
    """Parse the words of a message's control line. Raises ProtocolError if they are invalid."""
    at, sizes = form.subject, 2 if has_headers else 1
    middle = args[at + 1 : -sizes]
    if len(args) < at + 1 + sizes:
        raise ProtocolError(reason="bad arguments of a message")
    reply = b""
    queues: Queues = ()
    if middle and middle[0] == b"+" and len(middle) > 1:
        reply, queues = middle[1], tuple(middle[2:])
    elif middle and middle[0] == b"|":
        queues = tuple(middle[1:])
    elif len(middle) == 1:
        reply = middle[0]
    elif middle:
        raise ProtocolError(reason="bad arguments of a message")
    numbers = [int(digits) if _is_size(digits) else -1 for digits in args[-sizes:]]
    header_size = numbers[0] if sizes == 2 else 0
    if not 0 <= header_size <= numbers[-1] <= MAX_SIZE:
        raise ProtocolError(reason="bad size of a message")
    return args[1] if at > 1 else b"", args[at], reply, queues, header_size, numbers[-1]


def _is_size(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS
