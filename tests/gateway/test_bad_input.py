"""Bad input, as a table: what is sent, and the answer. Nothing is ever a 5xx."""

# Subject: HTTP, HTTP framing

import json
import re
import socket

import pytest

from gateway.routes import ROUTES
from tests.gateway.conftest import Stream
from tests.gateway.web import Web

JSON = "Content-Type: application/json\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
LARGE_EXTENSION = b"1;" + b"a" * 200_000 + b"\r\n{\r\n0\r\n\r\n"


def request(line: str, headers: str = "", body: bytes = b"", *, length: bool = True) -> bytes:
    sized = f"Content-Length: {len(body)}\r\n" if body and length else ""
    return f"{line} HTTP/1.1\r\nHost: localhost\r\n{headers}{sized}\r\n".encode("latin-1") + body


def post(path: str, headers: str = "", body: bytes = b"") -> bytes:
    return request(f"POST {path}", headers, body)


def publish(encoded_subject: str, headers: str = "") -> bytes:
    return post(f"/v1/subjects/{encoded_subject}", headers, b"x")


def put(path: str, body: bytes) -> bytes:
    return request(f"PUT {path}", JSON, body)


def fetch(body: bytes, headers: str = JSON) -> bytes:
    return post("/v1/streams/NONE/consumers/C:fetch", headers, body)


CASES: dict[str, tuple[bytes, int]] = {
    # Paths
    "unknown path": (request("GET /v2"), 404),
    "root": (request("GET /"), 200),
    "trailing slash": (request("GET /v1/streams/"), 404),
    "double slash": (request("GET //v1/streams"), 404),
    "dot segments": (request("GET /v1/../healthz"), 404),
    "encoded dot segments": (request("GET /v1/%2e%2e/healthz"), 404),
    "encoded slash separates nothing": (request("GET /v1%2Fstreams"), 404),
    "encoded colon is no verb": (post("/v1/streams/S%3Apurge"), 405),
    "unknown verb": (post("/v1/streams/S:explode"), 405),
    "semicolon": (request("GET /v1/streams;a=b"), 404),
    "long target": (request("GET /" + "a" * 17_000), 414),
    "long query": (request("GET /v1/streams?" + "a" * 17_000), 414),
    "absolute form": (request("GET http://localhost/healthz"), 200),
    "absolute form with a user": (request("GET http://a@localhost/healthz"), 400),
    "mixed case host": (b"GET /healthz HTTP/1.1\r\nHoSt: LOCALHOST\r\n\r\n", 200),
    "fragment": (request("GET /healthz#x"), 200),
    # Methods
    "method not allowed": (request("DELETE /v1/streams"), 405),
    "trace": (request("TRACE /v1/streams"), 405),
    "options": (request("OPTIONS /v1/streams"), 204),
    "head": (request("HEAD /healthz", "Connection: close\r\n"), 200),
    "unknown method": (request("BREW /v1/streams"), 405),
    # Queries
    "unknown parameter": (request("GET /v1/streams?ofset=1"), 400),
    "a flag that is empty": (request("GET /v1/streams/NONE?deleted="), 400),
    "a flag that is a number": (request("GET /v1/streams/NONE?deleted=1"), 400),
    "repeated parameter": (request("GET /v1/streams?offset=1&offset=2"), 400),
    "offset not a number": (request("GET /v1/streams?offset=-1"), 400),
    "offset huge": (request("GET /v1/streams?offset=" + "9" * 30), 400),
    "offset in other digits": (request("GET /v1/streams?offset=%D9%A1"), 400),
    "filter with blank": (request("GET /v1/streams?subject=a%20b"), 400),
    "filter not utf-8": (request("GET /v1/streams?subject=%FF"), 400),
    "half a percent sign": (request("GET /v1/streams?subject=%"), 400),
    "filter of a tail empty": (request("GET /v1/streams/NONE/tail?filter="), 400),
    # Names
    "name with dot": (request("GET /v1/streams/a.b"), 400),
    "name with wildcard": (request("GET /v1/streams/*"), 400),
    "name with encoded slash": (request("GET /v1/streams/a%2Fb"), 400),
    "name with backslash": (request("GET /v1/streams/a%5Cb"), 400),
    "name with nul": (request("GET /v1/streams/a%00b"), 400),
    "name with line break": (request("GET /v1/streams/a%0D%0APUB"), 400),
    "name overlong utf-8": (request("GET /v1/streams/%C0%AF"), 400),
    "name of surrogates": (request("GET /v1/streams/%ED%A0%80"), 400),
    "name too long": (request("GET /v1/streams/" + "a" * 256), 400),
    "name encoded twice": (request("GET /v1/streams/%2541"), 404),
    "name in body is another": (put("/v1/streams/A", b'{"name":"B"}'), 400),
    "name missing": (post("/v1/streams", JSON, b"{}"), 400),
    "name not text": (post("/v1/streams", JSON, b'{"name":5}'), 400),
    "consumer name not text": (post("/v1/streams/S/consumers", JSON, b'{"name":[1]}'), 400),
    # Subjects
    "wildcard subject": (publish("a.*"), 400),
    "full wildcard subject": (publish("%3E"), 400),
    "empty token": (publish("a..b"), 400),
    "leading dot": (publish(".a"), 400),
    "trailing dot": (publish("a."), 400),
    "blank": (publish("a%20b"), 400),
    "tab": (publish("a%09b"), 400),
    "line break": (publish("a%0D%0Ab"), 400),
    "not utf-8": (publish("a%FFb"), 400),
    "overlong utf-8": (publish("%C0%AE"), 400),
    "bad percent": (publish("a%2"), 400),
    "no subject": (post("/v1/subjects/"), 404),
    "api subject": (publish("$JS.API.STREAM.PURGE.S"), 403),
    "ack subject": (publish("$JS.ACK.S.C.1.1.1.1.0"), 403),
    "system subject": (publish("$SYS.REQ.SERVER.PING"), 403),
    "any dollar": (publish("$FOO.a"), 403),
    "inbox": (publish("_INBOX.abc"), 403),
    "long subject": (publish("a" * 4097), 400),
    # Headers of a publish
    "trace header": (publish("a", "Nats-Trace-Dest: b\r\n"), 400),
    "request info header": (publish("a", "nAtS-rEqUeSt-InFo: b\r\n"), 400),
    "nats header as the user's own": (publish("a", "Nats-H-Nats-Trace-Dest: b\r\n"), 400),
    "nats header in odd case as the user's own": (publish("a", "nats-H-nAtS-Msg-Id: b\r\n"), 400),
    "empty nats header": (publish("a", "Nats-Rollup:\r\n"), 400),
    "empty counter": (publish("a", "Nats-Incr: \r\n"), 400),
    "unknown nats header": (publish("a", "Nats-Foo: b\r\n"), 400),
    "nats header twice": (publish("a", "Nats-Msg-Id: 1\r\nNats-Msg-Id: 2\r\n"), 400),
    "key and id": (publish("a", "Nats-Msg-Id: 1\r\nIdempotency-Key: 2\r\n"), 400),
    "empty key": (publish("a", 'Idempotency-Key: ""\r\n'), 400),
    "control character": (publish("a", "Nats-H-A: b\x01c\r\n"), 400),
    "nul in value": (publish("a", "Nats-H-A: b\x00c\r\n"), 400),
    "no header name": (publish("a", "Nats-H-: b\r\n"), 400),
    "weak tag": (publish("a", 'If-Match: W/"1"\r\n'), 400),
    "tag not a number": (publish("a", 'If-Match: "x"\r\n'), 400),
    "tag huge": (publish("a", f'If-Match: "{"9" * 25}"\r\n'), 400),
    "if-match star": (publish("a", "If-Match: *\r\n"), 400),
    "both conditions": (publish("a", 'If-Match: "1"\r\nIf-None-Match: *\r\n'), 400),
    "bad expect": (publish("a", 'If-Match: "1"\r\nJs-Expect: all\r\n'), 400),
    "many message headers": (publish("a", "Nats-H-A: b\r\n" * 65), 431),
    "large message header": (publish("a", f"Nats-H-A: {'b' * 9000}\r\n"), 431),
    "many headers": (request("GET /healthz", "A: b\r\n" * 101), 431),
    "large headers": (request("GET /healthz", f"A: {'b' * 33_000}\r\n"), 431),
    "compressed body": (publish("a", "Content-Encoding: gzip\r\n"), 415),
    "bad ttl": (publish("nobody.here", "Nats-TTL: never ever\r\n"), 404),
    # Bodies
    "not json": (post("/v1/streams", JSON, b"{"), 400),
    "not an object": (post("/v1/streams", JSON, b"[]"), 400),
    "two values": (post("/v1/streams", JSON, b'{"name":"A"}{"name":"B"}'), 400),
    "garbage behind the value": (post("/v1/streams", JSON, b'{"name":"A"}x'), 400),
    "byte order mark": (post("/v1/streams", JSON, b'\xef\xbb\xbf{"name":"A"}'), 400),
    "utf-16": (post("/v1/streams", JSON, '{"name":"A"}'.encode("utf-16")), 400),
    "member twice": (post("/v1/streams", JSON, b'{"name":"A","name":"B"}'), 400),
    "member twice, once escaped": (
        post("/v1/streams", JSON, b'{"name":"A","n\\u0061me":"B"}'),
        400,
    ),
    "member of a member twice": (
        put("/v1/streams/A", b'{"metadata":{"a":"1","a":"2"}}'),
        400,
    ),
    "member of a bucket twice": (put("/v1/kv/b", b'{"ttl":1000000000,"ttl":0}'), 400),
    "member of a patch twice": (
        request("PATCH /v1/streams/NONE", JSON, b'{"max_msgs":1,"max_msgs":2}'),
        400,
    ),
    "infinity": (post("/v1/streams", JSON, b'{"name":"A","max_msgs":Infinity}'), 400),
    "single quotes": (post("/v1/streams", JSON, b"{'name':'A'}"), 400),
    "comma at the end": (post("/v1/streams", JSON, b'{"name":"A",}'), 400),
    "comment": (post("/v1/streams", JSON, b'{"name":"A"/**/}'), 400),
    "control character in a string": (post("/v1/streams", JSON, b'{"name":"A\n"}'), 400),
    "nan": (post("/v1/streams", JSON, b'{"name":"A","max_msgs":NaN}'), 400),
    "lone surrogate": (post("/v1/streams", JSON, b'{"name":"\\ud800"}'), 400),
    "not utf-8 body": (post("/v1/streams", JSON, b'{"name":"\xff"}'), 400),
    "deep nesting": (post("/v1/streams", JSON, b"[" * 30_000 + b"]" * 30_000), 400),
    "many values": (post("/v1/streams", JSON, b"[" * 100_000 + b"]" * 100_000), 413),
    "deep nesting of objects": (
        post("/v1/streams", JSON, b'{"a":' * 5000 + b"1" + b"}" * 5000),
        400,
    ),
    "number beyond all": (post("/v1/streams", JSON, b'{"name":"A","max_msgs":1e999}'), 400),
    "huge integer": (
        post("/v1/streams", JSON, b'{"name":"A","max_msgs":' + b"9" * 5000 + b"}"),
        400,
    ),
    "wrong media type": (post("/v1/streams", "Content-Type: text/json\r\n", b"{}"), 415),
    "other charset": (
        post("/v1/streams", "Content-Type: application/json; charset=utf-16\r\n", b"{}"),
        415,
    ),
    "other charset of lines": (
        post("/v1/publish", "Content-Type: application/x-ndjson; charset=latin1\r\n", b"{}"),
        415,
    ),
    "this charset": (
        post("/v1/streams", 'Content-Type: application/json;charset="UTF-8"\r\n', b"{}"),
        400,
    ),
    "no media type": (post("/v1/streams", "", b"{}"), 415),
    "form": (post("/v1/streams", "Content-Type: application/x-www-form-urlencoded\r\n", b"a"), 415),
    "large body": (post("/v1/streams", JSON, b" " * (1 << 20) + b"{}"), 413),
    "announced too large": (
        request("POST /v1/streams", f"{JSON}Content-Length: 99999999999\r\n"),
        413,
    ),
    "no body": (post("/v1/streams", JSON), 400),
    "purge by two measures": (post("/v1/streams/S:purge", JSON, b'{"seq":1,"keep":1}'), 400),
    "body where none belongs": (request("DELETE /v1/streams/NONE", JSON, b"{}"), 400),
    "array of scalars": (post("/v1/publish", JSON, b'{"subject":"a"}'), 400),
    "batch of nothing": (post("/v1/publish", JSON, b""), 400),
    "batch in no format": (post("/v1/publish", "", b"x"), 415),
    "compressed batch": (
        post("/v1/publish", "Content-Type: application/x-ndjson\r\nContent-Encoding: br\r\n", b"x"),
        415,
    ),
    # Fetching and acknowledging
    "batch twice": (fetch(b'{"batch":1,"batch":1000}'), 400),
    "unknown member": (fetch(b'{"btch":1}'), 400),
    "batch zero": (fetch(b'{"batch":0}'), 400),
    "batch negative": (fetch(b'{"batch":-1}'), 400),
    "batch a fraction": (fetch(b'{"batch":1.5}'), 400),
    "batch text": (fetch(b'{"batch":"1"}'), 400),
    "batch too many": (fetch(b'{"batch":1001}'), 400),
    "batch huge": (fetch(b'{"batch":99999999999999999999}'), 400),
    "expires negative": (fetch(b'{"expires":-1}'), 400),
    "expires no duration": (fetch(b'{"expires":"soon"}'), 400),
    "expires too long": (fetch(b'{"expires":"2h"}'), 400),
    "expires fraction": (fetch(b'{"expires":1e308}'), 400),
    "expires empty": (fetch(b'{"expires":""}'), 400),
    "contradiction": (fetch(b'{"fill":true,"no_wait":true}'), 400),
    "fetch from nothing": (fetch(b"{}"), 404),
    "no tokens": (post("/v1/streams/S/consumers/C:ack", JSON, b'{"tokens":[]}'), 400),
    "tokens null": (post("/v1/streams/S/consumers/C:ack", JSON, b'{"tokens":null}'), 400),
    "token numbers": (post("/v1/streams/S/consumers/C:ack", JSON, b'{"tokens":[1]}'), 400),
    "delay negative": (
        post("/v1/streams/S/consumers/C:nak", JSON, b'{"tokens":["a"],"delay":-1}'),
        400,
    ),
    "delay huge": (
        post("/v1/streams/S/consumers/C:nak", JSON, b'{"tokens":["a"],"delay":"9999999999h"}'),
        400,
    ),
    "reason with line break": (
        post("/v1/streams/S/consumers/C:term", JSON, b'{"tokens":["a"],"reason":"a\\r\\nb"}'),
        400,
    ),
    # Messages
    "sequence zero": (request("GET /v1/streams/S/messages/0"), 400),
    "sequence negative": (request("GET /v1/streams/S/messages/-1"), 400),
    "sequence text": (request("GET /v1/streams/S/messages/x"), 400),
    "sequence plus": (request("GET /v1/streams/S/messages/+1"), 400),
    "sequence too large": (request(f"GET /v1/streams/NONE/messages/{2**64}"), 400),
    "sequence largest": (request(f"GET /v1/streams/NONE/messages/{2**64 - 1}"), 404),
    "nothing asked": (request("GET /v1/streams/S/messages"), 400),
    "two questions": (request("GET /v1/streams/S/messages?last_by=a&next_by=b"), 400),
    "bad time": (request("GET /v1/streams/S/messages?start_time=yesterday"), 400),
    "bad flag": (request("DELETE /v1/streams/S/messages/1?erase=maybe"), 400),
    # Framing
    "no http": (b"hello\r\n\r\n", 400),
    "http/0.9": (b"GET /healthz\r\n\r\n", 400),
    "length and chunks": (
        request(
            "POST /v1/streams",
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            b"0\r\n\r\n",
            length=False,
        ),
        400,
    ),
    "two lengths": (request("POST /v1/streams", "Content-Length: 3\r\nContent-Length: 4\r\n"), 400),
    "negative length": (request("POST /v1/streams", "Content-Length: -1\r\n"), 400),
    "bad chunk size": (
        request("POST /v1/streams", "Transfer-Encoding: chunked\r\n", b"zz\r\n", length=False),
        400,
    ),
    "two equal lengths": (
        request(
            "POST /v1/streams", "Content-Length: 3\r\nContent-Length: 3\r\n", b"a", length=False
        ),
        400,
    ),
    "length with a sign": (request("POST /v1/streams", "Content-Length: +3\r\n"), 400),
    "length in hexadecimal": (request("POST /v1/streams", "Content-Length: 0x3\r\n"), 400),
    "chunk size that overflows": (
        request("POST /v1/streams", CHUNKED, b"FFFFFFFFFFFFFFFFF\r\n", length=False),
        400,
    ),
    "bare line feed after a chunk": (
        request("POST /v1/streams", CHUNKED, b"0\n\n", length=False),
        400,
    ),
    "large chunk extension": (
        request("POST /v1/streams", CHUNKED + JSON, LARGE_EXTENSION, length=False),
        431,
    ),
    "two codings": (
        request("POST /v1/streams", "Transfer-Encoding: chunked, identity\r\n", length=False),
        400,
    ),
    "unknown coding": (
        request("POST /v1/streams", "Transfer-Encoding: xchunked\r\n", length=False),
        400,
    ),
    "bare line feeds": (b"GET /healthz HTTP/1.1\nHost: x\n\n", 400),
    "two hosts": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "http/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "http/1.0 and chunks": (
        b"POST /v1/subjects/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "space before the colon of a coding": (
        request("POST /v1/streams", "Transfer-Encoding : chunked\r\n", b"0\r\n\r\n", length=False),
        400,
    ),
    "coding behind a vertical tab": (
        request(
            "POST /v1/streams", "Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n", length=False
        ),
        400,
    ),
    "two lengths in one": (request("POST /v1/streams", "Content-Length: 1, 1\r\n"), 400),
    "length with a blank": (request("POST /v1/streams", "Content-Length: 1 2\r\n"), 400),
    "length of nothing": (request("POST /v1/streams", "Content-Length:\r\n"), 400),
    "chunk size negative": (
        request("POST /v1/streams", CHUNKED, b"-1\r\nx\r\n0\r\n\r\n", length=False),
        400,
    ),
    "chunk longer than it says": (
        request("POST /v1/streams", CHUNKED, b"1\r\nxyz0\r\n\r\n", length=False),
        400,
    ),
    "tabs in the request line": (b"GET\t/healthz\tHTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "http/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "http/3.9": (b"GET /healthz HTTP/3.9\r\nHost: localhost\r\n\r\n", 400),
    "connect": (request("CONNECT x:1"), 400),
    # Signing in
    "ticket with a body": (post("/v1/tickets", "", b"x"), 400),
    "ticket with a parameter": (post("/v1/tickets?origin=x"), 400),
    "ticket where none is taken": (request("GET /v1/streams?ticket=x"), 400),
    "session with a body": (post("/v1/session", JSON, b'{"user":"me"}'), 400),
    "session that is read by a form": (request("PUT /v1/session"), 405),
    "credentials in a trailer": (
        request("POST /v1/session", CHUNKED, b"0\r\nAuthorization: x\r\n\r\n", length=False),
        201,
    ),
    "bare carriage return in a header": (request("GET /healthz", "A: b\rc\r\n"), 400),
    "bare line feed in a header": (request("GET /healthz", "A: b\nc\r\n"), 400),
    "nul in a header": (publish("a", "Nats-H-A: b\0c\r\n"), 400),
    "nul in a header name": (request("GET /healthz", "A\0: b\r\n"), 400),
    "space before colon": (request("GET /healthz", "A : b\r\n"), 400),
    "folded header": (request("GET /healthz", "A: b\r\n c\r\n"), 400),
    "range is ignored": (request("GET /healthz", "Range: bytes=0-1\r\n"), 200),
    "upgrade is ignored": (
        request("GET /healthz", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        200,
    ),
    "non-ascii path": (request("GET /v1/streams/\xe9"), 400),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_the_callers_mistake(web: Web, case: str) -> None:
    sent, expected = CASES[case]

    received = web.raw(sent)

    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), received
    assert int(head.split()[1]) == expected, received
    if expected >= 400:
        assert b"content-type: application/problem+json" in head
        assert json.loads(body)["status"] == expected


def test_no_route_ignores_a_parameter(stream: Stream) -> None:
    for operation in ROUTES:
        if not operation.path.startswith("/v1") or operation.query is None:
            continue
        named = {"stream": stream.name, "consumer": "C", "subject": "a", "seq": "1"}
        path = operation.path.format(**named, bucket="b", key="k", name="o")

        for query, kind in (("?x=1", "unknown"), ("?subject=a&subject=b", "")):
            answer = stream.web.send(operation.method, path + query)

            assert answer.status == 400, operation.id
            assert answer.kind in (f"{kind}-parameter", "unknown-parameter", "repeated-parameter")


def test_nothing_is_written_into_an_answer_that_has_begun(stream: Stream) -> None:
    line = b'{"subject":"%s.a"}\n' % stream.prefix.encode()
    head = b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(stream.web.address, timeout=30) as caller:
        caller.sendall(head + b"%x\r\n%s\r\n" % (len(line), line))
        received = b""
        while b'"seq":1' not in received:
            received += caller.recv(4096)

        caller.sendall(b"no chunk\r\n")
        while more := caller.recv(4096):
            received += more

    assert received.count(b"HTTP/1.1") == 1


def test_the_server_lives_on(stream: Stream) -> None:
    for sent, _ in CASES.values():
        stream.web.raw(sent[: len(sent) // 2], seconds=0.01)

    assert stream.publish("a") == 1


def test_a_waiting_upload_gets_100_continue(stream: Stream) -> None:
    head = (
        f"POST /v1/subjects/{stream.prefix}.a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
    )
    head += "Connection: close\r\n"

    received = stream.web.raw((head + "Expect: 100-continue\r\n\r\n").encode() + b"abc")

    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert stream.web.get(f"{stream.path}/messages/1").body == b"abc"


def _until_closed(web: Web, sent: bytes) -> bytes:
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(sent)
        received = b""
        while more := caller.recv(65536):
            received += more
    return received


def test_bytes_behind_a_body_are_no_header_of_the_request(stream: Stream) -> None:
    """Who looked at the headers before did not see it."""
    path = f"/v1/subjects/{stream.prefix}.a"
    trailers = 'Nats-Msg-Id: 1\r\nIf-Match: "9"\r\nAuthorization: x\r\nNats-H-A: b\r\n'
    sent = request(f"POST {path}", CHUNKED, f"1\r\nx\r\n0\r\n{trailers}\r\n".encode(), length=False)

    answers = [stream.web.raw(sent) for _ in range(2)]

    assert [answer.split()[1] for answer in answers] == [b"201", b"201"]
    assert "nats-h-a" not in stream.web.get(f"{stream.path}/messages/2").headers


def test_requests_that_do_not_wait_are_answered_in_order(stream: Stream) -> None:
    path = f"/v1/subjects/{stream.prefix}"
    sent = b"".join(post(f"{path}.{number}", "", b"%d" % number) for number in range(20))
    sent += request(f"GET {stream.path}/messages/99") + request(f"GET {stream.path}/messages/7")
    sent += request("GET /healthz", "Connection: close\r\n")

    received = _until_closed(stream.web, sent)

    statuses = [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", received)]
    assert statuses == [201] * 20 + [404, 200, 200]
    for number in range(1, 21):
        assert b'"seq":%d}' % number in received
    assert stream.web.get(f"{stream.path}/messages/7").body == b"6"


def test_the_rest_of_a_refused_request_is_not_another_one(stream: Stream) -> None:
    """A body that looks like a request is none, whatever its length was said to be."""
    inner = publish(f"{stream.prefix}.inner")
    both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
    for headers in (both, "Content-Length: 0\r\nContent-Length: 4\r\n", "Content-Length: +0\r\n"):
        head = request(f"POST /v1/subjects/{stream.prefix}.a", headers, length=False)
        received = _until_closed(stream.web, head + b"0\r\n\r\n" + inner)

        assert received.startswith(b"HTTP/1.1 400 ")
        assert received.count(b"\r\n\r\n") == 1
    assert stream.web.get(stream.path).json()["state"]["messages"] == 0


def test_answers_to_http_1_0_end_with_the_connection(stream: Stream) -> None:
    line = b'{"subject":"%s.a"}\n' % stream.prefix.encode()
    head = "POST /v1/publish HTTP/1.0\r\nContent-Type: application/x-ndjson\r\n"
    sent = f"{head}Content-Length: {len(line) * 3}\r\nConnection: keep-alive\r\n\r\n".encode()

    received = _until_closed(stream.web, sent + line * 3)
    asked = _until_closed(stream.web, f"GET {stream.path}/messages/2 HTTP/1.0\r\n\r\n".encode())

    head_of, _, body = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head_of.lower()
    assert b"connection: close" in head_of.lower()
    assert [json.loads(each)["seq"] for each in body.splitlines()] == [1, 2, 3]
    assert b"content-length: 0" in asked
    assert asked.endswith(b"\r\n\r\n")


def test_every_path_lists_its_methods(web: Web) -> None:
    taken: dict[str, set[str]] = {}
    for operation in ROUTES:
        path = re.sub(r"\{\w+\}", "1", operation.path)
        methods = {operation.method} | ({"HEAD"} if operation.method == "GET" else set())
        taken.setdefault(path, {"OPTIONS"}).update(methods)
    for path, methods in taken.items():
        answer = web.send("OPTIONS", path)

        assert (answer.status, answer.body) == (204, b"")
        assert set((answer.headers["allow"] or "").split(", ")) == methods
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - methods:
            refused = web.send(method, path)
            assert (refused.status, refused.kind) == (405, "method-not-allowed"), (method, path)
            assert refused.headers["allow"] == answer.headers["allow"]


def test_head_is_get_without_the_body(stream: Stream) -> None:
    stream.publish("a", b"hello")
    for path in (f"{stream.path}/messages/1", "/docs", "/openapi.json", "/v1/none"):
        get, head = (stream.web.send(method, path) for method in ("GET", "HEAD"))

        assert (head.status, head.body) == (get.status, b"")
        for name in ("content-length", "content-type", "etag", "allow"):
            assert head.headers[name] == get.headers[name], (path, name)
