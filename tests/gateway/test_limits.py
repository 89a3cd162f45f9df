"""Limits over sockets: rates of identities, connections, requests; what a proxy says of callers."""

# Subject: HTTP sign-in, HTTP

import asyncio
import dataclasses
import socket
from collections.abc import Iterator

import pytest

from core.config.addresses import listen
from core.units import Seconds
from gateway.http.server import HttpServer
from gateway.http.startup import StartupServer
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web, basic
from tests.support.eventually import observed
from tests.support.natsserver import NatsServer

USERS = "{ users: [{user: me, password: secret}, {user: you, password: secret}] }"
ME, YOU = basic("me", "secret"), basic("you", "secret")
_SPOKEN = "Sec-WebSocket-Protocol"
_SHAKES = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture(scope="module")
def users() -> Iterator[NatsServer]:
    with NatsServer({"authorization": USERS}) as nats:
        yield nats


@pytest.fixture
def limited(users: NatsServer) -> Iterator[Web]:
    """Three requests an hour of each identity, and of each address that fails to be one."""
    settings = dataclasses.replace(SETTINGS, rate_requests=3, rate_seconds=Seconds(3600.0))
    with GatewayServer(users.address, settings, with_users=True) as server:
        yield Web(server.http)
        assert server.failures == []


def _ask(web: Web, authorization: str) -> Answer:
    return web.send("GET", "/v1/session", None, {"Authorization": authorization})


def test_an_identity_has_its_own_rate(limited: Web) -> None:
    answers = [_ask(limited, ME) for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert [a.headers["ratelimit"].partition(";t=")[0] for a in answers] == [
        f'"requests";r={left}' for left in (2, 1, 0, 0)
    ]
    assert {a.headers["ratelimit-policy"] for a in answers} == {'"requests";q=3;w=3600'}
    assert answers[3].kind == "quota-exceeded"
    assert answers[3].json()["violated-policies"] == ["requests"]
    assert 0 < int(answers[3].headers["retry-after"]) <= 1200
    assert _ask(limited, YOU).status == 200
    assert limited.get("/healthz").headers["ratelimit"] is None


def test_an_error_has_the_rate_limit_too(limited: Web) -> None:
    answer = limited.send("GET", "/v1/streams?x=1", None, {"Authorization": ME})

    assert (answer.status, answer.headers["ratelimit"]) == (400, '"requests";r=2;t=1200')


def test_guesses_of_passwords_are_limited(limited: Web) -> None:
    assert _ask(limited, ME).status == 200
    guesses = [_ask(limited, basic("you", str(number))) for number in range(4)]

    assert [answer.status for answer in guesses] == [401, 401, 401, 429]
    assert _ask(limited, YOU).status == 429, "nobody new is let in from there"
    assert _ask(limited, ME).status == 200, "who is in already is not kept out"


REFUSED = {
    "without credentials": (("GET", "/v1/session", {}), 401),
    "of a scheme that is not known": (("GET", "/v1/session", {"Authorization": "Digest x"}), 401),
    "a session that is none": (("GET", "/v1/session", {"Cookie": "jetgate=none"}), 401),
    "nothing is there": (("GET", "/v1/none", {"Authorization": ME}), 404),
    "a method that is not there": (("DELETE", "/metrics", {}), 405),
    "a path that is too long": (("GET", "/v1/streams?" + "x" * 17_000, {}), 414),
    "too many headers": (("GET", "/v1/streams", {f"A{n}": "b" for n in range(101)}), 431),
    "a WebSocket of a token that is none": (
        ("GET", "/v1/ws", {**_SHAKES, _SPOKEN: "js.v1.json, bearer.a"}),
        401,
    ),
    "a WebSocket elsewhere": (("GET", "/v1/none", _SHAKES), 404),
}


@pytest.mark.parametrize(("asked", "status"), REFUSED.values(), ids=REFUSED)
def test_refusals_count_for_the_address_until_the_caller_is_authenticated(
    limited: Web, asked: tuple[str, str, dict[str, str]], status: int
) -> None:
    method, path, headers = asked
    answers = [limited.send(method, path, None, headers) for _ in range(4)]

    assert [answer.status for answer in answers] == [status, status, status, 429]
    assert [a.headers["ratelimit"].partition(";t=")[0] for a in answers] == [
        f'"requests";r={left}' for left in (2, 1, 0, 0)
    ]
    assert _ask(limited, ME).status == 429, "nobody new is let in from there"
    assert limited.get("/readyz").kind == "not-ready", "probes are counted for nobody"


def test_without_sign_in_a_path_that_is_not_there_counts_as_well(
    nats_server: NatsServer,
) -> None:
    settings = dataclasses.replace(SETTINGS, rate_requests=3, rate_seconds=Seconds(3600.0))
    with GatewayServer(nats_server.address, settings) as server:
        web = Web(server.http)
        answers = [web.get(path) for path in ("/v1/none", "/v1/session", "/v1/none", "/v1/none")]

    assert [answer.status for answer in answers] == [404, 200, 404, 429]
    assert [a.headers["ratelimit"].partition(";")[2][:3] for a in answers] == [
        "r=2",
        "r=1",
        "r=0",
        "r=0",
    ]


def test_without_sign_in_addresses_are_limited(nats_server: NatsServer) -> None:
    settings = dataclasses.replace(
        SETTINGS, rate_requests=1, rate_seconds=Seconds(3600.0), trusted_proxies=("127.0.0.0/8",)
    )
    with GatewayServer(nats_server.address, settings) as server:
        web = Web(server.http)
        statuses = [
            web.get("/v1/session", X_Forwarded_For=said).status
            for said in ("203.0.113.1", "203.0.113.1", "203.0.113.2", "6.6.6.6, 203.0.113.2")
        ]
        assert web.get("/v1/session", Forwarded="for").kind == "bad-forwarded"

    assert statuses == [200, 429, 200, 429]


@pytest.mark.parametrize("trusted", [("127.0.0.1",), ("10.0.0.0/8",)])
def test_a_trusted_proxy_may_report_tls(users: NatsServer, trusted: tuple[str, ...]) -> None:
    settings = dataclasses.replace(SETTINGS, trusted_proxies=trusted)
    headers = {"Authorization": ME, "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    headers["X-Forwarded-Host"] = "chat.example"
    with GatewayServer(users.address, settings, with_users=True) as server:
        web = Web(server.http)
        cookie = web.send("POST", "/v1/session", None, headers).headers["set-cookie"]
        secure = cookie.startswith("__Host-jetgate=") and cookie.endswith("; Secure")
        del headers["Authorization"]
        headers |= {"Cookie": cookie.partition(";")[0], "Origin": "https://chat.example"}
        status = web.send("POST", "/v1/tickets", None, headers).status
        headers["X-Forwarded-Proto"] = "http"
        plain = web.send("GET", "/v1/session", None, headers).status

    believed = trusted == ("127.0.0.1",)
    assert secure == believed
    assert status == (201 if believed else 403)
    assert plain == (401 if believed else 200), "a cookie of TLS is not for plain HTTP"


def test_one_connection_too_many_is_answered_and_closed() -> None:
    async def scenario() -> None:
        start = StartupServer(listen("127.0.0.1", 0, "HTTP"))
        await start.start()
        http = HttpServer(start, dataclasses.replace(SETTINGS, connections_max=2))

        async def app(scope: object, receive: object, send: object) -> None:
            raise AssertionError("nothing is asked")

        http.use(app)
        await observed(lambda: start.successor)
        loop = asyncio.get_running_loop()
        address = ("127.0.0.1", http.port)
        opened = [await asyncio.open_connection(*address) for _ in range(2)]
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(*address)
            said = await reader.read()
            opened[0][1].close()

            async def taken() -> bool:
                with socket.create_connection(address) as sock:
                    sock.setblocking(False)
                    await loop.sock_sendall(sock, b"nonsense\r\n\r\n")
                    return (await loop.sock_recv(sock, 100)).startswith(b"HTTP/1.1 400 ")

            await observed(taken)
        for _, each in [*opened, (reader, writer)]:
            each.close()
        await http.stop()
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"urn:jetgate:problem:too-many-connections" in said
        assert b"\r\nretry-after: 1\r\n" in said

    asyncio.run(scenario())


_TOO_LARGE = {
    "count": ("/v1/ws", {f"A{number}": "b" for number in range(101)}, 431),
    "lines": ("/v1/ws", {f"A{number}": "b" for number in range(5000)}, 431),
    "bytes": ("/v1/ws", {"A": "b" * 33_000}, 431),
    "target": ("/v1/ws?a=" + "b" * 17_000, {}, 414),
}


@pytest.mark.parametrize("name", _TOO_LARGE)
def test_a_handshake_has_the_limits_of_a_request(limited: Web, name: str) -> None:
    path, headers, status = _TOO_LARGE[name]
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    plain = f"GET {path} HTTP/1.1\r\nHost: a\r\n{lines}"
    shake = plain + "".join(f"{key}: {value}\r\n" for key, value in _SHAKES.items())
    expected, got = (limited.raw(f"{head}\r\n".encode()) for head in (plain, shake))

    assert expected.startswith(b"HTTP/1.1 %d " % status)
    assert got.partition(b"\r\n\r\n")[2] == expected.partition(b"\r\n\r\n")[2]
    assert got.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("name", [_SPOKEN, "Connection", "Sec-WebSocket-Extensions"])
def test_a_handshake_has_few_elements_of_lists(limited: Web, name: str) -> None:
    shakes = "".join(f"{key}: {value}\r\n" for key, value in _SHAKES.items())
    head = f"GET /v1/ws HTTP/1.1\r\nHost: a\r\n{shakes}{name}: {'a,' * 64}b\r\n\r\n"

    assert limited.raw(head.encode()).startswith(b"HTTP/1.1 431 ")
