"""The server's parser: it turns bytes from a client into one method call on a sink per operation.

`Parser.feed(data, sink)` takes the bytes of one read of the socket, split at any position, and
calls the sink's methods in order. There is no object per operation: it would cost more than the
parsing. Limits are checked before any bytes are kept (a payload over `max_payload` is refused): at
most one control line and one payload of legal size are kept between two calls.

The loop in `Parser._read` parses the common forms of PUB and HPUB by `split`. All other input
(other verbs, any case, LF-only lines, tabs, form feeds inside a subject) goes to `_control`, which
implements the grammar exactly. Both must agree; a property test checks it. Consecutive messages are
passed on as one batch (`core.protocol.messages.MessageColumns`), as long as the publisher processes
such batches as a whole. A publisher that did not is offered another batch from time to time.

Two results differ from nats-server, both on input that no client sends. A lone CR inside the
arguments of a PUB separates arguments, and a size with leading zeros is passed on without them.
"""

import re
from typing import Protocol

from core.errors import LimitExceeded, ProtocolError
from core.protocol.gather import (
    CLIENT,
    GATHER_ALL,
    GATHER_SAMPLE,
    MAX_SIZE_DIGITS,
    WORTH_GATHERING,
    gather,
)
from core.protocol.messages import MessageColumns
from core.protocol.partial_payload import UNKNOWN_OPERATION, PartialPayload

MAX_PAYLOAD = 1024 * 1024
MAX_CONTROL_LINE = 4096
_RUN_START, _RUN_MAX = 8, 256  # messages of a window in `_run`
_OFFER_EVERY = 64  # one of 64 large reads is offered as a batch to a publisher that split the last
_PUBLISH = (b"PUB ", b"HPUB ")

_ARGUMENTS = re.compile(rb"[^ \t\r\n]+")
_BARE = (b"PING", b"PONG", b"+OK")
_SPACED = (b"PUB", b"HPUB", b"SUB", b"UNSUB", b"INFO", b"-ERR")
_BEGINNINGS = tuple((name, (name + b" ", name + b"\t")) for name in _SPACED)
_VERBS = (*_BARE, *_SPACED, b"CONNECT")

TRACE_HEADER = b"\r\nNats-Trace-Dest:"
"""The beginning of a header line that requests a trace of its message (ADR-41)."""

Publication = tuple[bytes, bytes, int, int]
"""Subject, reply, bytes of the header block (-1: a PUB), bytes of headers and payload."""


class Publisher(Protocol):
    """The methods that the parser calls for a client's messages. They may raise ProtocolError."""

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None: ...

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Handle messages with the same subject and size, without reply and headers."""
        ...

    def on_batch(self, batch: MessageColumns) -> bool:
        """Handle consecutive messages. Return False if they were processed one by one.

        After False, the parser stops collecting batches for a while. It does not use the lists of
        `batch` afterwards.
        """
        ...


class ServerSink(Protocol):
    """The methods that the parser calls for a client's operations. They may raise ProtocolError."""

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None: ...
    def on_unsub(self, sid: bytes, limit: int) -> None: ...
    def on_connect(self, body: bytes) -> None: ...
    def on_ping(self) -> None: ...
    def on_pong(self) -> None: ...

    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Handle a message whose headers request a trace (ADR-41).

        It is not passed to the publisher.
        """
        ...

    @property
    def publisher(self) -> Publisher:
        """The object whose methods are called for messages.

        It may change with a CONNECT or between reads.
        """
        ...

    @property
    def headers(self) -> bool:
        """True if the client has announced header support; otherwise an HPUB is refused."""
        ...


class Parser:
    """Parses the operations of one client connection.

    A sink that sets `halt` during a call for a SUB or UNSUB ends the read after it. The remaining
    bytes are then in `unread`; the caller must feed them later, before any other bytes.

    Attributes:
        msgs: Number of messages parsed.
        nbytes: Bytes of their headers and payloads.
        gathers: Whether consecutive messages are passed on as batches in every read.
    """

    __slots__ = (
        "_large_reads",
        "_payload",
        "_publication",
        "_rest",
        "gathers",
        "halt",
        "max_control_line",
        "max_payload",
        "msgs",
        "nbytes",
        "unread",
    )

    def __init__(
        self, max_payload: int = MAX_PAYLOAD, max_control_line: int = MAX_CONTROL_LINE
    ) -> None:
        self.max_payload = max_payload
        self.max_control_line = max_control_line
        self.msgs = 0
        self.nbytes = 0
        self.gathers = False
        self.halt = False
        self.unread = b""
        self._rest = b""  # the beginning of a control line
        self._payload = PartialPayload()
        self._publication: Publication = (b"", b"", -1, 0)
        self._large_reads = 0

    @property
    def begun(self) -> tuple[bytes, int] | None:
        """Subject of a publish whose payload is incomplete, and the number of missing bytes.

        None if there is no such publish.
        """
        missing = self._payload.missing
        return (self._publication[0], missing) if missing else None

    def withdraw_unread(self) -> bytes:
        """Return the bytes that were fed but not parsed yet, and remove them from the parser."""
        data, self._rest, self.unread = self._rest + self.unread, b"", b""
        return data

    def feed(self, data: bytes, sink: ServerSink) -> None:
        """Parse the next bytes of the connection, which may end at any position.

        Raises ProtocolError for an invalid operation; the parser must not be used after that.
        """
        if self._payload.missing:
            if (completed := self._payload.add(data)) is None:
                return
            whole, data = completed
            self._complete(whole, sink)
        elif self._rest:
            data = self._rest + data
            self._rest = b""
        if data:
            self._read(data, self._gather(data, 0, sink), sink)

    def _gather(self, data: bytes, pos: int, sink: ServerSink) -> int:
        """Pass consecutive messages from `pos` on to the publisher as a batch; return their end."""
        if len(data) - pos < WORTH_GATHERING or not data.startswith(_PUBLISH, pos):
            return pos
        self._large_reads += 1
        if not self.gathers and self._large_reads % _OFFER_EVERY != 1:
            return pos
        most = GATHER_ALL if self.gathers else GATHER_SAMPLE
        limits = (self.max_payload, self.max_control_line, most)
        batch, _, pos = gather(data, pos, CLIENT, limits, with_headers=sink.headers)
        if batch.payloads:
            self.msgs += len(batch.payloads)
            self.nbytes += batch.nbytes
            if batch.has_headers and b"".join(batch.headers).find(TRACE_HEADER) >= 0:
                for message in batch.messages():
                    _publish(sink, *message)
                self.gathers = False
            else:
                self.gathers = sink.publisher.on_batch(batch)
        return pos

    def _read(self, data: bytes, pos: int, sink: ServerSink) -> None:
        end, find = len(data), data.find
        on_pub = sink.publisher.on_pub
        limit, line_limit = self.max_payload, self.max_control_line
        msgs = nbytes = 0
        publication: Publication | None
        # split() also splits at these two characters, unlike the protocol
        has_vt_or_ff = b"\x0b" in data or b"\x0c" in data
        while pos < end:
            eol = find(b"\n", pos)
            if eol < 0:
                self._keep(data[pos:])
                break
            line = data[pos:eol]
            args = line.split()
            count = len(args)
            if (
                (count == 3 or count == 4)
                and args[0] == b"PUB"
                and (digits := args[-1]).isdigit()
                and len(digits) <= MAX_SIZE_DIGITS
                and eol - pos <= line_limit
                and not (has_vt_or_ff and (b"\x0b" in line or b"\x0c" in line))
            ):
                subject = args[1]
                reply = args[2] if count == 4 else b""
                header_size = -1
                total = int(digits)
            else:
                if not has_vt_or_ff and (count == 4 or count == 5) and args[0] == b"HPUB":
                    publication = _fast_header_publication(args, count, sink)
                else:
                    publication = None
                if publication is None or eol - pos > line_limit:
                    publication = self._control(line, sink)
                if publication is None:
                    pos = eol + 1
                    on_pub = sink.publisher.on_pub  # a CONNECT may have changed it
                    if self.halt:
                        self.halt = False
                        self.unread = data[pos:]
                        break
                    pos = self._gather(data, pos, sink)
                    continue
                subject, reply, header_size, total = publication
            if total > limit:
                raise LimitExceeded("Maximum Payload Violation")
            start = eol + 1
            stop = start + total
            if stop + 2 > end:
                self._begin(data[start:], (subject, reply, header_size, total))
                break
            if data[stop] != 13 or data[stop + 1] != 10:
                raise ProtocolError(UNKNOWN_OPERATION, "payload not followed by CR LF")
            msgs += 1
            nbytes += total
            if header_size > 0:
                headers = data[start : start + header_size]
                take = on_pub if headers.find(TRACE_HEADER) < 0 else sink.on_traced
                take(subject, reply, headers, data[start + header_size : stop])
            else:
                on_pub(subject, reply, b"", data[start:stop])
                if not reply and data.startswith(line, stop + 2):
                    pos = self._run(data, stop + 2, line + b"\n", total, sink, subject)
                    continue
            pos = stop + 2
        self.msgs += msgs
        self.nbytes += nbytes

    def _run(
        self, data: bytes, pos: int, head: bytes, size: int, sink: ServerSink, subject: bytes
    ) -> int:
        """Parse the messages from `pos` on that have the same control line; return their end.

        `head` is that line, `size` the bytes of each payload. Several messages are tried at once,
        first few, then more: the bytes are sliced where the payloads must be if every line is the
        same. They are accepted if joining the payloads with that line gives the same bytes.
        """
        between = b"\r\n" + head
        skip = len(head)
        step = skip + size + 2
        window = _RUN_START
        end = len(data)
        while pos + step <= end and data.startswith(head, pos):
            stop = pos + window * step
            if stop <= end:
                payloads = [data[at : at + size] for at in range(pos + skip, stop, step)]
                if data[pos:stop] == head + between.join(payloads) + b"\r\n":
                    sink.publisher.on_run(subject, payloads)
                    self.msgs += window
                    self.nbytes += window * size
                    pos = stop
                    if window < _RUN_MAX:
                        window *= 2
                    continue
            if window > 1:
                window //= 2
                continue
            return pos  # another control line, or an error: left to the general path
        return pos

    def _control(self, line: bytes, sink: ServerSink) -> Publication | None:
        """Parse a control line of any form; return its publication if it announces a payload."""
        line = line.removesuffix(b"\r")
        verb = line[:7].upper()
        if verb.startswith(_BARE):
            if verb.startswith(b"PING"):
                sink.on_ping()
            elif verb.startswith(b"PONG"):
                sink.on_pong()
            return None
        if verb == b"CONNECT":
            self._check_length(body := line[7:].lstrip(b" \t"))
            sink.on_connect(body)
            return None
        for name, beginnings in _BEGINNINGS:
            if verb.startswith(beginnings):
                self._check_length(arguments := line[len(name) :].lstrip(b" \t"))
                return self._operation(name, arguments, sink)
        # As in the reference server, an INFO without its object closes the connection without -ERR.
        text = "" if verb == b"INFO" else UNKNOWN_OPERATION
        raise ProtocolError(text, reason=UNKNOWN_OPERATION)

    def _operation(self, verb: bytes, text: bytes, sink: ServerSink) -> Publication | None:
        args: list[bytes] = _ARGUMENTS.findall(text)
        count = len(args)
        if verb == b"HPUB":
            return _header_publication(args, sink)
        if verb == b"PUB" and count in (2, 3):
            return args[0], args[1] if count == 3 else b"", -1, _size(args[-1])
        if verb == b"SUB" and count in (2, 3):
            sink.on_sub(args[0], args[1] if count == 3 else b"", args[-1])
            return None
        if verb == b"UNSUB" and count in (1, 2):
            limit = args[1] if count == 2 else b""
            is_number = limit.isdigit() and len(limit) <= MAX_SIZE_DIGITS
            sink.on_unsub(args[0], int(limit) if is_number else 0)
            return None
        if verb == b"INFO" and count:
            return None
        raise ProtocolError(reason=f"bad arguments of {verb.decode()}")

    def _check_length(self, arguments: bytes) -> None:
        if len(arguments) > self.max_control_line:
            raise LimitExceeded("maximum control line exceeded")

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a control line. Raises ProtocolError if it cannot become one."""
        verb = rest[:8].upper()
        name = next((v for v in _VERBS if v.startswith(verb[: len(v)])), None)
        after = rest[len(name) :] if name else rest
        is_bare_info = name == b"INFO" and after == b"\r"
        if name is None or (
            after and name in _SPACED and after[0] not in b" \t" and not is_bare_info
        ):
            raise ProtocolError(UNKNOWN_OPERATION)
        if after:
            # bytes after a bare verb have no meaning; endless blanks are not kept either
            arguments = b"" if name in _BARE else after.lstrip(b" \t")
            self._check_length(arguments.removesuffix(b"\r"))
            rest = name + b" " + arguments
        self._rest = rest

    def _begin(self, chunk: bytes, publication: Publication) -> None:
        """Keep the beginning of a payload."""
        self._publication = publication
        self._payload.begin(chunk, publication[3])

    def _complete(self, whole: bytes, sink: ServerSink) -> None:
        """Publish the message whose payload is now complete; `whole` is its header block and
        payload.
        """
        subject, reply, header_size, total = self._publication
        self.msgs += 1
        self.nbytes += total
        body = max(header_size, 0)
        _publish(sink, subject, reply, whole[:body], whole[body:])


def _publish(
    sink: ServerSink, subject: bytes, reply: bytes, headers: bytes, payload: bytes
) -> None:
    take = sink.publisher.on_pub if headers.find(TRACE_HEADER) < 0 else sink.on_traced
    take(subject, reply, headers, payload)


def _fast_header_publication(args: list[bytes], count: int, sink: ServerSink) -> Publication | None:
    """Parse an HPUB line of the usual form; return its subject, reply subject and two sizes.

    The sizes are the bytes of the headers and of headers and payload together. `args` are the words
    of the line, `count` is their number. Return None for any other line, valid or not;
    `Parser._control` then parses it.
    """
    header_digits, digits = args[-2], args[-1]
    if not (sink.headers and digits.isdigit() and header_digits.isdigit()):
        return None
    if len(digits) <= MAX_SIZE_DIGITS and len(header_digits) <= MAX_SIZE_DIGITS:
        header_size, total = int(header_digits), int(digits)
        if header_size <= total:
            return args[1], args[2] if count == 5 else b"", header_size, total
    return None


def _header_publication(args: list[bytes], sink: ServerSink) -> Publication:
    count = len(args)
    if count in (3, 4) and sink.headers:
        header_size, total = _size(args[-2]), _size(args[-1])
        if header_size <= total:
            return args[0], args[1] if count == 4 else b"", header_size, total
    raise ProtocolError(reason="bad arguments of an HPUB, or headers not announced")


def _size(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > MAX_SIZE_DIGITS:
        raise ProtocolError(reason="bad size")
    return int(digits)
