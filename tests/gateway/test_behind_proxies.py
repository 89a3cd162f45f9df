"""nginx and HAProxy before the server: whatever they make of a request, both see the same end.

They send requests of many callers over the same connections. One that the server read in another
way would be answered, or run, in the place of somebody else's.
"""

# Subject: HTTP, HTTP framing

import http.client
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.test_framing import (
    CHUNKED,
    FRAMED,
    LAST,
    NO_LINES,
    NO_REQUESTS,
    ROUTES,
    Target,
    exchange,
    framed,
    statuses,
)
from tests.gateway.web import Web
from tests.support.http_proxies import PROXIES, proxy
from tests.support.jetgate import JetgateServer
from tests.support.websocket import frame
from tests.support.websocket import request as handshake

NAME = "PROXIED"


@pytest.fixture(scope="module", params=PROXIES)
def web(request: pytest.FixtureRequest, jetgate_server: JetgateServer) -> Iterator[Web]:
    with proxy(request.param, jetgate_server.http) as address:
        yield Web(address)


@pytest.fixture
def stream(web: Web, jetgate_server: JetgateServer) -> Iterator[Stream]:
    """A stream that is looked at past the proxy."""
    direct = Web(jetgate_server.http)
    direct.json("PUT", f"/v1/streams/{NAME}", {"subjects": ["proxied.>"], "allow_direct": True})
    yield Stream(direct, NAME, "proxied")
    direct.delete(f"/v1/streams/{NAME}")


@pytest.fixture
def target(stream: Stream) -> Target:
    return Target(ROUTES["raw publish"], stream)


def test_each_request_is_run_once_with_its_whole_body(web: Web, target: Target) -> None:
    answered = 0
    for name, (headers, how) in FRAMED.items():
        received = exchange(web, target.request(headers, how) + LAST)
        if 400 in statuses(received) or not received:  # the proxy knows no such request
            continue
        assert statuses(received)[0] == 201, (name, received)
        answered += 1
    assert answered > len(FRAMED) / 2
    assert target.bodies() == [target.body] * answered


def test_a_malformed_request_leaves_the_connections_in_step(web: Web, target: Target) -> None:
    inner = framed(f"POST /v1/subjects/{target.stream.prefix}.raw", "", b"inner", "length")
    run = 0
    cases = [(headers, body.encode()) for headers, body, _ in NO_REQUESTS.values()]
    for headers, body in cases:
        head = f"{target.line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode("latin-1")
        with suppress(ConnectionError):
            run += statuses(exchange(web, head + body + inner + LAST)).count(201)

        assert web.get(target.stream.path).json()["config"]["name"] == NAME, headers
    for line, _ in NO_LINES.values():
        with suppress(ConnectionError):
            run += statuses(exchange(web, line + LAST)).count(201)
        assert web.get("/healthz").json() == {"status": "ok"}
    bodies = target.bodies()
    assert len(bodies) == run
    assert set(bodies) <= {b"", b"inner"}


def test_a_handshake_goes_through(web: Web) -> None:
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(handshake(first="GET /v1/ws HTTP/1.1"))
        received = b""
        while b"\r\n\r\n" not in received:
            received += caller.recv(4096)
        assert received.startswith(b"HTTP/1.1 101 ")
        caller.sendall(frame(b"there?", 0x89))
        while b"\x8a\x06there?" not in received:
            received += caller.recv(4096)


@pytest.mark.parametrize("headers", ["Content-Length: 1\r\n", CHUNKED])
def test_a_handshake_with_a_body_is_answered(web: Web, headers: str) -> None:
    sent = handshake(first="GET /v1/ws HTTP/1.1").replace(b"\r\n\r\n", b"\r\n" + headers.encode())
    body = b"x" if "Length" in headers else b"0\r\n\r\n"

    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(sent + b"\r\n" + body)
        received = caller.recv(4096)

    # HAProxy takes the upgrade away; for nginx chunks without data are a length of nothing.
    allowed = (400, 426, 101) if headers == CHUNKED else (400, 426)
    assert statuses(received)[0] in allowed, received


def test_an_answer_arrives_before_the_body_does(web: Web) -> None:
    connection = http.client.HTTPConnection(*web.address, timeout=60)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/streams", bytes(20 << 20), headers)
    answer = connection.getresponse()

    assert answer.status == 413
    assert b"urn:jetgate:problem:body-too-large" in answer.read()
    connection.close()
    assert web.get("/healthz").status == 200
