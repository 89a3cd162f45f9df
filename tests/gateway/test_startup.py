"""HTTP while a process starts: `/readyz` is answered, the rest waits for what is to answer."""

# Subject: HTTP, leadership

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Receive, Scope, Send

from core.config.addresses import listen
from gateway.http.server import HttpServer
from gateway.http.startup import StartupServer
from tests.support.eventually import observed


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path and the body."""
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    said = scope["path"].encode() + b" " + body
    head = [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": said})


async def _asked(start: StartupServer, text: bytes) -> socket.socket:
    """A connection that has said this."""
    loop = asyncio.get_running_loop()
    caller = socket.socket()
    caller.setblocking(False)
    await loop.sock_connect(caller, ("127.0.0.1", start.port))
    await loop.sock_sendall(caller, text)
    return caller


async def _received(caller: socket.socket, end: bytes = b"") -> bytes:
    """What it is told until this comes, or until it is closed."""
    said = b""
    async with asyncio.timeout(30):
        while not end or end not in said:
            more = await asyncio.get_running_loop().sock_recv(caller, 4096)
            if not more:
                break
            said += more
    return said


def _during_a_start(
    scenario: Callable[[StartupServer], Awaitable[None]], hold_s: float = 60
) -> None:
    async def run() -> None:
        start = StartupServer(listen("127.0.0.1", 0, "HTTP"), hold_s=hold_s)
        await start.start()
        try:
            await scenario(start)
        finally:
            start.stop()

    asyncio.run(run())


@pytest.mark.parametrize("parts", [1, 2])
def test_the_readiness_probe_reports_that_the_server_is_starting(parts: int) -> None:
    async def scenario(start: StartupServer) -> None:
        request = b"GET /readyz?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        cut = len(request) // parts
        with await _asked(start, request[:cut]) as caller:
            if request[cut:]:
                await observed(lambda: bool(start.held))
                await asyncio.get_running_loop().sock_sendall(caller, request[cut:])
            head, _, body = (await _received(caller)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nretry-after: 1\r\n" in head
        assert b"\r\ncontent-type: application/problem+json\r\n" in head
        assert json.loads(body) == {
            "type": "urn:jetgate:problem:starting",
            "title": "Service Unavailable",
            "status": 503,
            "detail": "this node is starting",
            "instance": "/readyz",
        }

    _during_a_start(scenario)


def test_other_requests_wait_and_are_answered_by_what_takes_over() -> None:
    """In order, with what of them was read already, and on connections that stay."""

    async def scenario(start: StartupServer) -> None:
        first = await _asked(
            start, b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc"
        )
        second = await _asked(start, b"GET /b HTTP/1.1\r\nHo")
        third = await _asked(start, b"")
        await observed(lambda: len(start.held) == 3)
        http = HttpServer(start)
        http.use(echo)
        with (
            first,
            second,
            third,
            await _asked(start, b"GET /d HTTP/1.1\r\nHost: localhost\r\n\r\n") as late,
        ):
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(first, b"def")
            assert (await _received(first, b"/a abcdef")).startswith(b"HTTP/1.1 200 ")
            await loop.sock_sendall(first, b"GET /again HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await _received(first, b"/again ")
            await loop.sock_sendall(second, b"st: x\r\n\r\n")
            assert b"\r\ndate: " in await _received(second, b"/b ")
            await loop.sock_sendall(third, b"GET /c HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await _received(third, b"/c ")
            assert b"200" in await _received(late, b"/d ")
        assert not start.held
        await http.stop()

    _during_a_start(scenario)


def test_a_request_that_has_waited_too_long_is_refused() -> None:
    async def scenario(start: StartupServer) -> None:
        with (
            await _asked(start, b"GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n") as asked,
            await _asked(
                start, b"HEAD /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ) as headless,
            await _asked(start, b"GET /v1") as unfinished,
        ):
            assert b'"instance":"/v1/streams"' in await _received(asked)
            assert (await _received(headless)).endswith(b"\r\n\r\n")
            assert await _received(unfinished) == b""
        assert not start.held

    _during_a_start(scenario, hold_s=0.05)


def test_a_start_that_ends_closes_its_connections() -> None:
    async def scenario(start: StartupServer) -> None:
        with await _asked(start, b"GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n") as caller:
            await observed(lambda: bool(start.held))
            start.stop()
            assert await _received(caller) == b""

    _during_a_start(scenario)
