"""The parser of the ROUTE protocol: what one server of a cluster sends another.

`RouteParser.feed` takes what one read of the socket returned, cut anywhere, and calls the sink in
order. Lines as in `core.protocol.routed`, beside PING, PONG, INFO, CONNECT, +OK and -ERR. `A+` and
`A-` (interest in accounts) mean nothing here: every server tells all its interest. HOLD and RELEASE
are additions, sent to those alone that announce that they read them. Answers to bad
input are those of nats-server 2.15.1; where it limits neither lines nor payloads, a bound keeps
what is held between two reads small. Of a large read, messages in a row are handed over in columns.
"""

from typing import Protocol

from core.errors import ProtocolError
from core.protocol.gather import Batch
from core.protocol.gather_routed import gather_routed
from core.protocol.parser import WORTH_GATHERING
from core.protocol.routed import Queues
from core.protocol.words import splitter

MAX_LINE = 1024 * 1024
"""Bytes of a control line; a line of INFO names all client URLs of a server."""
MAX_SIZE = 64 * 1024 * 1024
"""Bytes of headers and payload: the most that `max_payload` of any server can be."""
_UNKNOWN = "Unknown Protocol Operation"
_MAX_SIZE_DIGITS = 9
_BLANKS = b" \t\r\n\x0b\x0c"
_BEGINNINGS = (b"RS", b"A", b"PI", b"PO", b"INFO", b"CONNECT", b"RMSG", b"HMSG", b"+OK", b"-ERR")
_ADDITIONS = (b"HOLD", b"RELEASE")
_MESSAGES = (b"RMSG", b"HMSG")
_LONGEST = 8
_FEW = 8

Message = tuple[bytes, bytes, bytes, Queues, int, int]
"""Account, subject, reply, queue groups, size of the header block, total size."""


class RouteSink(Protocol):
    """What the parser calls for each operation. Methods may raise ProtocolError."""

    def on_message_begun(self) -> None:
        """The payload of a message is to come: raise ProtocolError to wait for none of it."""
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
    def on_batch(self, account: bytes, batch: Batch) -> None:
        """Take messages that stood in a row, of one account and without queue groups.

        The lists are the sink's from now on.
        """
        ...

    def on_sub(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None: ...
    def on_unsub(self, account: bytes, subject: bytes, queue: bytes) -> None: ...
    def on_info(self, body: bytes) -> None: ...
    def on_connect(self, body: bytes) -> None: ...
    def on_ping(self) -> None: ...
    def on_pong(self) -> None: ...
    def on_err(self, text: bytes) -> None: ...
    def on_hold(self, *, is_held: bool) -> None: ...


class RouteParser:
    """Parses what another server of the cluster sends."""

    def __init__(self, sink: RouteSink) -> None:
        self._sink = sink
        self._rest = b""  # the beginning of a control line
        self._chunks: list[bytes] = []  # the beginning of a payload
        self._missing = 0  # bytes of it still to come, line end included
        self._message: Message = (b"", b"", b"", (), 0, 0)

    def feed(self, data: bytes) -> None:
        """Read more bytes. Raises ProtocolError; the parser is not usable after that."""
        if self._missing:
            if len(data) < self._missing:
                self._chunks.append(data)
                self._missing -= len(data)
                return
            data = self._complete(data)
        elif self._rest:
            data = self._rest + data
        self._rest = b""
        end, split = len(data), splitter(data)
        position = self._gather(data, 0)
        on_message = self._sink.on_message
        while 0 <= position < end:
            eol = data.find(b"\n", position)
            if eol < 0:
                self._keep(data[position:])
                return
            args = split(data[position:eol])
            count = len(args)
            if (
                (count == 4 or count == 5)
                and data.startswith(b"RMSG ", position)
                and (digits := args[-1]).isdigit()
                and len(digits) <= _MAX_SIZE_DIGITS
                and args[3] != b"|"
                and (count == 4 or args[3] != b"+")
                and (stop := eol + 1 + int(digits)) + 2 <= end
                and stop - eol <= MAX_SIZE
                and data[stop] == 13
                and data[stop + 1] == 10
            ):
                reply = args[3] if count == 5 else b""
                on_message(args[1], args[2], reply, (), b"", data[eol + 1 : stop])
                position = stop + 2
            else:
                position = self._read_any(data, position, eol, args)

    def _gather(self, data: bytes, position: int) -> int:
        """Pass messages from `position` on to the sink as columns; return where they end."""
        while len(data) - position >= WORTH_GATHERING and data.startswith(_MESSAGES, position):
            account, batch, position = gather_routed(data, position, MAX_SIZE)
            count = len(batch.payloads)
            if count > 1:
                self._sink.on_batch(account, batch)
            elif count:
                ((subject, reply, headers, payload),) = batch.messages()
                self._sink.on_message(account, subject, reply, (), headers, payload)
            if count < _FEW:
                break  # what is here takes another form, or is better read one by one
        return position

    def _read_any(self, data: bytes, position: int, eol: int, args: list[bytes]) -> int:
        """Read an operation of any form; return where it ends, -1 when it is not whole yet."""
        is_indented = data[position] in _BLANKS
        verb = args[0].upper() if args and not is_indented else b""
        if verb not in _MESSAGES:
            self._control(verb, args, data[position:eol])
            return self._gather(data, eol + 1)
        message = _message(verb, args)
        start = eol + 1
        stop = start + message[5]
        if stop + 2 > len(data):
            self._sink.on_message_begun()
            self._message = message
            self._chunks = [data[start:]]
            self._missing = stop + 2 - len(data)
            return -1
        self._deliver(message, data[start : stop + 2])
        return stop + 2

    def _complete(self, data: bytes) -> bytes:
        """Deliver the message whose payload ends in `data`; return what follows it."""
        missing, self._missing = self._missing, 0
        self._chunks.append(data[:missing])
        whole, self._chunks = b"".join(self._chunks), []
        self._deliver(self._message, whole)
        return data[missing:]

    def _deliver(self, message: Message, whole: bytes) -> None:
        account, subject, reply, queues, header_size, _ = message
        if not whole.endswith(b"\r\n"):
            raise ProtocolError(_UNKNOWN, "payload not followed by CR LF")
        headers, payload = whole[:header_size], whole[header_size:-2]
        self._sink.on_message(account, subject, reply, queues, headers, payload)

    def _control(self, verb: bytes, args: list[bytes], line: bytes) -> None:
        sink = self._sink
        if verb == b"RS+" and len(args) > 1:
            if len(args) not in (3, 5):
                raise ProtocolError(reason="bad arguments of RS+")
            queue, weight = (args[3], args[4]) if len(args) == 5 else (b"", b"0")
            sink.on_sub(args[1], args[2], queue, int(weight) if _is_size(weight) else 0)
        elif verb == b"RS-" and len(args) > 1:
            if len(args) not in (3, 4):
                raise ProtocolError(reason="bad arguments of RS-")
            sink.on_unsub(args[1], args[2], args[3] if len(args) == 4 else b"")
        elif verb == b"PING":
            sink.on_ping()
        elif verb == b"PONG":
            sink.on_pong()
        elif verb in _ADDITIONS:
            sink.on_hold(is_held=verb == b"HOLD")
        elif verb == b"INFO":
            sink.on_info(line[4:].strip())
        elif verb == b"CONNECT":
            sink.on_connect(line[7:].strip())
        elif verb == b"-ERR":
            sink.on_err(line[4:].strip().strip(b"'"))
        elif verb not in (b"+OK", b"A+", b"A-"):
            raise ProtocolError(_UNKNOWN)

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a control line. Raises ProtocolError if it cannot become one."""
        begun = rest[:_LONGEST].upper()
        names = _BEGINNINGS + _ADDITIONS
        if not any(begun.startswith(name[: len(begun)]) for name in names):
            raise ProtocolError(_UNKNOWN)
        if len(rest) > MAX_LINE:
            raise ProtocolError("maximum control line exceeded")
        self._rest = rest


def _message(verb: bytes, args: list[bytes]) -> Message:
    """Read the control line of a message."""
    sizes = 2 if verb == b"HMSG" else 1
    middle = args[3:-sizes]
    if len(args) < 3 + sizes:
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
    return args[1], args[2], reply, queues, header_size, numbers[-1]


def _is_size(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= _MAX_SIZE_DIGITS
