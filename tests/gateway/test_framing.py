"""Where a request ends, over raw sockets: every class of routes with every framing.

Exactly the requests that were sent are run, once, with their whole bodies; after what is no request
the connection ends. Behind each request comes another one, and bodies look like requests.
"""

# Subject: HTTP, HTTP framing

import re
import socket
from dataclasses import dataclass

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.web import Web
from tests.support.eventually import eventually
from tests.support.sockets import is_read
from tests.support.websocket import request as handshake

LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
JSON = "Content-Type: application/json\r\n"
LINES = "Content-Type: application/x-ndjson\r\n"


@dataclass(frozen=True)
class Route:
    """A class of routes. `body`: with `{}` for the subject of the stream; `status` if it is run."""

    line: str
    headers: str = ""
    body: str = ""
    status: int = 200


INNER = "DELETE /v1/streams/{stream} HTTP/1.1\r\nHost: localhost\r\n\r\n"
ROUTES = {
    "raw publish": Route("POST /v1/subjects/{prefix}.raw", "", INNER, 201),
    "JSON": Route("POST /v1/streams/{stream}:purge", JSON, '{"filter": "{prefix}.gone"}'),
    "batch": Route("POST /v1/publish", LINES, '{"subject": "{prefix}.raw", "text": "a"}\n' * 2),
    "object": Route("PUT /v1/objects/{stream}/o", "", INNER, 200),
    "GET": Route("GET /v1/streams/{stream}"),
    "static": Route("GET /"),
    "feed": Route("GET /v1/streams/{stream}/tail"),
}

UPGRADES = ("h2c", "foo", "TLS/1.0", "HTTP/2.0, h2c", "websocket", "WebSocket, h2c")
FRAMED: dict[str, tuple[str, str]] = {
    "length": ("", "length"),
    "blanks around the length": ("", "blanks"),
    "chunks": ("", "chunks"),
    "chunks of a byte": ("", "bytes"),
    "extensions": ("", "extensions"),
    "trailers": ("", "trailers"),
    "absolute form": ("", "absolute"),
    "continue": ("Expect: 100-continue\r\n", "length"),
    "another expectation": ("Expect: 200-ok\r\n", "length"),
    "obs-text": ("X-A: \xff\xfe\t b \r\n", "length"),
    "an empty line before": ("", "blank line"),
    **{
        f"upgrade to {word}, {how}": (f"Connection: Upgrade\r\nUpgrade: {word}\r\n", how)
        for word in UPGRADES
        for how in ("length", "chunks")
    },
    "upgrade with settings": (
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAA\r\n",
        "length",
    ),
}

CHUNKED = "Transfer-Encoding: chunked\r\n"
NO_REQUESTS: dict[str, tuple[str, str, int]] = {
    "both": (f"Content-Length: 5\r\n{CHUNKED}", "0\r\n\r\n", 400),
    "both, chunks first": (f"{CHUNKED}Content-Length: 5\r\n", "0\r\n\r\n", 400),
    "length twice": ("Content-Length: 0\r\nContent-Length: 0\r\n", "", 400),
    "two lengths": ("Content-Length: 0\r\nContent-Length: 5\r\n", "", 400),
    "a list of lengths": ("Content-Length: 0, 0\r\n", "", 400),
    "plus": ("Content-Length: +0\r\n", "", 400),
    "minus": ("Content-Length: -0\r\n", "", 400),
    "hexadecimal": ("Content-Length: 0x0\r\n", "", 400),
    "a blank within": ("Content-Length: 0 0\r\n", "", 400),
    "no digits": ("Content-Length: \r\n", "", 400),
    "other digits": ("Content-Length: \xd9\xa0\r\n", "", 400),
    "a huge length": (f"Content-Length: {10**40}\r\n", "", 400),
    "a blank before the colon": ("Content-Length : 0\r\n", "", 400),
    "a tab before the colon": ("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n", 400),
    "no name": (": a\r\n", "", 400),
    "no colon": ("Content-Length\r\n", "", 400),
    "folded": ("X-A: b\r\n c\r\n", "", 400),
    "folded at once": (" X-A: b\r\n", "", 400),
    "bare LF": ("X-A: b\nContent-Length: 0\r\n", "", 400),
    "bare CR": ("X-A: b\rContent-Length: 0\r\n", "", 400),
    "NUL": ("X-A: b\0\r\n", "", 400),
    "coding twice": (CHUNKED * 2, "0\r\n\r\n", 400),
    "coding twice in a list": ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", 400),
    "another coding last": ("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n", 400),
    "another coding": ("Transfer-Encoding: identity\r\n", "", 400),
    "another coding first": ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", 501),
    "another coding in a line": (f"Transfer-Encoding: gzip\r\n{CHUNKED}", "0\r\n\r\n", 501),
    "a vertical tab": ("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n", 400),
    "a coding with a parameter": ("Transfer-Encoding: chunked;a=b\r\n", "0\r\n\r\n", 400),
    "chunk size with a sign": (CHUNKED, "+0\r\n\r\n", 400),
    "negative chunk size": (CHUNKED, "-1\r\n\r\n", 400),
    "chunk size of 17 digits": (CHUNKED, "0" * 17 + "\r\n\r\n", 400),
    "chunk size that overflows": (CHUNKED, "10000000000000000\r\n\r\n", 400),
    "chunk size in 0x": (CHUNKED, "0x0\r\n\r\n", 400),
    "a blank behind the chunk size": (CHUNKED, "0 \r\n\r\n", 400),
    "chunk longer than it says": (CHUNKED, "1\r\nab\r\n0\r\n\r\n", 400),
    "bare LF behind a chunk size": (CHUNKED, "0\n\r\n", 400),
    "bare CR behind a chunk size": (CHUNKED, "0\r\r\n\r\n", 400),
    "bare LF in an extension": (CHUNKED, "0;a\nb\r\n\r\n", 400),
    "bare LF as the end": (CHUNKED, "0\r\n\n", 400),
    "NUL in a trailer": (CHUNKED, "0\r\nX: \0\r\n\r\n", 400),
    "folded trailer": (CHUNKED, "0\r\nX: a\r\n b\r\n\r\n", 400),
    "endless extension": (CHUNKED, "1;" + "a" * 70_000, 431),
    "extensions of many chunks": (CHUNKED, ("1;" + "a" * 700 + "\r\nx\r\n") * 100, 431),
    "endless trailers": (CHUNKED, "0\r\n" + "X: y\r\n" * 12_000, 431),
    "an endless trailer": (CHUNKED, "0\r\nX: " + "y" * 70_000, 431),
    "too many headers": ("X-A: b\r\n" * 101, "", 431),
    "headers too large": (f"X-A: {'b' * 40_000}\r\n", "", 431),
    "no end of the headers": (f"X-A: {'b' * 70_000}\r\n", "", 431),
    "two hosts": ("Host: localhost\r\n", "", 400),
}
NO_LINES: dict[str, tuple[bytes, int]] = {
    "tabs": (b"GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "two blanks": (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a blank first": (b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "no version": (b"GET /\r\n\r\n", 400),
    "HTTP/0.9": (b"GET / HTTP/0.9\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/1.10": (b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
    "bare LF": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "obs-text in the path": (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 400),
    "another scheme": (b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "a path of 70 kB": (b"GET /" + b"a" * 70_000, 414),
    "HTTP/1.0 and chunks": (
        b"POST /v1/subjects/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
}


def framed(line: str, headers: str, body: bytes, how: str) -> bytes:
    """A request in HTTP/1.1 whose body comes in one of the ways that are right."""
    begin = "\r\n" if how == "blank line" else ""
    if how == "absolute":
        method, path = line.split(" ")
        line = f"{method} http://localhost{path}"
    if how in ("length", "absolute", "blank line"):
        headers += f"Content-Length: {len(body)}\r\n"
    elif how == "blanks":
        headers += f"Content-Length: \t {len(body)}\t \r\n"
    else:
        headers += CHUNKED
        body = _chunks(body, how)
    return f"{begin}{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode("latin-1") + body


def _chunks(body: bytes, how: str) -> bytes:
    size = 1 if how == "bytes" else 7
    extension = b' ;a="b c"' if how == "extensions" else b""
    trailers = b"Connection: close\r\nContent-Length: 9\r\n" if how == "trailers" else b""
    parts = [body[begin : begin + size] for begin in range(0, len(body), size)]
    made = b"".join(b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return made + b"0%b\r\n%b\r\n" % (extension, trailers)


def exchange(web: Web, *pieces: bytes) -> bytes:
    """What is answered until the connection ends; each piece is sent when the one before it was
    read.
    """
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            caller.sendall(piece)
            if piece is not pieces[-1]:
                eventually(lambda: is_read(caller.getsockname()), every=0.001)
        return b"".join(iter(lambda: caller.recv(65536), b""))


def statuses(received: bytes) -> list[int]:
    """Of the final answers."""
    found = [int(status) for status in re.findall(rb"(?:^|\n|\}|>)HTTP/1\.1 (\d{3}) ", received)]
    return [status for status in found if status != 100]


class Target:
    """A class of routes on a stream."""

    def __init__(self, route: Route, stream: Stream) -> None:
        self.route = route
        self.web = stream.web
        self.stream = stream
        self.line = self._named(route.line)
        self.body = self._named(route.body).encode()

    def _named(self, text: str) -> str:
        return text.replace("{stream}", self.stream.name).replace("{prefix}", self.stream.prefix)

    def request(self, headers: str, how: str) -> bytes:
        return framed(self.line, headers + self.route.headers, self.body, how)

    def bodies(self) -> list[bytes]:
        """What was published."""
        last = self.web.get(self.stream.path).json()["state"]["last_seq"]
        seqs = range(1, last + 1)
        return [self.web.get(f"{self.stream.path}/messages/{seq}").body for seq in seqs]


@pytest.fixture(params=[name for name in ROUTES if name != "feed"])
def target(request: pytest.FixtureRequest, stream: Stream) -> Target:
    assert stream.web.json("PUT", f"/v1/objects/{stream.name}", {}).status == 201
    return Target(ROUTES[request.param], stream)


def test_each_request_is_run_once_with_its_whole_body(target: Target) -> None:
    for name, (headers, how) in FRAMED.items():
        received = exchange(target.web, target.request(headers, how) + LAST)

        assert statuses(received)[1:] == [200], (name, received)
        assert statuses(received)[0] in (target.route.status, 201), (name, received)
        assert (b"100 Continue" in received) <= (name == "continue")
    if target.route is ROUTES["raw publish"]:
        assert target.bodies() == [target.body] * len(FRAMED)
    if target.route is ROUTES["batch"]:
        assert target.bodies() == [b"a", b"a"] * len(FRAMED)
    if target.route is ROUTES["object"]:
        assert target.web.get(target.line.split()[1]).body == target.body
    target.web.delete(f"/v1/objects/{target.stream.name}")


@pytest.mark.parametrize("word", ["h2c", "foo"])
def test_a_body_that_comes_later_than_its_upgrade_is_no_request(stream: Stream, word: str) -> None:
    target = Target(ROUTES["raw publish"], stream)
    sent = target.request(f"Connection: Upgrade\r\nUpgrade: {word}\r\n", "length")
    place = sent.index(b"\r\n\r\n") + 4

    received = exchange(stream.web, sent[:place], sent[place : place + 9], sent[place + 9 :] + LAST)

    assert statuses(received) == [201, 200]
    assert target.bodies() == [target.body]


def test_a_malformed_request_runs_nothing_and_ends_the_connection(target: Target) -> None:
    inner = framed(f"POST /v1/subjects/{target.stream.prefix}.raw", "", b"inner", "length")
    for name, (headers, body, status) in NO_REQUESTS.items():
        head = f"{target.line} HTTP/1.1\r\nHost: localhost\r\n{target.route.headers}{headers}\r\n"

        received = exchange(target.web, head.encode("latin-1") + body.encode() + inner + LAST)

        # The body may be refused, or the answer be there, before its framing turns out to be wrong.
        begun = body and headers == CHUNKED
        allowed = ([status], [target.route.status], [400], []) if begun else ([status],)
        assert statuses(received) in allowed, (name, received)
    assert target.bodies() == []
    assert target.web.get(target.stream.path).status == 200
    target.web.delete(f"/v1/objects/{target.stream.name}")


@pytest.mark.parametrize("name", NO_LINES)
def test_a_line_that_is_none_ends_the_connection(web: Web, name: str) -> None:
    sent, status = NO_LINES[name]

    received = exchange(web, sent + (LAST if name != "TLS" else b""))

    assert statuses(received) == [status]
    assert b"connection: close\r\n" in received


def test_requests_in_a_row_are_run_in_their_order(stream: Stream) -> None:
    target = Target(ROUTES["raw publish"], stream)
    sent = [target.request(headers, how) for headers, how in FRAMED.values()]

    received = exchange(stream.web, b"".join(sent) + LAST)

    assert statuses(received) == [201] * len(sent) + [200]
    assert target.bodies() == [target.body] * len(sent)


def test_nothing_behind_the_last_request_is_run(stream: Stream) -> None:
    last = framed(f"POST /v1/subjects/{stream.prefix}.a", "Connection: close\r\n", b"1", "length")
    old = f"POST /v1/subjects/{stream.prefix}.a HTTP/1.0\r\nContent-Length: 1\r\n\r\n1".encode()
    for sent in (last, old):
        assert statuses(exchange(stream.web, sent + last)) == [201]

    assert stream.web.get(stream.path).json()["state"]["messages"] == 2


@pytest.mark.parametrize("framing", NO_REQUESTS)
def test_a_feed_has_no_other_framing(stream: Stream, framing: str) -> None:
    headers, body, status = NO_REQUESTS[framing]
    target = Target(ROUTES["feed"], stream)
    head = f"{target.line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode("latin-1")

    received = exchange(stream.web, head + body.encode() + LAST)

    assert statuses(received)[:1] in ([status], [200] if headers == CHUNKED else [status])


HANDSHAKES = {
    "no body": ("", b"", 101),
    "length of nothing": ("Content-Length: 0\r\n", b"", 101),
    "a body": ("Content-Length: 1\r\n", b"", 400),
    "a body that is there": ("Content-Length: 1\r\n", b"x", 400),
    "chunks": (CHUNKED, b"", 400),
    "no chunks": (CHUNKED, b"0\r\n\r\n", 400),
    "both": (f"Content-Length: 0\r\n{CHUNKED}", b"", 400),
    "a long header": (f"X-A: {'b' * 9000}\r\n", b"", 101),
    "many headers": ("X-A: b\r\n" * 80, b"", 101),
    "in a list": ("Connection: keep-alive\r\n", b"", 101),
    "blanks behind": ("X-A: b \t\r\n", b"", 101),
}


@pytest.mark.parametrize("name", HANDSHAKES)
def test_a_handshake_has_no_body(web: Web, name: str) -> None:
    headers, body, status = HANDSHAKES[name]
    sent = handshake(first="GET /v1/ws HTTP/1.1")
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(sent.replace(b"\r\n\r\n", f"\r\n{headers}\r\n".encode()) + body)
        received = caller.recv(65536)
        if status != 101:
            while more := caller.recv(65536):
                received += more

    assert received.startswith(b"HTTP/1.1 %d " % status)


VALUES = {
    "Idempotency-Key": ('"k"', 200, True),
    "Nats-Msg-Id": ("k", 200, True),
    "Nats-Expected-Stream": ("{stream}", 201, False),
    "Nats-Expected-Last-Sequence": ("1", 201, False),
    "If-Match": ('"1"', 201, False),
    "Js-Expect": ("stream", 201, False),
    "Nats-H-A": ("b", 201, False),
    "Content-Type": ("text/plain", 201, False),
    "Content-Encoding": ("identity", 201, False),
    "Expect": ("100-continue", 201, False),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("around", ["{}", "{} ", "\t{}\t", " \t {} \t "])
def test_blanks_around_a_header_value_are_none_of_it(
    stream: Stream, name: str, around: str
) -> None:
    value, status, is_id = VALUES[name]
    line = f"POST /v1/subjects/{stream.prefix}.a"
    plain = f"{name}: {value}\r\n" if is_id else ""
    assert statuses(exchange(stream.web, framed(line, plain, b"1", "length") + LAST)) == [201, 200]
    shown = around.format(value).replace("{stream}", stream.name)

    received = exchange(stream.web, framed(line, f"{name}:{shown}\r\n", b"2", "length") + LAST)

    assert statuses(received) == [status, 200], received
    assert (b'"duplicate":true' in received) == is_id
    message = stream.web.get(f"{stream.path}/messages/{1 if is_id else 2}").headers
    assert message["Nats-H-A"] == ("b" if name == "Nats-H-A" else None)


def test_bytes_of_a_header_are_kept(stream: Stream) -> None:
    """Those that are not UTF-8 as well, and an id is the same as over NATS."""
    line = f"POST /v1/subjects/{stream.prefix}.a"
    headers = "Nats-H-A: \xff\xfe\r\nNats-H-B: \xc3\xbc\r\n"
    ids = ("Nats-Msg-Id: \xc3\xbc\r\n", 'Idempotency-Key: "\xc3\xbc"\r\n')

    received = [
        exchange(stream.web, framed(line, headers + each, b"", "length") + LAST) for each in ids
    ]

    assert [b'"duplicate":true' in each for each in received] == [False, True]
    shown = stream.web.get(f"{stream.path}/messages/1", Accept="application/json").json()
    assert shown["headers"]["B"] == ["\xfc"]
    assert shown["headers_base64"] == {"A": ["//4="]}
    raw = stream.web.get(f"{stream.path}/messages/1").headers["Nats-H-A"]
    assert raw == "\xff\xfe"


def test_an_object_keeps_text_alone(stream: Stream) -> None:
    path = f"/v1/objects/{stream.name}"
    assert stream.web.json("PUT", path, {}).status == 201
    found = []
    for headers in (
        "Nats-H-A: \xff\r\n",
        "Js-Description: \xff\r\n",
        "Js-Description: \xc3\xbc\r\n",
    ):
        sent = framed(f"PUT {path}/o", headers, b"", "length")
        found.append(statuses(exchange(stream.web, sent + LAST))[0])
    info = stream.web.get(f"{path}/o:info").json()
    stream.web.delete(path)

    assert found == [400, 400, 201]
    assert info["description"] == "\xfc"
