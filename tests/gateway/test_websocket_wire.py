"""WebSocket, byte by byte: handshakes that are none, and frames that cannot be (RFC 6455)."""

# Subject: HTTP, feeds

import contextlib
import socket
import struct
import zlib
from base64 import b64encode

import pytest

from tests.gateway.web import Web

HEAD = {
    "Host": "localhost",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": b64encode(b"sixteen bytes ..").decode(),
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "js.v1.json",
}
KEY = HEAD["Sec-WebSocket-Key"]
MASK = b"\x00\x00\x00\x00"


def _handshake(*more: str, path: str = "/v1/ws", without: str = "", **changed: str) -> bytes:
    head = HEAD | {name.replace("_", "-"): value for name, value in changed.items()}
    lines = [f"{name}: {value}" for name, value in head.items() if name != without]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, *more, "", ""]).encode()


HANDSHAKES: dict[str, tuple[bytes, int]] = {
    "as it should be": (_handshake(), 101),
    "any case": (_handshake(Upgrade="WebSocket", Connection="keep-alive, upgrade"), 101),
    "no key": (_handshake(without="Sec-WebSocket-Key"), 426),
    "empty key": (_handshake(Sec_WebSocket_Key=""), 400),
    "short key": (_handshake(Sec_WebSocket_Key="c2hvcnQ="), 400),
    "long key": (_handshake(Sec_WebSocket_Key=b64encode(b"x" * 17).decode()), 400),
    "key that is not base64": (_handshake(Sec_WebSocket_Key="%" * 24), 400),
    "two keys": (_handshake(f"Sec-WebSocket-Key: {KEY}"), 400),
    "no version": (_handshake(without="Sec-WebSocket-Version"), 400),
    "another version": (_handshake(Sec_WebSocket_Version="8"), 426),
    "two versions": (_handshake("Sec-WebSocket-Version: 13"), 400),
    "another protocol": (_handshake(Upgrade="h2c"), 426),
    "no upgrade": (_handshake(without="Upgrade"), 426),
    "no connection": (_handshake(without="Connection"), 426),
    "post": (_handshake().replace(b"GET ", b"POST "), 405),
    "http/1.0": (_handshake().replace(b"HTTP/1.1", b"HTTP/1.0"), 426),
    "another path": (_handshake(path="/v1/streams/S/tail"), 404),
    "no such path": (_handshake(path="/v1/ws/"), 404),
    "path encoded twice": (_handshake(path="/v1%252Fws"), 404),
    "unknown sub-protocol": (_handshake(Sec_WebSocket_Protocol="mqtt"), 400),
    "page of another site": (_handshake("Origin: http://evil.example"), 403),
    "page that has no origin": (_handshake("Origin: null"), 403),
    "two origins": (_handshake("Origin: http://localhost", "Origin: http://evil.example"), 400),
    "page of this server": (_handshake("Origin: http://localhost"), 101),
}


@pytest.mark.parametrize("case", HANDSHAKES)
def test_handshakes(web: Web, case: str) -> None:
    sent, expected = HANDSHAKES[case]
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(sent)
        received = caller.recv(65536)

    assert received.startswith(b"HTTP/1.1 %d " % expected), received
    if expected == 426:
        assert b"upgrade: websocket" in received.lower()
        assert b"sec-websocket-version: 13" in received.lower()


def _frame(first: int, payload: bytes = b"", *, masked: bool = True, size: int = -1) -> bytes:
    """A frame; `size` is the length that it says, where that is another."""
    length = len(payload) if size < 0 else size
    bit = 0x80 if masked else 0
    if length < 126:
        head = bytes((first, bit | length))
    elif length < 65536:
        head = bytes((first, bit | 126)) + struct.pack(">H", length)
    else:
        head = bytes((first, bit | 127)) + struct.pack(">Q", length)
    return head + (MASK if masked else b"") + payload


TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A
PARSED = b'{"type":"ping","id":1}'
BOMB = zlib.compress(b" " * 10_000_000)[2:-4]
FRAMES: dict[str, tuple[bytes, int]] = {
    "not masked": (_frame(TEXT, PARSED, masked=False), 1002),
    "a reserved bit": (_frame(TEXT | 0x10, PARSED), 1002),
    "compressed, which was not agreed on": (_frame(TEXT | 0x40, BOMB), 1002),
    "a reserved opcode of data": (_frame(0x83), 1002),
    "a reserved opcode of control": (_frame(0x8B), 1002),
    "a long ping": (_frame(PING, b"x" * 126), 1002),
    "a ping in pieces": (_frame(PING & 0x7F, b"x"), 1002),
    "a continuation of nothing": (_frame(0x80, b"x"), 1002),
    "a text within a text": (_frame(0x01, b"x") + _frame(TEXT, b"y"), 1002),
    "a length with the highest bit": (_frame(TEXT, size=2**63), 1009),
    "a length of 2^62": (_frame(TEXT, size=2**62), 1009),
    "a length just over the limit": (_frame(TEXT, size=2 * 1024 * 1024 + 1), 1009),
    "pieces over the limit": (_frame(0x01, b" " * 2**20) + _frame(0, b" " * 2**20) * 2, 1009),
    "not utf-8": (_frame(TEXT, b"\xff"), 1007),
    "half a character": (_frame(TEXT, b'"\xc3'), 1007),
    "a surrogate": (_frame(TEXT, b'"\xed\xa0\x80"'), 1007),
    "a close of one byte": (_frame(CLOSE, b"\x03"), 1002),
    "a close that cannot be sent": (_frame(CLOSE, struct.pack(">H", 1005)), 1002),
    "a close whose reason is not utf-8": (_frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "a close": (_frame(CLOSE, b"\x03\xe8"), 1000),
    "data after a close": (_frame(CLOSE, b"\x03\xe8") + _frame(TEXT, PARSED), 1000),
}


def _exchange(web: Web, sent: bytes, until: bytes = b"") -> bytes:
    """What the server sends after the handshake, until it closes; `until` what we close then."""
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(_handshake())
        received = b""
        while b'"welcome"' not in received:
            received += caller.recv(65536)
        _, _, received = received.partition(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # it may close before the end
            caller.sendall(sent)
        while until and until not in received:
            more = caller.recv(65536)
            assert more, received
            received += more
        if until:
            caller.sendall(_frame(CLOSE, b"\x03\xe8"))
        with contextlib.suppress(ConnectionError):
            while more := caller.recv(65536):
                received += more
    return received


def _frames(received: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while received:
        size, start = received[1], 2
        if size == 126:
            size, start = struct.unpack(">H", received[2:4])[0], 4
        assert size < 126 or start == 4
        found.append((received[0], received[start : start + size]))
        received = received[start + size :]
    return found


@pytest.mark.parametrize("case", FRAMES)
def test_frames_that_cannot_be_end_the_connection(
    web: Web, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And write nothing into the log, which anybody could fill with them."""
    sent, expected = FRAMES[case]

    (_, welcome), *others = _frames(_exchange(web, sent))

    assert b"welcome" in welcome
    assert [opcode for opcode, _ in others] == [CLOSE], others
    assert struct.unpack(">H", others[0][1][:2])[0] == expected
    assert caplog.records == []


def test_the_close_code_of_a_large_frame_reaches_its_sender(web: Web) -> None:
    """Not a byte is answered by a reset, which could overtake the close frame."""
    with socket.create_connection(web.address, timeout=30) as caller:
        caller.sendall(_handshake())
        received = b""
        while b'"welcome"' not in received:
            received += caller.recv(65536)
        caller.sendall(_frame(TEXT, b" " * 2**23))
        closed = b""
        while more := caller.recv(65536):
            closed += more
    ((opcode, payload),) = _frames(closed)
    assert opcode == CLOSE
    assert struct.unpack(">H", payload[:2])[0] == 1009


def test_a_flood_of_pings_is_answered_and_ends_nothing(web: Web) -> None:
    pings = b"".join(_frame(PING, b"%d" % number) for number in range(2000))
    sent = pings + _frame(PONG, b"unasked") + _frame(TEXT, PARSED)

    frames = _frames(_exchange(web, sent, until=b'"pong"'))[1:]

    pongs = [payload for opcode, payload in frames if opcode == PONG]
    assert pongs == sorted(pongs, key=int)
    assert pongs[-1] == b"1999"
    assert [payload for opcode, payload in frames if opcode == TEXT] == [b'{"type":"pong","id":1}']
    assert frames[-1][0] == CLOSE


def test_a_connection_that_breaks_in_a_frame_delays_no_other(web: Web) -> None:
    whole = _frame(0x01, PARSED[:5]) + _frame(PING, b"p") + _frame(0x80, PARSED[5:])
    for place in range(1, len(whole)):
        with socket.create_connection(web.address, timeout=30) as caller:
            caller.sendall(_handshake() + whole[:place])

    answer = _frames(_exchange(web, whole, until=b'"pong"'))

    assert [opcode for opcode, _ in answer] == [TEXT, PONG, TEXT, CLOSE]
    assert answer[2][1] == b'{"type":"pong","id":1}'
