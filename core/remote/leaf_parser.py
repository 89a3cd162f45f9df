"""The parser of the leaf node protocol: what a server sends to a leaf node.

Besides PING, PONG, INFO, +OK and -ERR these are messages and changes of interest:

LMSG <subject> [<reply>] <size>                    HMSG <subject> [<reply>] <headers> <size>
LMSG <subject> + <reply> <queue>... <size>         LMSG <subject> | <queue>... <size>
LS+ <subject> [<queue> <weight>]                   LS- <subject> [<queue>]
"""

from typing import Protocol

from core.errors import ProtocolError
from core.protocol.client_parser import read_size
from core.protocol.words import splitter


class LeafSink(Protocol):
    """What the parser calls for each operation of a server."""

    def on_message(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None: ...
    def on_sub(self, subject: bytes, queue: bytes) -> None: ...
    def on_unsub(self, subject: bytes, queue: bytes) -> None: ...
    def on_info(self, body: bytes) -> None: ...
    def on_ping(self) -> None: ...
    def on_pong(self) -> None: ...
    def on_err(self, text: bytes) -> None: ...


class LeafParser:
    """Parses what a server sends to a leaf node."""

    def __init__(self, sink: LeafSink) -> None:
        self._sink = sink
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Read more bytes. Raises ProtocolError; the parser is not usable after that."""
        data = self._rest + data if self._rest else data
        position, end = 0, len(data)
        split = splitter(data)
        while position < end:
            eol = data.find(b"\n", position)
            if eol < 0:
                break
            args = split(data[position:eol])
            verb = args[0].upper() if args else b""
            if verb not in (b"LMSG", b"HMSG"):
                self._control(verb, args, data[position:eol])
                position = eol + 1
                continue
            subject, reply, header_size, size = _delivery(verb, args)
            start = eol + 1
            stop = start + size
            if stop + 2 > end:
                break
            if data[stop : stop + 2] != b"\r\n":
                raise ProtocolError(reason="payload not followed by CR LF")
            body = start + header_size
            self._sink.on_message(subject, reply, data[start:body], data[body:stop])
            position = stop + 2
        self._rest = data[position:]

    def _control(self, verb: bytes, args: list[bytes], line: bytes) -> None:
        sink = self._sink
        if verb in (b"LS+", b"LS-") and len(args) > 1:
            queue = args[2] if len(args) > 2 else b""
            (sink.on_sub if verb == b"LS+" else sink.on_unsub)(args[1], queue)
        elif verb == b"PING":
            sink.on_ping()
        elif verb == b"PONG":
            sink.on_pong()
        elif verb == b"INFO":
            sink.on_info(line[4:].strip())
        elif verb == b"-ERR":
            sink.on_err(line[4:].strip().strip(b"'"))
        elif verb != b"+OK":
            raise ProtocolError(reason="unknown operation from the server")


def _delivery(verb: bytes, args: list[bytes]) -> tuple[bytes, bytes, int, int]:
    """Return subject, reply, size of the header block and total size of a message."""
    sizes = 2 if verb == b"HMSG" else 1
    middle = args[2:-sizes]
    if len(args) < 2 + sizes or (len(middle) > 1 and middle[0] not in (b"+", b"|")):
        raise ProtocolError(reason="bad arguments of a delivery")
    reply = b""
    if middle and middle[0] == b"+":
        reply = middle[1]
    elif len(middle) == 1:
        reply = middle[0]
    numbers = [read_size(digits) for digits in args[-sizes:]]
    header_size = numbers[0] if sizes == 2 else 0
    if header_size > numbers[-1]:
        raise ProtocolError(reason="bad arguments of a delivery")
    return args[1], reply, header_size, numbers[-1]
