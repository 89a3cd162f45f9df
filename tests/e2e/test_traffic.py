"""What connz and varz count of messages, on both servers: headers and payloads, in and out."""

# Subject: monitoring

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.dropin import DropIn
from tests.support.eventually import eventually
from tests.support.wire import Frame, Wire

PLAIN = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"name":"%b"}\r\n'
WITHOUT_HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"name":"%b"}\r\n'
BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"
FIELDS = ("in_msgs", "in_bytes", "out_msgs", "out_bytes")


@pytest.fixture
def server(name: str, tmp_path: Path) -> Iterator[DropIn]:
    flags = ("-a", "127.0.0.1", "-p", "-1", "-m", "-1", "-js", "-sd", str(tmp_path))
    with DropIn(name, *flags) as started:
        yield started


def connected(server: DropIn, name: bytes, connect: bytes = PLAIN) -> Wire:
    wire = Wire(server.address)
    wire.hello(connect % name)
    return wire


def counted(server: DropIn, name: str) -> tuple[int, ...]:
    connections = server.page("/connz")["connections"]
    [shown] = [each for each in connections if each.get("name") == name]
    return tuple(shown[field] for field in FIELDS)


def size_of(frames: list[Frame]) -> tuple[int, int]:
    """How many messages these are, and the bytes of their headers and payloads."""
    messages = [frame for frame in frames if frame.verb in (b"MSG", b"HMSG")]
    return len(messages), sum(len(frame.headers) + len(frame.payload) for frame in messages)


def received(wire: Wire, count: int) -> list[Frame]:
    """The next messages."""
    return [wire.frame() for _ in range(count)]


def test_core_messages_are_counted_by_their_headers_and_payloads(server: DropIn) -> None:
    with connected(server, b"to") as to, connected(server, b"from") as source:
        to.send(b"SUB one 1\r\nSUB many.* 2\r\nSUB many.> 3\r\n")
        to.send(b"SUB shared q 4\r\nSUB few 5\r\nUNSUB 5 2\r\n")
        to.flush()
        for size in range(30):
            source.publish("one", b"x" * size, headers=BLOCK if size % 3 else b"")
            source.publish("many.x", b"y" * size, reply=b"r", headers=BLOCK if size % 2 else b"")
        source.send(b"PUB one 200\r\n%b\r\n" % (b"z" * 200) * 100)
        source.send(b"PUB many.y 7\r\n1234567\r\n" * 100)
        for _ in range(3):
            source.publish("shared", b"abc", headers=BLOCK)
            source.publish("few", b"abcd")
            source.publish("nobody", b"abcde")
        assert source.flush() == []
        frames = received(to, 30 + 60 + 100 + 200 + 3 + 2)

        assert counted(server, "to") == (0, 0, *size_of(frames))
        sizes = sum(range(30)) * 2 + (20 + 15) * len(BLOCK) + 20000 + 700 + 3 * (12 + len(BLOCK))
        assert counted(server, "from") == (60 + 200 + 9, sizes, 0, 0)


def test_messages_to_a_client_without_headers_count_without_them(server: DropIn) -> None:
    with connected(server, b"to", WITHOUT_HEADERS) as to, connected(server, b"from") as source:
        to.send(b"SUB foo 1\r\n")
        to.flush()
        before = server.page("/varz")
        source.publish("foo", b"abc", headers=BLOCK)
        source.flush()
        assert received(to, 1)[0].payload == b"abc"

        assert counted(server, "to") == (0, 0, 1, 3)
        after = server.page("/varz")
        assert after["in_bytes"] - before["in_bytes"] == 3 + len(BLOCK)
        assert after["out_bytes"] - before["out_bytes"] == 3 + len(BLOCK)  # as the reference has it


def test_jetstream_counts_what_it_sends(server: DropIn) -> None:
    config = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
    with connected(server, b"admin") as admin, connected(server, b"client") as client:
        assert "error" not in admin.api("STREAM.CREATE.S", config)
        for name in ("plain", "headers"):
            consumer: dict[str, Any] = {"name": name, "ack_policy": "none", "durable_name": name}
            consumer["headers_only"] = name == "headers"
            asked = {"stream_name": "S", "config": consumer}
            assert "error" not in admin.api(f"CONSUMER.CREATE.S.{name}", asked)
        client.send(b"SUB in.* 1\r\nSUB alone 2\r\n")
        frames = []
        for count, reply in ((40, b"in.%d"), (3, b"in.x%d"), (1, b"alone")):
            for number in range(count):
                headers = BLOCK if number % 4 == 0 else b""
                client.publish(
                    f"s.{number % 3}",
                    b"x" * number,
                    reply=reply % number if b"%" in reply else reply,
                    headers=headers,
                )
            frames += received(client, count)
        for name in ("plain", "headers"):
            request = json.dumps({"batch": 44, "expires": 30_000_000_000}).encode()
            client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", request, reply=b"in.next")
            frames += received(client, 44)
        for body in (b"", b"", b'{"no_hdr":true}'):
            client.publish("$JS.API.DIRECT.GET.S.s.1", body, reply=b"in.get")
            frames += received(client, 1)
        client.publish("$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":5}', reply=b"in.batch")
        frames += received(client, 6)
        client.publish("$JS.API.DIRECT.GET.S", b'{"seq":2}', reply=b"in.get")
        frames += received(client, 1)

        assert counted(server, "client")[2:] == size_of(frames)


def test_a_closed_connection_keeps_its_counts(server: DropIn) -> None:
    with connected(server, b"gone") as client:
        client.send(
            b"SUB foo 1\r\nPUB foo 5\r\nhello\r\nUNSUB 1\r\nSUB foo 2\r\nPUB foo 2\r\nhi\r\n"
        )
        assert size_of(client.flush()) == (2, 7)

    def closed() -> list[dict[str, Any]]:
        return list(server.page("/connz?state=closed")["connections"])

    [shown] = eventually(closed)
    assert tuple(shown[field] for field in FIELDS) == (2, 7, 2, 7)
    assert tuple(server.page("/varz")[field] for field in FIELDS) == (2, 7, 2, 7)


def test_a_connection_that_closed_while_the_server_started_is_shown(server: DropIn) -> None:
    with connected(server, b"early") as client:  # as soon as it listens: streams are yet to load
        client.send(b"SUB foo 1\r\n")
        client.flush()

    def closed() -> list[str]:
        found = server.page("/connz?state=closed")["connections"]
        return [each.get("name", "") for each in found]

    assert eventually(closed) == ["early"]
