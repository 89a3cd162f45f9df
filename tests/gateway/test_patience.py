"""Callers that are slow, or ask for more than there is room for: 408 and 429."""

import contextlib
import dataclasses
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer


@pytest.fixture(scope="module")
def impatient(nats_server: NatsServer) -> Iterator[Web]:
    """A façade that waits a fifth of a second for the next piece of a body."""
    settings = dataclasses.replace(SETTINGS, body_idle_max=0.2)
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
    ],
)
@pytest.mark.parametrize("first", [b"", b"ab"])
def test_a_body_that_stops_coming_is_408(impatient: Web, head: str, first: bytes) -> None:
    body = b"%x\r\n%s\r\n" % (len(first), first) if first and "chunked" in head else first

    answer = impatient.raw(f"{head}Host: x\r\n\r\n".encode() + body)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"urn:jetgate:problem:slow-body" in answer
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_slow_callers_do_not_hold_up_others(impatient: Web) -> None:
    head = b"POST /v1/subjects/slow.a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            slow = stack.enter_context(socket.create_connection(impatient.address, timeout=10))
            slow.sendall(head)

        assert impatient.get("/v1/streams").status == 200


def test_one_pull_request_too_many_is_429(stream: Stream) -> None:
    path = stream.consumer(max_waiting=1)
    waiting: list[Answer] = []

    def wait() -> None:
        waiting.append(stream.web.json("POST", path + ":fetch", {"expires": "10s"}))

    first = threading.Thread(target=wait)
    first.start()
    eventually(lambda: stream.web.get(path).json()["num_waiting"] == 1)

    refused = stream.web.json("POST", path + ":fetch", {"expires": "10s"})
    stream.publish("a")
    first.join(10)

    assert (refused.status, refused.kind) == (429, "too-many-requests")
    assert refused.headers["retry-after"] == "1"
    assert [answer.status for answer in waiting] == [200]
