"""NATS over WebSocket: requests, frames and endings, as the reference server takes them."""

# Subject: WebSocket

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from core.auth.users import User, Users
from core.protocol.upgrade import WebSocketOptions
from core.pubsub.limits import Limits
from core.units import Seconds
from tests.support.at_once import at_once
from tests.support.core_server import CoreServer
from tests.support.late import Watch, unless_late
from tests.support.natsserver import NatsServer
from tests.support.websocket import WebSocket, deflate, frame, request
from tests.support.wire import Wire

Address = tuple[str, int]
_HELLO = b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n'
_MAX = 4096
_ORIGINS = '["http://page.example", "https://other.example:444"]'


class Pair:
    """Both servers, with the same options."""

    def __init__(self, ours: CoreServer, theirs: NatsServer) -> None:
        self.websocket = (ours.websocket, _websocket(theirs))
        self.tcp = (ours.address, theirs.address)


def _websocket(server: NatsServer) -> Address:
    ports = json.loads((server.dir / f"nats-server_{server.pid}.ports").read_text())
    return ("127.0.0.1", int(ports["websocket"][0].rsplit(":", 1)[1]))


def _reference(options: str) -> NatsServer:
    text = f"{{ host: 127.0.0.1, port: -1, no_tls: true {options} }}"
    return NatsServer({"max_payload": _MAX, "websocket": text})


@pytest.fixture(scope="module")
def plain() -> Iterator[Pair]:
    with CoreServer(Limits(max_payload=_MAX)) as ours, _reference("") as theirs:
        yield Pair(ours, theirs)


@pytest.fixture(scope="module")
def deflating() -> Iterator[Pair]:
    ours = CoreServer(Limits(max_payload=_MAX), websocket=WebSocketOptions(compression=True))
    with ours, _reference(", compression: true") as theirs:
        yield Pair(ours, theirs)


def _ask(address: Address, data: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    with WebSocket(address) as web:
        lines = web.ask(data).split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
        kept = [b"upgrade", b"sec-websocket-accept", b"sec-websocket-extensions"]
        kept += [b"sec-websocket-version", b"nats-no-masking", b"content-type"]
        return lines[0], {name: headers[name] for name in kept if name in headers}


_REQUESTS = {
    "plain": request(),
    "any path": request(first="GET /any/path?x=y HTTP/1.1"),
    "post": request(first="POST / HTTP/1.1"),
    "post without upgrade": b"POST / HTTP/1.1\r\nHost: h\r\n\r\n",
    "mqtt": request(first="GET /a/mqtt HTTP/1.1"),
    "no upgrade": request({"Upgrade": None}),
    "upgrade in a list": request({"Upgrade": "h2c,  WebSocket"}),
    "other upgrade": request({"Upgrade": "websockets"}),
    "no connection": request({"Connection": None}),
    "no key": request({"Sec-WebSocket-Key": None}),
    "short key": request({"Sec-WebSocket-Key": "AAAA"}),
    "odd key": request({"Sec-WebSocket-Key": "????????????????????????"}),
    "two keys": request({"sec-websocket-key": "BBBB"}),
    "two keys, the bad one first": request({"Sec-WebSocket-Key": "BBBB", "sec-websocket-KEY": "A"}),
    "no version": request({"Sec-WebSocket-Version": None}),
    "version 12": request({"Sec-WebSocket-Version": "12"}),
    "versions": request({"Sec-WebSocket-Version": "8, 13"}),
    "no masking": request({"Nats-No-Masking": "true"}),
    "no masking, said otherwise": request({"Nats-No-Masking": "yes"}),
    "deflate": request({"Sec-WebSocket-Extensions": "x; a, permessage-deflate; b=1"}),
    "other extension": request({"Sec-WebSocket-Extensions": "permessage-deflates"}),
    "any origin": request({"Origin": "http://evil.example"}),
    "HTTP/1.0": request(first="GET / HTTP/1.0"),
    "HTTP/1.0 without host": request({"Host": None}, first="GET / HTTP/1.0"),
}


@pytest.mark.parametrize("name", _REQUESTS)
@pytest.mark.parametrize("bed", ["plain", "deflating"])
def test_requests(bed: str, name: str, request: pytest.FixtureRequest) -> None:
    pair: Pair = request.getfixturevalue(bed)
    ours, theirs = (_ask(address, _REQUESTS[name]) for address in pair.websocket)
    assert (ours[0][8:], ours[1]) == (theirs[0][8:], theirs[1])  # answers of 1.0 apart


@pytest.mark.parametrize(
    "data",
    [
        request({"Host": None}),
        request(first="GET  HTTP/1.1"),
        b"garbage\r\n\r\n",
        request({"bad header": "x"}),
        request({"x": "a" * 2_000_000}),
        request(first="GET / HTTP/2.7"),
    ],
    ids=["no host", "no target", "garbage", "bad header", "large", "version"],
)
def test_malformed_requests(plain: Pair, data: bytes) -> None:
    """The statuses agree; the reference's HTTP library words some of the phrases."""
    status = []
    for address in plain.websocket:
        with WebSocket(address) as web:
            status.append(web.ask(data)[:12])
    assert status[0] == status[1]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"Origin": "http://page.example"},
        {"Origin": "http://page.example:80"},
        {"Origin": "https://page.example"},
        {"Origin": "https://other.example:444"},
        {"Origin": "https://other.example"},
        {"Origin": "http://localhost"},
        {"Origin": "null"},
        {"Origin": "http://PAGE.example", "Host": "page.EXAMPLE:80"},
        {"Origin": "http://page.example", "Host": "page.example:81"},
        {"Sec-WebSocket-Origin": "http://evil.example"},
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_origins(origins: dict[bool, Pair], same: bool, more: dict[str, str | None]) -> None:
    ours, theirs = (_ask(address, request(more)) for address in origins[same].websocket)
    assert ours == theirs


@pytest.fixture(scope="module")
def origins() -> Iterator[dict[bool, Pair]]:
    allowed = ("http://page.example", "https://other.example:444")
    with (
        CoreServer(websocket=WebSocketOptions(allowed_origins=allowed)) as some,
        CoreServer(websocket=WebSocketOptions(same_origin=True)) as same,
        _reference(f", allowed_origins: {_ORIGINS}") as some_reference,
        _reference(", same_origin: true") as same_reference,
    ):
        yield {False: Pair(some, some_reference), True: Pair(same, same_reference)}


_CONNECT = frame(_HELLO)
_FRAMES: dict[str, bytes] = {
    "binary": frame(_HELLO),
    "text": frame(_HELLO, 0x81),
    "text that is no UTF-8": frame(_HELLO + b"PUB a 2\r\n\xff\xfe\r\nPING\r\n", 0x81),
    "two frames in one read": frame(_HELLO) + frame(b"PING\r\n"),
    "one line in three messages": frame(_HELLO[:9]) + frame(_HELLO[9:20]) + frame(_HELLO[20:]),
    "fragments": frame(_HELLO[:9], 0x02) + frame(_HELLO[9:20], 0x00) + frame(_HELLO[20:], 0x80),
    "empty fragments": frame(b"", 0x01) + frame(b"", 0x00) + frame(_HELLO, 0x80),
    "ping between fragments": frame(_HELLO[:9], 0x02) + frame(b"x", 0x89) + frame(_HELLO[9:], 0x80),
    "ping": frame(b"payload", 0x89) + _CONNECT,
    "empty ping": frame(b"", 0x89) + _CONNECT,
    "pong": frame(b"x", 0x8A) + _CONNECT,
    "size in 16 bits": frame(_HELLO, form=126),
    "size in 64 bits": frame(_HELLO, form=127),
    "unmasked": frame(_HELLO, key=None),
    "RSV1": frame(_HELLO, 0xC2),
    "RSV2": frame(_HELLO, 0xA2),
    "RSV3": frame(_HELLO, 0x92),
    "opcode 3": frame(_HELLO, 0x83),
    "opcode 11": frame(_HELLO, 0x8B),
    "ping of 126": frame(b"x" * 126, 0x89),
    "ping of 125": frame(b"x" * 125, 0x89) + _CONNECT,
    "ping in fragments": frame(b"x", 0x09),
    "compressed ping": frame(b"x", 0xC9),
    "continuation of nothing": frame(_HELLO, 0x80),
    "message in a message": frame(_HELLO[:9], 0x02) + frame(_HELLO[9:], 0x82),
    "compressed continuation": frame(_HELLO[:9], 0x02) + frame(_HELLO[9:], 0xC0),
    "size with the top bit": frame(_HELLO, size=1 << 63, form=127),
    "size of 2^62": frame(_HELLO, size=1 << 62, form=127),
    "close": _CONNECT + frame(b"\x03\xe8bye", 0x88),
    "close without a code": _CONNECT + frame(b"", 0x88),
    "close of one byte": _CONNECT + frame(b"\x03", 0x88),
    "close with 1005": _CONNECT + frame(b"\x03\xed", 0x88),
    "close with 999": _CONNECT + frame(b"\x03\xe7", 0x88),
    "close with 3000": _CONNECT + frame(b"\x0b\xb8", 0x88),
    "close with 2000": _CONNECT + frame(b"\x07\xd0", 0x88),
    "close with bad UTF-8": _CONNECT + frame(b"\x03\xe8\xff", 0x88),
    "data after close": _CONNECT + frame(b"\x03\xe8", 0x88) + frame(b"PING\r\n"),
    "data, then an error": _CONNECT + frame(b"PING\r\n", key=None),
    "large payload": _CONNECT + frame(b"PUB a 5000\r\n"),
    "long line": frame(b"PUB " + b"x" * 5000),
    "unknown verb": frame(b"HELLO\r\n"),
    "bad connect": frame(b"CONNECT {\r\n"),
    "compressed": frame(deflate(_HELLO), 0xC2),
    "compressed in pieces": frame(deflate(_HELLO)[:5], 0x42) + frame(deflate(_HELLO)[5:], 0x80),
    "empty compressed": frame(b"\x00", 0xC2) + _CONNECT,
    "not compressed after all": frame(b"\xff\xff\xff\xff", 0xC2),
    "a bomb": frame(deflate(b"+OK\r\n" * 100_000), 0xC2),
    "compressed, too much on the wire": frame(b"\x00" * (8 * _MAX + 100), 0xC2),
    "compressed, too much in pieces": b"".join(
        frame(b"\x00" * 4000, 0x42 if n == 0 else 0x00) for n in range(10)
    ),
}


_CODE = {
    "RSV1": 1001,
    "close with bad UTF-8": 1007,
    "not compressed after all": 1001,
    "a bomb": 1009,
    "compressed, too much on the wire": 1009,
    "compressed, too much in pieces": 1009,
    "long line": 1008,
    "large payload": 1009,
    "close": 1000,
    "close with 3000": 3000,
    "data after close": 1000,
}


_DEFLATED = {name for name, data in _FRAMES.items() if data[0] & 0x40}


def _conversation(
    address: Address, more: dict[str, str | None], data: bytes, quiet: float
) -> list[Any]:
    """What a server says to some frames: payloads joined, control frames, and the end.

    `quiet` seconds without a word count as the end of what it has to say.
    """
    log: list[Any] = []
    with WebSocket(address) as web:
        web.open(more)
        web.send(data)
        web.sock.settimeout(quiet)
        try:
            while True:
                got = web.frame()
                payload = re.sub(rb"INFO .*\r\n|PING\r\n", b"", got.payload)
                if got.first & 0x0F in (0, 2):
                    if log and isinstance(log[-1], bytes):
                        log[-1] += payload
                    elif payload:
                        log.append(payload)
                else:
                    log.append((got.first, payload))
        except ConnectionError:
            log.append("closed")
        except TimeoutError:
            log.append("open")
    pings = [entry for entry in log if isinstance(entry, bytes)]
    return [b"".join(pings)] + [entry for entry in log if not isinstance(entry, bytes)]


@pytest.mark.parametrize(
    ("bed", "name"),
    [("plain", name) for name in _FRAMES]
    + [("deflating", name) for name in ("binary", "fragments", "close", *sorted(_DEFLATED))],
)
def test_frames(bed: str, name: str, request: pytest.FixtureRequest) -> None:
    pair: Pair = request.getfixturevalue(bed)
    more: dict[str, str | None] = {}
    if bed == "deflating":
        more = {"Sec-WebSocket-Extensions": "permessage-deflate"}
    code = 1002 if bed == "plain" and name in _DEFLATED else _CODE.get(name, 1002)

    def agree(quiet: float) -> None:
        ours, theirs = at_once(
            lambda at: _conversation(at, more, _FRAMES[name], quiet), pair.websocket
        )
        if theirs[1:] == ["closed"]:
            # The reference drops what it has yet to write, its close frame with it; here it is
            # sent.
            assert ours[0].startswith(theirs[0])
            (first, payload), end = ours[-2:] if len(ours) > 2 else ((0, b""), "")
            assert (first, int.from_bytes(payload[:2], "big"), end) == (0x88, code, "closed")
        else:
            assert ours == theirs

    try:
        agree(0.4)
    except AssertionError:
        agree(4)  # on a busy machine one of them may need longer


def test_tcp_and_websocket_clients_exchange_messages(deflating: Pair) -> None:
    """Small and large frames, in both directions, with and without compression."""
    text = b"PUB to.tcp 4000\r\n" + b"x" * 4000 + b"\r\n"
    for address, tcp in zip(deflating.websocket, deflating.tcp, strict=True):
        for more in ({}, {"Sec-WebSocket-Extensions": "permessage-deflate"}):
            with WebSocket(address) as web, Wire(tcp) as wire:
                web.open(more)
                web.send(frame(_HELLO + b"SUB to.web 1\r\nPING\r\n"))
                assert web.data(b"PONG\r\nPONG\r\n")
                wire.hello()
                wire.send(b"SUB to.tcp 1\r\n")
                wire.flush()
                for at in range(0, len(text), 999):
                    web.send(frame(text[at : at + 999]))
                assert wire.frame().payload == b"x" * 4000
                payload = bytes(range(256)) * 15
                wire.publish("to.web", payload)
                assert web.data(payload + b"\r\n") == b"MSG to.web 1 3840\r\n" + payload + b"\r\n"


def test_a_flood_of_compressed_messages_is_read_in_pieces(deflating: Pair) -> None:
    """Far more than one read inflates to: everything arrives once and in order."""
    count, ours = 3000, deflating.websocket[0]
    with WebSocket(ours, timeout=60) as web, Wire(deflating.tcp[0], timeout=60) as wire:
        web.open({"Sec-WebSocket-Extensions": "permessage-deflate"})
        wire.hello()
        wire.send(b"SUB flood 1\r\n")
        wire.flush()
        parts = [b"PUB flood 4000\r\n%04d%b\r\n" % (n, b"x" * 3996) for n in range(count)]
        text = b"".join(parts)
        pieces = [text[at : at + 4000] for at in range(0, len(text), 4000)]
        web.send(frame(_HELLO) + b"".join(frame(deflate(piece), 0xC2) for piece in pieces))
        assert [int(wire.frame().payload[:4]) for _ in range(count)] == list(range(count))


@pytest.mark.parametrize(
    ("agent", "deflate_offered"),
    [
        ("Mozilla/5.0 Chrome/1", False),
        ("Mozilla/5.0 Chrome/1", True),
        ("Mozilla/5.0 Version/17 Safari/605", True),
        ("curl/8", False),
    ],
)
def test_browsers_get_small_frames(deflating: Pair, agent: str, deflate_offered: bool) -> None:
    more: dict[str, str | None] = {"User-Agent": agent}
    if deflate_offered:
        more["Sec-WebSocket-Extensions"] = "permessage-deflate"
    noise = random.Random(1).randbytes(4000)
    for address, tcp in zip(deflating.websocket, deflating.tcp, strict=True):
        with WebSocket(address) as web, Wire(tcp) as wire:
            web.open(more)
            web.send(frame(_HELLO + b"SUB a 1\r\nPING\r\n"))
            web.data(b"PONG\r\nPONG\r\n")
            wire.hello()
            wire.send(b"PUB a 4000\r\n%b\r\n" % noise * 4)
            wire.flush()
            web.sizes.clear()
            got = web.data(noise + b"\r\n")
            assert noise in got
            if "Mozilla" in agent and "Safari" not in agent:
                assert max(web.sizes) <= 4096


def test_where_a_client_comes_from(plain: Pair) -> None:
    for address in plain.websocket:
        for said in ("10.1.2.3", "nonsense"):
            with WebSocket(address) as web:
                web.ask(request({"X-Forwarded-For": said}))
                info = json.loads(web.frame().payload.removeprefix(b"INFO "))
                assert info["client_ip"] == "127.0.0.1", "INFO shows the socket's address"
                assert info["port"] == address[1]


def test_endings_have_codes() -> None:
    users = Users(users=(User("a", "a"),), timeout=Seconds(0.3))
    theirs = NatsServer(
        {
            "authorization": "{ timeout: 0.3, users: [{user: a, password: a}] }",
            "websocket": "{ host: 127.0.0.1, port: -1, no_tls: true }",
        }
    )

    def attempt(watch: Watch) -> None:
        seen: list[list[Any]] = []
        for address in (ours.websocket, _websocket(theirs)):
            seen.append([])
            for data in (b"", b'CONNECT {"user":"a"}\r\n', b"PING\r\n"):
                with WebSocket(address) as web:
                    with watch.within(0.25):
                        web.open()
                        web.send(frame(data))
                    seen[-1] += [web.frame(), web.frame()]
        assert seen[0] == seen[1]
        assert seen[0][1].payload == b"\x03\xf0Authentication Timeout"

    with CoreServer(users=users) as ours, theirs:
        unless_late(attempt)


def test_an_ending_server_announces_it() -> None:
    with CoreServer() as ours, WebSocket(ours.websocket) as web:
        web.open()
        ours.stop()
        assert web.frame().payload == b"\x03\xe9Server Shutdown"


def test_a_user_may_be_bound_to_a_kind_of_connection() -> None:
    users = Users(users=(User("t", "p", connection_types=frozenset(("STANDARD",))),))
    line = b'CONNECT {"user":"t","pass":"p","verbose":false}\r\nPING\r\n'
    with CoreServer(users=users) as ours:
        with Wire(ours.address) as wire:
            wire.frame()
            wire.send(line)
            assert wire.frame().line == b"PONG"
        with WebSocket(ours.websocket) as web:
            web.open()
            web.send(frame(line))
            assert web.frame().payload == b"-ERR 'Authorization Violation'\r\n"


def test_a_client_that_pings_without_reading_is_disconnected() -> None:
    limits = Limits(max_pending=200_000)
    with CoreServer(limits) as ours, WebSocket(ours.websocket) as web:
        web.open()
        web.sock.settimeout(20)
        flood = frame(b"x" * 125, 0x89) * 2000
        for _ in range(400):
            web.send(flood)
            if ours.call(lambda: ours.hub.slow_consumers):
                break
        assert ours.call(lambda: ours.hub.slow_consumers) == 1


def test_a_client_that_never_asks_is_dropped() -> None:
    options = WebSocketOptions(handshake_timeout=Seconds(0.1))
    with CoreServer(websocket=options) as ours, WebSocket(ours.websocket) as web:
        web.send(b"GET / HTTP/1.1\r\n")
        assert web.rest() == b""
        assert web.is_closed


def test_frames_before_the_answer_close_the_connection(plain: Pair) -> None:
    for address in plain.websocket:
        with WebSocket(address) as web:
            web.send(request() + frame(_HELLO))
            assert web.rest() == b""
            assert web.is_closed
