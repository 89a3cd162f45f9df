"""Signing in over HTTP with passwords that take long to check, over sockets of HTTP."""

# Subject: HTTP sign-in, HTTP

import asyncio
import dataclasses
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import bcrypt
import pytest
import uvicorn
from uvicorn.server import ServerState

from core.auth.authenticator import SlowCheck
from core.auth.users import User, Users
from core.client import Client, Options, attach
from core.client import link as links
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from core.units import Seconds
from gateway.app import create_app
from gateway.http.protocol import HttpProtocol
from gateway.http.websocket_protocol import UVICORN_OPTIONS, WebSocketProtocol
from jetgate.login import login_to
from tests.gateway.serving import SETTINGS
from tests.gateway.web import basic
from tests.support.eventually import observed

_ANN = User("ann", bcrypt.hashpw(b"a", bcrypt.gensalt(4)).decode())
_BOB = User("bob", bcrypt.hashpw(b"b", bcrypt.gensalt(4)).decode())
_HANDSHAKE = (
    "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
_REQUEST = "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"


class Gate:
    """Stops every check until it is open; notes whose they were."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.is_open = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found, real = Gate(), SlowCheck.run

    def run(check: SlowCheck) -> bool:
        found.begun.append(check.user)
        assert found.is_open.wait(60)
        return real(check)

    monkeypatch.setattr(SlowCheck, "run", run)
    yield found
    found.is_open.set()


def _nowhere(receive: links.Receive, closed: links.Closed) -> links.Link:
    raise AssertionError("nobody connects without saying who they are")


Asked = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Serving:
    """The façade, over a hub in this loop where one password is checked at a time."""

    def __init__(self, hub: Hub, port: int) -> None:
        self.checks = hub.password_checks
        self.asked: list[Asked] = []
        self._port = port

    async def ask(
        self, user: str, password: str, caller: str = "192.0.2.1", head: str = _REQUEST
    ) -> Asked:
        found = await asyncio.open_connection("127.0.0.1", self._port)
        self.asked.append(found)
        said = f"Authorization: {basic(user, password)}\r\nX-Forwarded-For: {caller}\r\n\r\n"
        found[1].write((head + said).encode())
        return found

    def queued(self) -> int:
        """How many checks wait, or are made."""
        return len(self.checks._queued)


@asynccontextmanager
async def _serving(users_timeout: float = 60) -> AsyncIterator[Serving]:
    hub = Hub(
        LoopTick(), SystemClock(), users=Users(users=(_ANN, _BOB), timeout=Seconds(users_timeout))
    )
    hub.password_checks._threads = 1
    settings = dataclasses.replace(SETTINGS, trusted_proxies=("127.0.0.1/32",))
    app = create_app(settings, Client(attach(_nowhere), Options()), login=login_to(hub))
    config = uvicorn.Config(
        app, lifespan="off", proxy_headers=False, ws=WebSocketProtocol, **UVICORN_OPTIONS
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: HttpProtocol(config, state, {}), "127.0.0.1", 0, family=socket.AF_INET
    )
    found = Serving(hub, server.sockets[0].getsockname()[1])
    async with asyncio.timeout(60):
        yield found
    for _, writer in found.asked:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    server.close()
    await app.authenticator.close()


@pytest.mark.parametrize("head", [_REQUEST, _HANDSHAKE], ids=["request", "handshake"])
def test_a_waiting_check_ends_with_its_connection(gate: Gate, head: str) -> None:
    async def run() -> None:
        async with _serving() as web:
            for number in range(20):
                await web.ask("bob", f"guess {number}", head=head)
            await observed(lambda: web.queued() == 20)
            for _, writer in web.asked:
                writer.close()
            await observed(lambda: web.queued() == 1)
            reader, _ = await web.ask("ann", "a")
            gate.is_open.set()

            assert b" 201 " in await reader.readline()
            assert gate.begun == ["bob", "ann"]

    asyncio.run(run())


def test_one_of_two_callers_that_wait_for_the_same_check_goes(gate: Gate) -> None:
    async def run() -> None:
        async with _serving() as web:
            asked = [await web.ask("ann", "a") for _ in range(2)]
            await observed(lambda: gate.begun == ["ann"])
            asked[0][1].close()
            reader, _ = await web.ask("bob", "b")
            await observed(lambda: web.checks.waiting == 1)
            gate.is_open.set()

            assert b" 201 " in await asked[1][0].readline()
            assert b" 201 " in await reader.readline()

    asyncio.run(run())


def test_others_get_in_while_an_address_guesses(gate: Gate) -> None:
    async def run() -> None:
        async with _serving() as web:
            for number in range(30):
                await web.ask(f"unknown {number}", "guess")
            await observed(lambda: web.queued() == 30)
            reader, _ = await web.ask("unknown 31", "x", "192.0.2.9")
            await observed(lambda: web.queued() == 31)
            gate.is_open.set()

            assert b" 401 " in await reader.readline()
            assert "unknown 31" in gate.begun[:5]

    asyncio.run(run())


def test_a_check_that_is_not_done_in_time_is_not_answered_as_a_wrong_password(gate: Gate) -> None:
    async def run() -> None:
        async with _serving(users_timeout=0.2) as web:
            await web.ask("bob", "guess")
            await observed(lambda: gate.begun == ["bob"])
            reader, _ = await web.ask("ann", "a")
            answer = await reader.readuntil(b"\r\n\r\n")

            assert b" 503 " in answer
            assert b"retry-after: 1" in answer.lower()
            gate.is_open.set()

    asyncio.run(run())
