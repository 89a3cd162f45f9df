"""One HTTP connection without a socket: what is held of a peer, for how long, and how it ends."""

# Subject: HTTP, HTTP framing

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.http.protocol import HttpProtocol
from gateway.http.read_buffer import BULK_BYTES, READ_BYTES
from gateway.http.websocket_protocol import (
    EARLY_FRAMES_MAX,
    HELLO_BYTES_MAX,
    UVICORN_OPTIONS,
    WebSocketProtocol,
)
from tests.support.websocket import frame, request

KIB = 1024
HEAD = b"POST /a HTTP/1.1\r\nHost: a\r\n"


class Loop(asyncio.SelectorEventLoop):
    """A loop of which a test moves the time."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def run_tick(self, seconds: float = 0.0) -> None:
        """Let time go by, and run what is due."""
        self.now += seconds
        self.run_until_complete(_ticks())


async def _ticks() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Transport(asyncio.Transport):
    """Keeps what is written. It gives the protocol what a peer sends, as a loop would."""

    def __init__(self, *, is_tls: bool = False) -> None:
        super().__init__({"sslcontext": object()} if is_tls else {})
        self.written = b""
        self.ended = self.closing = self.paused = False
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        assert not self.ended, "written behind the end"
        if not self.closing:
            self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return "sslcontext" not in self._extra  # type: ignore[attr-defined]

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_reading(self) -> bool:
        return not self.paused

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self.protocol)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There are none."""


class Peer:
    """A connection, and an application that answers when the test says so."""

    def __init__(self, loop: Loop, *, is_tls: bool = False) -> None:
        self.loop = loop
        self.run: list[tuple[str, bytes]] = []
        self.reads = True
        self.admits = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.transport = Transport(is_tls=is_tls)
        config = Config(
            self.app,
            http=cast(type[asyncio.Protocol], HttpProtocol),
            ws=WebSocketProtocol,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            **UVICORN_OPTIONS,
        )
        self.http = HttpProtocol(config, ServerState(), {})
        self.transport.protocol = self.http
        self.http.connection_made(self.transport)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        if scope["type"] == "websocket":
            await receive()
            await self.answers.wait()
            await send({"type": "websocket.accept"})
            if self.admits:
                await send({"type": "websocket.authenticated"})
            while (event := await receive())["type"] == "websocket.receive":
                self.run.append(("websocket", event.get("bytes") or event["text"].encode()))
            return
        while self.reads and more:
            event = await receive()
            if event["type"] == "http.disconnect":
                return
            body, more = body + event["body"], event["more_body"]
        self.run.append((scope["method"], body))
        await self.answers.wait()
        length = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": b"ok"})

    def send(self, data: bytes) -> int:
        """Send as much as is read; return how much that was."""

        async def send() -> int:
            return self.give(data)

        return self.loop.run_until_complete(send())

    def give(self, data: bytes) -> int:
        """The same within the loop."""
        taken = 0
        while taken < len(data) and not (self.transport.paused or self.transport.closing):
            protocol = self.transport.protocol
            if isinstance(protocol, asyncio.BufferedProtocol):
                view = memoryview(protocol.get_buffer(-1))
                piece = data[taken : taken + len(view)]
                view[: len(piece)] = piece
                protocol.buffer_updated(len(piece))
            else:
                piece = data[taken : taken + BULK_BYTES]
                protocol.data_received(piece)
            taken += len(piece)
        return taken

    @property
    def statuses(self) -> list[int]:
        return [int(each) for each in re.findall(rb"HTTP/1.1 (\d+) ", self.transport.written)]


@contextmanager
def looped() -> Iterator[Loop]:
    made = Loop()
    asyncio.set_event_loop(made)
    try:
        yield made
        for task in asyncio.all_tasks(made):
            task.cancel()
        made.run_tick()
    finally:
        asyncio.set_event_loop(None)
        made.close()


@contextmanager
def connected(*, is_tls: bool = False) -> Iterator[Peer]:
    with looped() as loop:

        async def make() -> Peer:
            return Peer(loop, is_tls=is_tls)

        made = loop.run_until_complete(make())
        yield made
        made.http.connection_lost(None)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with connected() as made:
        yield made


SENT = [
    HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 19\r\n\r\nDELETE /b HTTP/1.1\r",
    HEAD + b"Transfer-Encoding: chunked\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n"
    b"5;x\r\nGET /\r\nA\r\n HTTP/1.1\r\r\n0\r\nConnection: close\r\n\r\n",
    HEAD + b"Content-Length:  3\t\r\n\r\nabc",
]
BODIES = [b"DELETE /b HTTP/1.1\r", b"GET / HTTP/1.1\r", b"abc"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("answers_late", [False, True])
def test_requests_are_run_once_however_they_are_cut(
    peer: Peer, size: int, answers_late: bool
) -> None:
    data = b"".join(SENT)
    for begin in range(0, len(data), size):
        if answers_late:
            peer.answers.clear()
        peer.send(data[begin : begin + size])
        if begin % 5 == 0:
            peer.loop.run_tick()
    peer.answers.set()
    peer.loop.run_tick()

    assert peer.run == [("POST", body) for body in BODIES]
    assert peer.statuses == [200] * 3
    assert not peer.transport.closing


def test_a_request_that_ends_early_is_not_run() -> None:
    for place in range(len(SENT[0])):
        with connected() as peer:
            peer.send(SENT[0][:place])
            peer.loop.run_tick()
            peer.http.connection_lost(None)
            peer.loop.run_tick()

            assert peer.run == []


ENDLESS: dict[str, tuple[bytes, bytes, int]] = {
    "line": (b"", b"G", 400),
    "target": (b"GET /", b"a", 414),
    "empty lines": (b"", b"\r\n", 431),
    "name": (b"GET / HTTP/1.1\r\n", b"a", 431),
    "value": (b"GET / HTTP/1.1\r\nA:", b" ", 431),
    "headers": (b"GET / HTTP/1.1\r\n", b"A:b\r\n", 431),
    "extension": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a", 431),
    "extensions": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1;abc\r\nx\r\n", 431),
    "chunk size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0", 400),
    "trailer": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX:", b"a", 431),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X:\r\n", 431),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("size", [7, 4096])
def test_an_endless_head_is_refused_at_64_kib(peer: Peer, name: str, size: int) -> None:
    begin, endless, status = ENDLESS[name]
    peer.send(begin)
    peer.loop.run_tick()
    taken = 0
    while not peer.statuses and taken < KIB * KIB:
        taken += peer.send(endless * size)
        peer.loop.run_tick()

    assert peer.statuses == [status]
    assert taken <= (64 + 32) * KIB * (4 if name == "extensions" else 1)
    assert peer.transport.ended
    assert peer.run == []


@pytest.mark.parametrize("name", ENDLESS)
def test_behind_an_answer_nothing_is_kept(peer: Peer, name: str) -> None:
    """The same where the answer is there before the message has ended."""
    begin, endless, _ = ENDLESS[name]
    peer.reads = False
    peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
    peer.loop.run_tick()
    assert peer.statuses == [200]
    assert b"\r\nconnection: close\r\n" in peer.transport.written
    assert peer.transport.ended
    taken = peer.send(begin + endless * 100_000)
    peer.loop.run_tick()

    assert taken == len(begin) + len(endless) * 100_000, "it is read, so that the answer arrives"
    assert peer.http._reader.held == 0
    assert peer.statuses == [200]
    assert peer.run == [("POST", b"")]


@pytest.mark.parametrize("reads", [False, True])
def test_no_more_is_held_than_64_kib(peer: Peer, reads: bool) -> None:
    """Of requests behind one that is not answered, and of a body that nobody has asked for."""
    peer.answers.clear()
    peer.reads = reads
    one = HEAD + b"Content-Length: 1\r\n\r\nx"
    peer.send(one)
    peer.loop.run_tick()
    taken = peer.send(one * 10_000)
    assert taken <= 64 * KIB
    assert peer.run == [("POST", b"x" if reads else b"")]
    peer.answers.set()
    while peer.transport.paused:
        before = len(peer.run)
        peer.loop.run_tick()
        assert len(peer.run) > before, "it goes on, and reads on in the end"


def test_an_unrequested_body_is_not_read(peer: Peer) -> None:
    peer.answers.clear()
    peer.reads = False
    taken = peer.send(HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1_000_000)

    assert taken <= 2 * READ_BYTES
    assert peer.http.cycle is not None
    assert len(peer.http.cycle.body) <= 64 * KIB


SLOW: dict[str, bytes] = {
    "nothing": b"",
    "empty lines": b"\r\n",
    "a line": b"GET / HT",
    "headers": b"GET / HTTP/1.1\r\nHost: a\r\n",
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("is_second", [False, True])
def test_a_request_that_does_not_come_is_waited_for_20_s(
    peer: Peer, name: str, is_second: bool
) -> None:
    if is_second:
        peer.send(HEAD + b"\r\n")
        peer.loop.run_tick()
    begun = SLOW[name]
    for place in range(len(begun)):  # bytes now and then help nobody
        peer.send(begun[place : place + 1])
        peer.loop.run_tick(0.5)
    waits = 20.0 if begun or not is_second else 5.0  # uvicorn's default for an idle connection
    peer.loop.run_tick(waits - len(begun) * 0.5 - 0.1)
    assert not peer.transport.closing
    assert not peer.transport.ended
    peer.loop.run_tick(0.7)

    late = [408] if begun.strip() else []
    assert peer.statuses == [200] * is_second + late
    assert peer.transport.ended if late else peer.transport.closing
    peer.loop.run_tick(6)
    assert peer.transport.closing


def test_a_peer_that_sends_on_behind_an_answer_is_left_after_20_s(peer: Peer) -> None:
    peer.send(b"nonsense\r\n\r\n")
    assert peer.statuses == [400]
    for _ in range(9):
        assert not peer.transport.closing
        peer.send(b"more")
        peer.loop.run_tick(2.1)
    peer.loop.run_tick(2.1)

    assert peer.transport.closing


def test_a_request_that_fails_in_the_middle_is_not_run(peer: Peer) -> None:
    peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
    peer.loop.run_tick()
    peer.send(b"nonsense")
    peer.loop.run_tick()

    assert peer.run == []
    assert peer.statuses == [400]
    assert peer.transport.ended


def test_an_unanswered_handshake_ends_after_20_s(peer: Peer) -> None:
    peer.answers.clear()
    peer.send(request())
    peer.loop.run_tick(19.9)
    assert not peer.transport.closing
    peer.loop.run_tick(0.2)

    assert peer.statuses == [504]
    assert peer.transport.closing
    peer.answers.set()
    peer.loop.run_tick()
    assert peer.statuses == [504]


def test_frames_behind_a_handshake_wait_for_its_answer(peer: Peer) -> None:
    peer.answers.clear()
    sent = request() + frame(b"first") + frame(b"", 0x89) + frame(b"second")
    peer.send(sent)
    peer.loop.run_tick()
    assert peer.transport.written == b""
    assert peer.send(frame(b"x" * 1000) * 1000) <= 64 * KIB
    peer.answers.set()
    for _ in range(20):
        peer.loop.run_tick()

    assert peer.statuses == [101]
    assert peer.run[:2] == [("websocket", b"first"), ("websocket", b"second")]


@pytest.mark.parametrize(
    ("size", "is_taken"), [(HELLO_BYTES_MAX, True), (HELLO_BYTES_MAX + 1, False)]
)
def test_a_peer_that_is_not_known_sends_short_messages(
    peer: Peer, size: int, is_taken: bool
) -> None:
    peer.send(request())
    peer.loop.run_tick()
    sent = frame(b"x" * size)
    while sent and not peer.transport.ended:
        sent = sent[peer.send(sent[:8192]) :]
        peer.loop.run_tick()

    assert [len(body) for _, body in peer.run] == [size] * is_taken
    assert peer.transport.ended is not is_taken


@pytest.mark.parametrize("data", [frame(b"", 0x89), frame(b"", 0x8A), frame(b"", 0x00)])
def test_a_peer_that_is_not_known_sends_few_frames_before_hello(peer: Peer, data: bytes) -> None:
    peer.send(request())
    peer.loop.run_tick()
    peer.send(frame(b"", 0x02))
    peer.send(data * EARLY_FRAMES_MAX)
    peer.loop.run_tick()
    assert not peer.transport.ended
    peer.send(data)
    peer.loop.run_tick()

    assert b"\x0f\xa1more than 64 frames before welcome" in peer.transport.written
    assert peer.transport.ended
    assert peer.run == []


def test_a_peer_that_is_known_sends_any_number_of_frames(peer: Peer) -> None:
    peer.admits = True
    peer.send(request())
    peer.loop.run_tick()
    for _ in range(20):
        peer.send(frame(b"", 0x89) * 1000)
        peer.loop.run_tick()
    peer.send(frame(b"x"))
    peer.loop.run_tick()

    assert peer.transport.written.count(b"\x8a\x00") == 20_000
    assert peer.run == [("websocket", b"x")]


def test_only_the_last_ping_of_a_client_that_reads_nothing_is_answered(peer: Peer) -> None:
    peer.admits = True
    peer.send(request())
    peer.loop.run_tick()
    before = len(peer.transport.written)
    websocket: Callable[[], None] = peer.transport.protocol.pause_writing
    websocket()
    for number in range(1000):
        peer.send(frame(b"%d" % number, 0x89))
    assert len(peer.transport.written) == before
    peer.transport.protocol.resume_writing()

    assert peer.transport.written[before:] == b"\x8a\x03999"


WORST: dict[str, tuple[bytes, bytes]] = {
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "extensions": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1;\r\nx\r\n"),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"A:\r\n"),
    "headers": (b"GET / HTTP/1.1\r\n", b"A:\r\n"),
    "blanks in a value": (b"GET / HTTP/1.1\r\nA:", b" \t"),
    "requests": (b"", b"GET / HTTP/1.1\r\n\r\n"),
    "empty lines": (b"", b"\r\n"),
    "pings": (request(), frame(b"", 0x89)),
    "empty messages": (request(), frame(b"")),
    "parts of a message": (request() + frame(b"", 0x02), frame(b"", 0x00)),
}


@pytest.mark.parametrize("name", WORST)
def test_no_read_blocks_the_loop_for_long(name: str) -> None:
    """Others wait for no more than a tenth of a second, and usually for a few milliseconds."""
    begin, shortest = WORST[name]

    def slowest() -> float:
        longest = 0.0
        with connected() as peer:
            peer.send(begin)
            peer.loop.run_tick()
            for _ in range(4):
                size = len(memoryview(peer.transport.protocol.get_buffer(-1)))
                data = (shortest * size)[:size]
                before = time.process_time()
                peer.send(data)
                longest = max(longest, time.process_time() - before)
                peer.loop.run_tick()
        return longest

    assert min(slowest() for _ in range(3)) < 0.1


def test_over_tls_the_end_follows_a_quiet_second() -> None:
    with connected(is_tls=True) as peer:
        peer.send(b"nonsense\r\n\r\n")
        peer.loop.run_tick(0.9)
        assert not peer.transport.closing
        peer.loop.run_tick(0.2)

        assert peer.transport.closing
