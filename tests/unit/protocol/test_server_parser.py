"""The server's parser: tables, and a differential test against a naive one under any chunking."""

# Subject: protocol

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ProtocolError
from core.protocol.messages import MessageColumns
from core.protocol.server_parser import Parser
from tests.support.gathering import reads_are_worth_gathering  # noqa: F401  (a fixture)

MAX_PAYLOAD = 40
MAX_LINE = 64
Event = tuple[Any, ...]


class Recorder:
    """Writes down what it is called with."""

    def __init__(self, *, headers: bool = True, gathers: bool = False) -> None:
        self.headers = headers
        self.gathers = gathers
        self.events: list[Event] = []

    @property
    def publisher(self) -> "Recorder":
        return self

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.events.append(("pub", subject, reply, headers, payload))

    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.events.append(("traced", subject, reply, headers, payload))

    def on_batch(self, batch: MessageColumns) -> bool:
        self.events += [("pub", *message) for message in batch.messages()]
        assert batch.has_headers == any(batch.headers)
        return self.gathers

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        self.events += [("pub", subject, b"", b"", payload) for payload in payloads]

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.events.append(("sub", subject, queue, sid))

    def on_unsub(self, sid: bytes, limit: int) -> None:
        self.events.append(("unsub", sid, limit))

    def on_connect(self, body: bytes) -> None:
        self.events.append(("connect", body))

    def on_ping(self) -> None:
        self.events.append(("ping",))

    def on_pong(self) -> None:
        self.events.append(("pong",))


class Naive:
    """Reads a whole stream, one operation after the other, without any short cut."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.events: list[Event] = []

    def run(self) -> str | None:
        """Return the text of the error, None when there was none."""
        try:
            while self.data:
                if not self.operation():
                    return None
        except ProtocolError as error:
            return error.text
        return None

    def operation(self) -> bool:
        line, end, rest = self.data.partition(b"\n")
        if not end:
            self.unfinished(line)
            return False
        line = line.removesuffix(b"\r")
        verb = re.match(rb"(?i)ping|pong|\+ok|connect|(?:h?pub|sub|unsub|info|-err)(?=[ \t])", line)
        if line.upper() == b"INFO":
            raise ProtocolError
        if verb is None:
            raise ProtocolError("Unknown Protocol Operation")
        name = verb[0].upper().decode()
        text = line[verb.end() :].lstrip(b" \t")
        self.data = rest
        if name in ("PING", "PONG", "+OK"):
            self.events += [(name.lower(),)] if name != "+OK" else []
            return True
        if len(text) > MAX_LINE:
            raise ProtocolError("maximum control line exceeded")
        if name == "CONNECT":
            self.events.append(("connect", text))
            return True
        return self.with_arguments(name, re.findall(rb"[^ \t\r\n]+", text))

    def with_arguments(self, name: str, args: list[bytes]) -> bool:
        last = args[-1] if args else b""
        if name == "SUB" and len(args) in (2, 3):
            self.events.append(("sub", args[0], args[1] if len(args) == 3 else b"", last))
        elif name == "UNSUB" and len(args) in (1, 2):
            limit = int(last) if len(args) == 2 and re.fullmatch(rb"[0-9]{1,9}", last) else 0
            self.events.append(("unsub", args[0], limit))
        elif name == "INFO" and args:
            pass
        elif name == "PUB" and len(args) in (2, 3):
            return self.payload(args[0], args[1:-1], 0, size(last))
        elif name == "HPUB" and len(args) in (3, 4) and size(args[-2]) <= size(last):
            return self.payload(args[0], args[1:-2], size(args[-2]), size(last))
        else:
            raise ProtocolError
        return True

    def payload(self, subject: bytes, reply: list[bytes], header_size: int, total: int) -> bool:
        if total > MAX_PAYLOAD:
            raise ProtocolError("Maximum Payload Violation")
        body, end = self.data[:total], self.data[total : total + 2]
        self.data = self.data[total + 2 :]
        if not b"\r\n".startswith(end):
            raise ProtocolError("Unknown Protocol Operation")
        if len(end) < 2:
            return False
        self.events.append(
            ("pub", subject, b"".join(reply), body[:header_size], body[header_size:])
        )
        return True

    def unfinished(self, line: bytes) -> None:
        upper = line.upper()
        verbs = (b"PING", b"PONG", b"+OK", b"CONNECT")
        spaced = (b"PUB", b"HPUB", b"SUB", b"UNSUB", b"INFO", b"-ERR")
        possible = any(v.startswith(upper) for v in verbs + spaced)
        possible |= upper.startswith(verbs) or upper == b"INFO\r"
        possible |= bool(re.match(rb"(H?PUB|SUB|UNSUB|INFO|-ERR)[ \t]", upper))
        if not possible:
            raise ProtocolError("Unknown Protocol Operation")
        text = re.sub(rb"(?i)^(connect|h?pub|sub|unsub|info|-err)[ \t]*", b"", line)
        if not upper.startswith(verbs[:3]) and len(text.removesuffix(b"\r")) > MAX_LINE:
            raise ProtocolError("maximum control line exceeded")


def size(digits: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,9}", digits):
        raise ProtocolError
    return int(digits)


def parse(
    chunks: list[bytes], *, gathers: bool = False, max_line: int = MAX_LINE
) -> tuple[list[Event], str | None]:
    parser, sink = Parser(MAX_PAYLOAD, max_line), Recorder(gathers=gathers)
    parser.gathers = gathers
    try:
        for chunk in chunks:
            parser.feed(chunk, sink)
    except ProtocolError as error:
        return sink.events, error.text
    published = [event for event in sink.events if event[0] == "pub"]
    assert parser.msgs == len(published)
    assert parser.nbytes == sum(len(e[3]) + len(e[4]) for e in published)
    return sink.events, None


TOKEN = st.sampled_from([b"a", b"foo.bar", b"_INBOX.x.1", b"a..b", b"*", b"9", b"a\x0bb", b"\x0c"])
BLANK = st.sampled_from([b" ", b"  ", b"\t"])
EOL = st.sampled_from([b"\r\n", b"\r\n", b"\n"])
BODY = st.binary(max_size=12) | st.sampled_from([b"PING\r\n", b"\r\n", b"x\r\nPUB a 4\r\nxxxx"])
VERBS = ["pub", "pub", "hpub", "run", "ask", "sub", "unsub", "ping", "connect"]
LINES = [b"PUB a r.1", b"PUB a.b r.2", b"PUB a", b"PUB a", b"PUB a r.1", b"PUB \xfc r.\x00"]
JUNK = st.sampled_from(
    [
        b"\r\n",
        b"GET /\r\n",
        b"PINGx\r\n",
        b"PUB\r\n",
        b"PUB a -1\r\n",
        b"PUB a b c 1\r\n",
        b"PUB a 41\r\n",
        b"PUB a 0000000001\r\n",
        b"HPUB a 5 2\r\n",
        b"SUB a\r\n",
        b"SUB " + b"x" * 64 + b" 1\r\n",
        b"INFO\r\n",
        b"info {}\r\n",
        b"+OK\r\n",
        b"-ERR 'x'\r\n",
        b"MSG a 1 0\r\n\r\n",
    ]
)


@st.composite
def operations(draw: st.DrawFn) -> bytes:
    verb = draw(
        st.sampled_from(["pub", "pub", "hpub", "run", "ask", "sub", "unsub", "ping", "connect"])
    )
    blank, eol = draw(BLANK), draw(EOL)
    subject, body = draw(TOKEN), draw(BODY)
    if verb == "run":
        head = b"PUB %b %d\r\n" % (subject, len(body))
        bodies = draw(st.lists(st.binary(min_size=len(body), max_size=len(body)), max_size=40))
        return b"".join(head + each + b"\r\n" for each in [*bodies, body])
    if verb == "ask":
        lines = draw(st.lists(st.sampled_from(LINES), max_size=60))
        block = draw(st.sampled_from([b"", b"", b"NATS/1.0\r\n\r\n", b"\r\n"]))
        if block:
            end = b" %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(body), block, body)
            return b"".join(b"H" + line + end for line in lines)
        return b"".join(b"%b %d\r\n%b\r\n" % (line, len(body), body) for line in lines)
    if verb == "ping":
        return draw(st.sampled_from([b"PING", b"pong", b"Ping x"])) + eol
    if verb == "connect":
        return b"CONNECT" + blank + b'{"verbose":false}' + eol
    args = [subject, *draw(st.lists(TOKEN, max_size=1))]
    if verb == "sub":
        return blank.join([b"SUB", *args, b"7"]) + eol
    if verb == "unsub":
        return blank.join([b"UNSUB", b"7", *draw(st.sampled_from([[], [b"5"], [b"-1"]]))]) + eol
    wrong = draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]))
    total = max(len(body) + wrong, 0)
    sizes = [b"%d" % total] if verb == "pub" else [b"%d" % (total // 2), b"%d" % total]
    name = draw(st.sampled_from([verb.upper().encode(), verb.encode()]))
    return blank.join([name, *args, *sizes]) + eol + body + b"\r\n"


@settings(max_examples=400)
@given(st.lists(operations() | operations() | operations() | JUNK, max_size=8), st.data())
def test_any_chunking_equals_the_naive_parser(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    stream = (
        stream[: data.draw(st.integers(0, len(stream)))] if data.draw(st.booleans()) else stream
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    naive = Naive(stream)

    error = naive.run()

    for gathers in (False, True):
        assert parse(chunks, gathers=gathers) == (naive.events, error)


@settings(max_examples=200)
@given(st.lists(operations(), max_size=8), st.integers(1, 400))
def test_gathering_with_lines_of_usual_length_changes_nothing(
    parts: list[bytes], step: int
) -> None:
    stream = b"".join(parts)
    chunks = [stream[i : i + step] for i in range(0, len(stream), step)]

    singly = parse(chunks, max_line=4096)

    assert parse(chunks, gathers=True, max_line=4096) == singly


@settings(max_examples=50)
@given(st.lists(operations(), max_size=4))
def test_byte_by_byte_equals_the_naive_parser(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    naive = Naive(stream)

    error = naive.run()

    assert parse([stream[i : i + 1] for i in range(len(stream))]) == (naive.events, error)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_random_bytes_raise_nothing_but_a_protocol_error(noise: bytes, step: int) -> None:
    chunks = [noise[i : i + step] for i in range(0, len(noise), step)]
    assert parse(chunks, gathers=True) == parse(chunks)


def test_a_long_run_arrives_complete_and_in_order() -> None:
    bodies = [b"%05d" % n for n in range(3000)]
    stream = b"".join(b"PUB a.b 5\r\n%b\r\n" % body for body in bodies) + b"PING\r\n"

    events, error = parse([stream])

    assert error is None
    assert [e[4] for e in events[:-1]] == bodies
    assert events[-1] == ("ping",)


def test_a_payload_that_looks_like_the_next_control_line_is_left_alone() -> None:
    body = b"\r\nPUB a 32\r\n" + b"x" * 20
    assert len(body) == 32
    stream = (b"PUB a 32\r\n" + body + b"\r\n") * 50

    events, error = parse([stream])

    assert error is None
    assert events == [("pub", b"a", b"", b"", body)] * 50


def test_hpub_is_refused_when_headers_were_not_announced() -> None:
    with pytest.raises(ProtocolError) as caught:
        Parser().feed(b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n", Recorder(headers=False))

    assert caught.value.text == ""


def test_the_announced_size_is_judged_before_anything_is_kept() -> None:
    with pytest.raises(ProtocolError, match="Maximum Payload Violation"):
        Parser(max_payload=100).feed(b"PUB a 101\r\n", Recorder())


def test_an_endless_control_line_is_not_kept() -> None:
    parser = Parser(max_control_line=100)
    parser.feed(b"PUB ", Recorder())
    for _ in range(1000):
        parser.feed(b" " * 100, Recorder())
    assert len(parser._rest) < 100

    with pytest.raises(ProtocolError, match="maximum control line exceeded"):
        parser.feed(b"a" * 101, Recorder())
