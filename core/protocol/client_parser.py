"""The parser of a NATS client: it turns bytes from a server into method calls, one per operation.

The parser of the server's side is `core.protocol.server_parser`.
"""

from typing import Protocol

from core.errors import ProtocolError
from core.protocol.partial_payload import PartialPayload, check_end
from core.protocol.words import splitter

_MAX_SIZE_DIGITS = 10

Delivery = tuple[bytes, bytes, bytes, int, int]
"""Subject, sid, reply, bytes of the header block, bytes of headers and payload."""


class ClientSink(Protocol):
    """The methods that the parser calls, one for each operation (MSG, INFO, ...) of a server."""

    def on_msg(
        self, subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None: ...

    def on_info(self, body: bytes) -> None: ...
    def on_ping(self) -> None: ...
    def on_pong(self) -> None: ...
    def on_ok(self) -> None: ...

    def on_err(self, text: bytes) -> None:
        """Handle an -ERR line; `text` is its text without the quotes."""
        ...


class ClientParser:
    """Parses the operations that a NATS server sends to a client.

    Calls a method of a sink for each.
    """

    __slots__ = ("_delivery", "_payload", "_rest", "_sink")

    def __init__(self, sink: ClientSink) -> None:
        self._sink = sink
        self._rest = b""
        self._payload = PartialPayload()
        self._delivery: Delivery = (b"", b"", b"", 0, 0)

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the connection, which may end at any position.

        Raises ProtocolError for an invalid operation; the parser must not be used after that.
        """
        if self._payload.missing:
            if (completed := self._payload.add(data)) is None:
                return
            whole, data = completed
            subject, sid, reply, size, _ = self._delivery
            self._sink.on_msg(subject, sid, reply, whole[:size], whole[size:])
        elif self._rest:
            data = self._rest + data
            self._rest = b""
        if data:
            self._read(data)

    def _read(self, data: bytes) -> None:
        pos, end = 0, len(data)
        find = data.find
        on_msg = self._sink.on_msg
        split = splitter(data)
        while pos < end:
            eol = find(b"\n", pos)
            if eol < 0:
                self._rest = data[pos:]
                return
            args = split(data[pos:eol])
            count = len(args)
            if count in (4, 5) and args[0] == b"MSG":
                subject, sid = args[1], args[2]
                reply = args[3] if count == 5 else b""
                header_size, total = 0, read_size(args[-1])
            else:
                delivery = self._control(data[pos:eol], args)
                if delivery is None:
                    pos = eol + 1
                    continue
                subject, sid, reply, header_size, total = delivery
            start = eol + 1
            stop = start + total
            if stop + 2 > end:
                self._delivery = (subject, sid, reply, header_size, total)
                self._payload.begin(data[start:], total)
                return
            check_end(data, stop)
            body = start + header_size
            on_msg(subject, sid, reply, data[start:body], data[body:stop])
            pos = stop + 2

    def _control(self, line: bytes, args: list[bytes]) -> Delivery | None:
        sink = self._sink
        verb = args[0].upper() if args else b""
        if verb in (b"MSG", b"HMSG"):
            return _delivery(verb, args)
        if verb == b"PING":
            sink.on_ping()
        elif verb == b"PONG":
            sink.on_pong()
        elif verb == b"INFO":
            sink.on_info(line[4:].strip())
        elif verb == b"+OK":
            sink.on_ok()
        elif verb == b"-ERR":
            sink.on_err(line[4:].strip().strip(b"'"))
        else:
            raise ProtocolError(reason="unknown operation from the server")
        return None


def _delivery(verb: bytes, args: list[bytes]) -> Delivery:
    count = len(args)
    if verb == b"MSG" and count in (4, 5):
        return args[1], args[2], args[3] if count == 5 else b"", 0, read_size(args[-1])
    if verb == b"HMSG" and count in (5, 6):
        header_size, total = read_size(args[-2]), read_size(args[-1])
        if header_size <= total:
            return args[1], args[2], args[3] if count == 6 else b"", header_size, total
    raise ProtocolError(reason="bad arguments of a delivery")


def read_size(digits: bytes) -> int:
    """Decode a number of bytes in a control line of a server, such as the size in a MSG line.

    Raises ProtocolError if it is no number or has more than 10 digits.
    """
    if not digits.isdigit() or len(digits) > _MAX_SIZE_DIGITS:
        raise ProtocolError(reason="bad size")
    return int(digits)
