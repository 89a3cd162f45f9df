"""Names of the server: a page whose name leads here by a trick is refused (DNS rebinding)."""

# Subject: HTTP sign-in, HTTP

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.sockets import Socket
from tests.gateway.web import Answer, Web
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

PROXY = replace(SETTINGS, hosts=("api.example",), trusted_proxies=("127.0.0.0/8",))


def _asked(web: Web, host: str, **headers: str) -> Answer:
    return web.send("GET", "/v1/streams", None, {"Host": host} | headers)


def _is_refused(answer: Answer) -> bool:
    return (answer.status, answer.kind) == (421, "wrong-host")


@pytest.fixture
def named(nats_server: NatsServer) -> Iterator[Web]:
    """A façade that is called api.example, behind a proxy."""
    with GatewayServer(nats_server.address, PROXY) as server:
        yield Web(server.http)
    assert server.failures == []


def test_a_server_on_loopback_is_asked_by_its_own_names(jetgate_server: JetgateServer) -> None:
    web = Web(jetgate_server.http)
    port = web.address[1]

    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", "[::1]", "a.localhost"):
        assert _asked(web, host).status == 200, host
    for host in (f"evil.example:{port}", "localhost.evil.example", "evil.example:x", "", "127.1"):
        answer = _asked(web, host)
        assert _is_refused(answer), host
    assert "--http-host" in answer.json()["detail"]


def test_the_host_of_a_url_goes_before_the_header(jetgate_server: JetgateServer) -> None:
    """RFC 9112, 3.2.2; a proxy that looked at the one would else be led past by the other."""
    web = Web(jetgate_server.http)
    for url, host, status in (
        ("http://evil.example", "localhost", 421),
        ("HTTP://localhost:1", "evil.example", 200),
    ):
        sent = f"GET {url}/v1/streams HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        assert web.raw(sent).startswith(b"HTTP/1.1 %d " % status), url


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/healthz", "/docs", "/v1/streams", "/metrics", "/none"])
def test_no_route_answers_to_another_name(
    jetgate_server: JetgateServer, path: str, method: str
) -> None:
    page = {
        "Host": "evil.example",
        "Origin": "http://evil.example",
        "Sec-Fetch-Site": "same-origin",
    }
    assert Web(jetgate_server.http).send(method, path, None, page).status == 421


_SHAKES = [
    "Origin: http://evil.example",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
]


def test_no_socket_opens_by_another_name(jetgate_server: JetgateServer) -> None:
    web = Web(jetgate_server.http)
    head = "\r\n".join(["GET /v1/ws HTTP/1.1", "Host: evil.example", *_SHAKES, "", ""])
    assert web.raw(head.encode()).startswith(b"HTTP/1.1 421 ")
    with Socket(("localhost", jetgate_server.http[1])) as ws:
        assert ws.ask("ping")["type"] == "pong"


def test_the_host_name_of_a_trusted_proxy_counts(named: Web) -> None:
    assert _asked(named, "api.example").status == 200
    assert _asked(named, "inside", Forwarded="for=192.0.2.1;host=api.example").status == 200
    assert _is_refused(_asked(named, "inside"))
    assert _is_refused(_asked(named, "api.example", Forwarded="for=192.0.2.1;host=evil.example"))


def test_operators_choose_the_host_names() -> None:
    with JetgateServer("--http-host", "api.example", in_memory=True) as server:
        web = Web(server.http)
        assert [_asked(web, host).status for host in ("api.example:80", "localhost")] == [200, 200]
        assert _is_refused(_asked(web, "www.api.example"))


def test_a_server_of_other_machines_is_asked_by_any_name() -> None:
    with JetgateServer("--host", "0.0.0.0", in_memory=True) as server:
        web = Web(("127.0.0.1", server.http[1]))
        answer = _asked(web, "jetgate")
        assert answer.status == 200
        assert json.loads(answer.body)["streams"] == []
