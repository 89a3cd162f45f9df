"""Callers that are slow, or ask for more than there is room for: 408 and 429."""

# Subject: slow consumers, HTTP

import contextlib
import dataclasses
import http.client
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from core.units import Seconds
from gateway.http import write_timeout
from gateway.http.protocol import HttpProtocol
from tests.gateway.conftest import Stream
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer


@pytest.fixture(scope="module")
def impatient(nats_server: NatsServer) -> Iterator[Web]:
    """A façade that waits a fifth of a second for the next piece of a body."""
    settings = dataclasses.replace(
        SETTINGS, body_idle_max=Seconds(0.2), stream_idle_max=Seconds(0.2)
    )
    with GatewayServer(nats_server.address, settings) as server:
        yield Web(server.http)
        assert server.failures == []


@pytest.mark.parametrize(
    "head",
    [
        "POST /v1/subjects/slow.a HTTP/1.1\r\nContent-Length: 10\r\n",
        "POST /v1/subjects/slow.a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
        "PUT /v1/streams/SLOW HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 10\r\n",
        "DELETE /v1/streams/SLOW HTTP/1.1\r\nContent-Length: 10\r\n",
        "POST /v1/publish HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10\r\n",
    ],
)
@pytest.mark.parametrize("first", [b"", b"ab"])
def test_a_body_that_stops_coming_is_408(impatient: Web, head: str, first: bytes) -> None:
    body = b"%x\r\n%s\r\n" % (len(first), first) if first and "chunked" in head else first

    answer = impatient.raw(f"{head}Host: localhost\r\n\r\n".encode() + body)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"urn:jetgate:problem:slow-body" in answer
    assert b"\r\nconnection: close\r\n" in answer.lower()


def _dripped_body(web: Web) -> bytes:
    """The answer to a body of which a byte comes now and then; nothing when the first was late."""
    head = b"POST /v1/subjects/slow.a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with socket.create_connection(web.address, timeout=0.05) as sock:
        sock.sendall(head)
        for _ in range(90):
            try:
                sock.sendall(b"x")
                return sock.recv(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                break
    return b""


def test_a_byte_of_a_body_now_and_then_does_not_help(impatient: Web) -> None:
    answer = eventually(lambda: _dripped_body(impatient))

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_available_results_are_sent_before_a_batch_is_cut(impatient: Web) -> None:
    line = b'{"subject":"nobody.has.this"}\n'
    head = "POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"

    answer = impatient.raw(f"{head}Content-Length: {len(line) + 1}\r\n\r\n".encode() + line)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"problem:no-stream") == 1
    assert not answer.endswith(b"0\r\n\r\n"), "the answer has no end"


class ShortHeads(HttpProtocol):
    head_seconds = 0.3


class ShortWrites(HttpProtocol):
    write_seconds = 0.3


class Persistent(Web):
    """Begins again when it was closed unheard: the machine may stop between connect and send."""

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        for _ in range(10):
            with contextlib.suppress(ConnectionError):
                return super().send(method, path, body, headers)
        raise AssertionError("closed without an answer")

    def raw(self, data: bytes, *, seconds: float = 30.0) -> bytes:
        answers = (super(Persistent, self).raw(data, seconds=seconds) for _ in range(10))
        return next(filter(None, answers), b"")


@pytest.fixture(scope="module")
def brisk(nats_server: NatsServer) -> Iterator[Web]:
    """A façade that waits a moment for the headers of a request."""
    with GatewayServer(nats_server.address, http_type=ShortHeads) as server:
        yield Persistent(server.http)
        assert server.failures == []


@pytest.fixture(scope="module")
def unread(nats_server: NatsServer) -> Iterator[Web]:
    """A façade that waits a moment for a caller who reads nothing."""
    with GatewayServer(nats_server.address, http_type=ShortWrites) as server:
        yield Web(server.http)
        assert server.failures == []


@pytest.mark.parametrize(
    "head",
    [
        b"G",
        b"GET /healthz HTTP/1.1",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA",
        b"POST / HTTP/1.1\r\n",
    ],
)
def test_headers_that_stop_coming_are_408(brisk: Web, head: bytes) -> None:
    answer = brisk.raw(head)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"urn:jetgate:problem:slow-headers" in answer
    assert b"connection: close\r\n" in answer


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n\r\n"])
def test_a_connection_without_a_request_is_closed(brisk: Web, sent: bytes) -> None:
    with (
        socket.create_connection(brisk.address, timeout=30) as sock,
        contextlib.suppress(ConnectionError),  # closed before this was sent
    ):
        sock.sendall(sent)

        assert sock.recv(100) == b""


def _dripped(web: Web) -> bytes:
    """The answer to a request that comes byte by byte; nothing when even the first was late."""
    with socket.create_connection(web.address, timeout=0.05) as sock:
        for byte in b"GET /healthz HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n":
            try:
                sock.sendall(bytes([byte]))
                return sock.recv(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                break
    return b""


def test_a_byte_now_and_then_does_not_help(brisk: Web) -> None:
    answer = eventually(lambda: _dripped(brisk))

    assert answer.startswith(b"HTTP/1.1 408 ")


def _half_after_whole(web: Web) -> bytes:
    """The answer to half a request behind three whole ones; nothing when one of them was late."""
    connection = http.client.HTTPConnection(*web.address, timeout=30)
    try:
        connection.connect()
        sock = connection.sock
        for _ in range(3):
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            if (answer.status, json.loads(answer.read())) != (200, {"status": "ok"}):
                return b""
            assert connection.sock is sock
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        return bytes(sock.recv(4096))
    except ConnectionError:
        return b""
    finally:
        connection.close()


def test_a_second_request_has_its_own_time(brisk: Web) -> None:
    answer = eventually(lambda: _half_after_whole(brisk))

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_slow_body_after_the_headers_is_waited_for(brisk: Web) -> None:
    brisk.json("PUT", "/v1/streams/BRISK", {"subjects": ["brisk"]})
    consumer = "/v1/streams/BRISK/consumers/C"
    brisk.json("PUT", consumer, {"ack_policy": "explicit"})

    answer = brisk.json("POST", consumer + ":fetch", {"expires": "700ms"})
    brisk.delete("/v1/streams/BRISK")

    assert answer.status == 204


def _leave_unread(unread: Web, accept: str) -> list[int]:
    """Ask for more than sockets hold and read none of it; how often the first was delivered."""
    path = "/v1/streams/UNREAD/consumers/C"
    unread.json("PUT", "/v1/streams/UNREAD", {"subjects": ["unread"]})
    unread.json("PUT", path, {"ack_policy": "explicit", "ack_wait": 600_000_000_000})
    unread.lines(b'{"subject":"unread","text":"%s"}\n' % (b"x" * 1_000_000) * 8)
    body = b'{"fill": true, "batch": 8, "expires": "30s"}'
    head = f"POST {path}:fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Accept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(unread.address)
        caller.sendall(head.encode() + body)
        eventually(lambda: unread.get(path).json()["delivered"]["consumer_seq"] == 8, within=30)
        again = unread.json("POST", path + ":fetch", {"batch": 1, "expires": "30s"})
    unread.delete("/v1/streams/UNREAD")
    return [message["delivered"] for message in again.json()["messages"]]


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_a_caller_that_reads_nothing_is_disconnected(unread: Web, accept: str) -> None:
    """His messages are those of others then, long before their ack wait is over."""
    assert _leave_unread(unread, accept) == [2]


def test_a_caller_that_reads_something_is_waited_for(
    unread: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([5, 4, 3, 2])
    monkeypatch.setattr(write_timeout, "untaken", lambda transport: next(left, 1))

    assert _leave_unread(unread, "application/json") == [2]
    assert list(left) == [], "looked at until nothing more was taken"


@pytest.mark.parametrize(
    ("begin", "endless", "status"),
    [
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 200, 431),
        (b"GET / HTTP/1.1\r\nA: ", b"a" * 1000, 431),
        (b"GET / HTTP/1.1\r\n", b"A" * 1000, 431),
        (b"GET /", b"a" * 1000, 414),
    ],
    ids=["headers", "one value", "one name", "target"],
)
def test_headers_that_never_end_are_refused(
    web: Web, begin: bytes, endless: bytes, status: int
) -> None:
    """And the answer arrives, though more comes behind the limit than sockets hold."""
    with socket.create_connection(web.address, timeout=30) as sock:
        sock.sendall(begin)
        for _ in range(20_000):
            sock.sendall(endless)
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_slow_callers_do_not_hold_up_others(impatient: Web) -> None:
    head = b"POST /v1/subjects/slow.a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            slow = stack.enter_context(socket.create_connection(impatient.address, timeout=30))
            slow.sendall(head)

        assert impatient.get("/v1/streams").status == 200


def test_one_pull_request_too_many_is_429(stream: Stream) -> None:
    path = stream.consumer(max_waiting=1)
    waiting: list[Answer] = []

    def wait() -> None:
        waiting.append(stream.web.json("POST", path + ":fetch", {"expires": "30s"}))

    first = threading.Thread(target=wait)
    first.start()
    eventually(lambda: stream.web.get(path).json()["num_waiting"] == 1)

    refused = stream.web.json("POST", path + ":fetch", {"expires": "30s"})
    stream.publish("a")
    first.join(60)

    assert (refused.status, refused.kind) == (429, "too-many-requests")
    assert refused.headers["retry-after"] == "1"
    assert [answer.status for answer in waiting] == [200]
