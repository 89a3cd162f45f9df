"""Small requests and answers, which take a short way: they are what they are on the long one."""

# Subject: HTTP

import dataclasses
import re
import socket

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Web
from tests.support.natsserver import NatsServer

APP = "https://app.example"
MANY = 50
_OF_CORS = {"access-control-allow-origin", "access-control-allow-credentials"}


def _publish(stream: Stream, more: str = "", body: bytes = b"x") -> bytes:
    head = f"POST /v1/subjects/{stream.prefix}.a HTTP/1.1\r\nHost: localhost\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _read(caller: socket.socket) -> bytes:
    """What comes until the server closes."""
    return b"".join(iter(lambda: caller.recv(65536), b""))


def test_requests_sent_at_once_are_answered_in_their_order(stream: Stream) -> None:
    requests = [_publish(stream)] * (MANY - 1) + [_publish(stream, "Connection: close\r\n")]

    with socket.create_connection(stream.web.address, timeout=30) as caller:
        caller.sendall(b"".join(requests))
        received = _read(caller)

    assert [int(seq) for seq in re.findall(rb'"seq":(\d+)', received)] == list(range(1, MANY + 1))
    assert received.count(b"HTTP/1.1 201 Created\r\n") == MANY


def test_a_body_that_comes_later_is_waited_for(stream: Stream) -> None:
    request = _publish(stream, "Expect: 100-continue\r\nConnection: close\r\n", b"later")
    with socket.create_connection(stream.web.address, timeout=30) as caller:
        caller.sendall(request[:-5])
        received = b""
        while b"100 Continue\r\n\r\n" not in received:
            received += caller.recv(4096)
        caller.sendall(b"later")
        received += _read(caller)

    assert b"HTTP/1.1 201 Created\r\n" in received
    assert stream.web.get(f"{stream.path}/messages/1").body == b"later"


@pytest.mark.parametrize("media_type", ["", "text/plain", "x" * 200, "application/json"])
def test_the_type_of_a_body_is_kept_however_often_it_comes(stream: Stream, media_type: str) -> None:
    for _ in range(2):
        seq = stream.publish("a", b"1", Content_Type=media_type)
        message = stream.web.get(f"{stream.path}/messages/{seq}", Accept="application/json")
        assert message.json().get("headers", {}) == (
            {"Content-Type": [media_type]} if media_type else {}
        )


def test_headers_added_to_answers_are_added_to_these(nats_server: NatsServer) -> None:
    settings = dataclasses.replace(SETTINGS, cors_origins=(APP,), rate_requests=1000)
    with GatewayServer(nats_server.address, settings) as server:
        web = Web(server.http)
        assert web.json("PUT", "/v1/kv/exchange", {}).status == 201
        short = web.send("PUT", "/v1/kv/exchange/k", b"1")
        of_page = web.send("PUT", "/v1/kv/exchange/k", b"1", {"Origin": APP})
        head = web.send("HEAD", "/v1/kv/exchange/k")
        value = web.get("/v1/kv/exchange/k")
        web.delete("/v1/kv/exchange")

    assert of_page.headers["access-control-allow-origin"] == APP
    names = {name.lower() for name in of_page.headers}
    assert names - {name.lower() for name in short.headers} >= _OF_CORS
    assert short.headers["ratelimit"].startswith('"requests";r=998;')
    assert of_page.headers["ratelimit"].startswith('"requests";r=997;')
    assert (head.body, value.body) == (b"", b"1")
    same = [name for name in value.headers if name not in ("date", "ratelimit")]
    assert [head.headers[name] for name in same] == [value.headers[name] for name in same]
