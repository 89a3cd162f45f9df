"""The parser of the protocol between servers of a cluster (ROUTE).

Messages are parsed in `core.protocol.link_parser`, lines are built in `core.protocol.routed`. `A+`
and `A-` (interest in accounts) are ignored: every server announces all its subscriptions. HOLD and
RELEASE are additions; this server sends them only to servers that announce support. Answers to bad
input are those of nats-server 2.15.1.
"""

from typing import Protocol

from core.errors import ProtocolError
from core.protocol.gather import MAX_SIZE_DIGITS, ROUTE
from core.protocol.link_parser import LinkParser, LinkSink

_BEGINNINGS = (b"RS", b"A", b"CONNECT", b"HOLD", b"RELEASE")


class RouteSink(LinkSink, Protocol):
    """The methods that the parser calls, one for each operation; they may raise ProtocolError."""

    def on_sub(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None: ...
    def on_unsub(self, account: bytes, subject: bytes, queue: bytes) -> None: ...
    def on_connect(self, body: bytes) -> None: ...
    def on_hold(self, *, is_held: bool) -> None: ...


class RouteParser(LinkParser[RouteSink]):
    """Parses the operations of another server of the cluster; calls a method of a sink for each."""

    def __init__(self, sink: RouteSink) -> None:
        super().__init__(sink, ROUTE, _BEGINNINGS)

    def _control(self, verb: bytes, args: list[bytes], line: bytes) -> None:
        sink = self._sink
        if verb == b"RS+" and len(args) > 1:
            if len(args) not in (3, 5):
                raise ProtocolError(reason="bad arguments of RS+")
            queue, weight = (args[3], args[4]) if len(args) == 5 else (b"", b"0")
            sink.on_sub(args[1], args[2], queue, _weight(weight))
        elif verb == b"RS-" and len(args) > 1:
            if len(args) not in (3, 4):
                raise ProtocolError(reason="bad arguments of RS-")
            sink.on_unsub(args[1], args[2], args[3] if len(args) == 4 else b"")
        elif verb in (b"HOLD", b"RELEASE"):
            sink.on_hold(is_held=verb == b"HOLD")
        elif verb == b"CONNECT":
            sink.on_connect(line[7:].strip())
        elif verb not in (b"A+", b"A-"):
            super()._control(verb, args, line)


def _weight(digits: bytes) -> int:
    return int(digits) if digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS else 0
