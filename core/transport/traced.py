"""A connection whose operations are logged, both directions, in the reference server's lines.

    127.0.0.1:53412 - cid:5 - "v1.0:go:app" - "$G/user:a" - <<- [SUB foo 1]

Nothing of this is made while `Hub.trace_log` is None: a traced session has another parser, another
publisher and another output list, which show what goes through them. So lines stand in the order
in which things happen, also between connections: a PUB, its payload, then the MSG of each receiver.
"""

import re
from collections.abc import Callable, Iterable
from typing import Self

from core.errors import LimitExceeded
from core.protocol.connect import Connect
from core.protocol.messages import MessageColumns
from core.protocol.parser import Parser, Publication, Publisher, ServerSink
from core.protocol.partial_payload import check_end
from core.pubsub.server import Connection
from core.pubsub.trace_log import TraceLog
from core.transport.wording import quoted

_KINDS = {"STANDARD": "cid", "WEBSOCKET": "wid"}
_VERBS = frozenset((b"PING", b"PONG", b"CONNECT", b"PUB", b"HPUB", b"SUB", b"UNSUB"))
_NO_RESPONDERS = b"NATS/1.0 503\r\n"  # of the server's own making: not shown
_SECRETS = re.compile(
    rb'("?\s*(?:pass\S*?|auth_token\S*?|sig|nkey)"?\s*[:=]\s*"?)[^",\r\n}]*', re.IGNORECASE
)

Show = Callable[[bytes], None]


def trace_of(client: Connection, trace_log: TraceLog | None) -> "ConnectionTrace | None":
    """Return what logs the operations of a client; None: nothing does, or it is no client."""
    if trace_log is None or client.connection_type not in _KINDS:
        return None
    return ConnectionTrace(client, trace_log)


def untraced(before: Parser) -> Parser:
    """Return a parser that shows nothing and goes on where another one has stopped."""
    after = Parser()
    _go_on(after, before)
    return after


def _go_on(after: Parser, before: Parser) -> None:
    for name in Parser.__slots__:
        setattr(after, name, getattr(before, name))


class ConnectionTrace:
    """Writes the lines of one connection."""

    def __init__(self, client: Connection, trace_log: TraceLog) -> None:
        self._client = client
        self._log = trace_log

    def received(self, line: bytes) -> None:
        """Show a control line of the client, without its line end."""
        verb, arguments = _split(line)
        if verb not in _VERBS:
            return
        if verb == b"CONNECT":
            arguments = _SECRETS.sub(rb"\1[REDACTED]", arguments)
        bare = verb in (b"PING", b"PONG") or not arguments
        self._write("<<-", b"[%b]" % (verb if bare else verb + b" " + arguments))

    def received_message(self, headers: bytes, payload: bytes) -> None:
        """Show a message that the client publishes."""
        self._show_payload("<<-", headers, payload)

    def sent(self, data: bytes) -> None:
        """Show what goes to the client; always whole lines, and whole messages."""
        pos = 0
        while pos < len(data):
            end = data.index(b"\r\n", pos)
            line = data[pos:end]
            pos = end + 2
            verb, _, rest = line.partition(b" ")
            if verb in (b"MSG", b"HMSG"):
                sizes = rest.split()[-2:]
                total, cut = int(sizes[1]), int(sizes[0]) if verb == b"HMSG" else 0
                headers, payload = data[pos : pos + cut], data[pos + cut : pos + total]
                pos += total + 2
                if not headers.startswith(_NO_RESPONDERS):
                    self._write("->>", b"[%b]" % line)
                    self._show_payload("->>", headers, payload)
            elif verb == b"-ERR":
                self._write("->>", b"[-ERR %b]" % rest[1:-1])
            elif verb != b"INFO":
                self._write("->>", b"[%b]" % verb.removeprefix(b"+"))

    def publisher(self, wrapped: Publisher) -> Publisher:
        """Return a publisher that shows messages before another one publishes them."""
        return TracedPublisher(self, wrapped)

    def unsubscribed(self, sid: bytes) -> None:
        """Show that a subscription ended, for whatever reason."""
        self._write("<->", b"[DELSUB %b]" % sid)

    def _show_payload(self, arrow: str, headers: bytes, payload: bytes) -> None:
        shown = headers[:-4] if self._log.headers_only else headers + payload
        if not shown:
            return
        most = self._log.max_payload or len(shown)
        text = quoted(shown[:most])
        if most < len(shown):
            text = f'{text[:-1]}..."'
        self._log.write(f"{self._label()} - {arrow} MSG_PAYLOAD: [{text}]")

    def _write(self, arrow: str, operation: bytes) -> None:
        self._log.write(f"{self._label()} - {arrow} {operation.decode(errors='replace')}")

    def _label(self) -> str:
        client, connect = self._client, self._client.connect
        ip = f"[{client.client_ip}]" if ":" in client.client_ip else client.client_ip
        label = f"{ip}:{client.client_port} - {_KINDS[client.connection_type]}:{client.client_id}"
        if client.forwarded_for:
            label = f"{client.forwarded_for}/{label}"
        if not client.is_connected:
            return label
        version = f"v{connect.version}" if connect.version else ""
        if program := ":".join(filter(None, (version, connect.lang, connect.name))):
            label += f" - {quoted(program.encode())}"
        if who := _who(connect):
            label += f" - {quoted(f'{client.account.name}/{who}'.encode())}"
        return label


class TracedParser(Parser):
    """Parses as `Parser` does, one operation after the other, and shows each before it is done."""

    __slots__ = ("_show",)

    def __init__(self, before: Parser, show: Show) -> None:
        """Go on where another parser of the connection has stopped."""
        super().__init__()
        _go_on(self, before)
        self._show = show

    def _gather(self, data: bytes, pos: int, sink: ServerSink) -> int:
        return pos

    def _read(self, data: bytes, pos: int, sink: ServerSink) -> None:
        while pos < len(data):
            end = data.find(b"\n", pos)
            if end < 0:
                self._keep(data[pos:])
                return
            publication = self._control(data[pos:end], sink)
            pos = end + 1
            if publication is None:
                if self.halt:
                    self.halt, self.unread = False, data[pos:]
                    return
                continue
            total = publication[3]
            if total > self.max_payload:
                raise LimitExceeded("Maximum Payload Violation")
            if pos + total + 2 > len(data):
                self._begin(data[pos:], publication)
                return
            check_end(data, pos + total)
            self._publication = publication
            self._complete(data[pos : pos + total], sink)
            pos += total + 2

    def _control(self, line: bytes, sink: ServerSink) -> Publication | None:
        self._show(line.removesuffix(b"\r"))
        return super()._control(line, sink)


class TracedPublisher:
    """Shows a message, and publishes it."""

    def __init__(self, trace: ConnectionTrace, wrapped: Publisher) -> None:
        self._trace = trace
        self._next = wrapped

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message."""
        self._trace.received_message(headers, payload)
        self._next.on_pub(subject, reply, headers, payload)

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish several messages of one subject and size, without reply and headers."""
        for payload in payloads:
            self.on_pub(subject, b"", b"", payload)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages, one by one."""
        for message in batch.messages():
            self.on_pub(*message)
        return False


class TracedOutput(list[bytes]):
    """The gathered output of a session, which shows what is added to it."""

    __slots__ = ("_show",)

    def __init__(self, before: list[bytes], show: Show) -> None:
        """Begin with what gathered already."""
        super().__init__(before)
        self._show = show

    def append(self, line: bytes, /) -> None:
        """Add whole lines."""
        super().append(line)
        self._show(line)

    def __iadd__(self, parts: Iterable[bytes], /) -> Self:  # type: ignore[override, misc]
        added = b"".join(parts)
        super().append(added)
        self._show(added)
        return self


def _who(connect: Connect) -> str:
    if connect.nkey:
        return f"nkey:{connect.nkey}"
    if connect.user:
        return f"user:{connect.user}"
    return "token" if connect.auth_token else ""


def _split(line: bytes) -> tuple[bytes, bytes]:
    """Return the verb of a control line in upper case, and its arguments."""
    found = line.split(None, 1)
    if not found:
        return b"", b""
    verb = found[0].upper()
    for bare in (b"PING", b"PONG", b"CONNECT"):  # what follows needs no blank
        if verb.startswith(bare):
            return bare, line[len(bare) :].lstrip(b" \t")
    return verb, found[1] if len(found) > 1 else b""
