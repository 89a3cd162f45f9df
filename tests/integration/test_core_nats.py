"""Core NATS over sockets: the reference server and jetgate give the same answers.

Table-driven: the same bytes go to both and the answers are compared. What depends on time, on
chance or on a configuration follows below and runs against each server on its own.
"""

# Subject: protocol, slow consumers

import json
import re
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import nats
import pytest
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg

from core.pubsub.limits import Limits
from tests.support.best import slowness
from tests.support.core_server import CoreServer
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Wire

HELLO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
PROTO_1 = HELLO.replace(b"{", b'{"protocol":1,')
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false,"headers":true,"no_responders":true}\r\n'
STRICT = b'CONNECT {"verbose":false,"pedantic":true}\r\n'
NO_ECHO = HELLO.replace(b"{", b'{"echo":false,')
BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"

Server = CoreServer | NatsServer


@pytest.fixture(scope="module")
def ours() -> Iterator[CoreServer]:
    with CoreServer() as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture(params=["jetgate", "nats-server"])
def core(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue("ours" if request.param == "jetgate" else "theirs")
    return server


@pytest.fixture(params=["jetgate", "nats-server"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def configured(kind: str, **options: Any) -> AbstractContextManager[Server]:
    """A server of its own with other limits; times in seconds."""
    if kind == "jetgate":
        return CoreServer(Limits(**options))
    text = {k: f'"{v}s"' if k.endswith(("interval", "deadline")) else v for k, v in options.items()}
    return NatsServer(dict(text))


def answer(server: Server, sent: bytes, pongs: int) -> bytes:
    """Send bytes; return everything until so many PONGs, or until the end (shown as `<end>`)."""
    with Wire(server.address) as wire:
        wire.frame()
        wire.send(sent)
        wire.sock.settimeout(30)
        output = b""
        while output.count(b"PONG\r\n") < pongs:
            try:
                data = wire.sock.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return _unasked(output) + b"<end>"
            output += data
        return _unasked(output)


def _unasked(output: bytes) -> bytes:
    """The same without the PING of a server that measures the way to a client a second old."""
    return output.replace(b"PING\r\n", b"")


CASES: dict[str, bytes] = {
    # before and around CONNECT
    "ping before connect": b"PING\r\n",
    "everything before connect is verbose": b"SUB a 1\r\nPUB a 2\r\nhi\r\nUNSUB 1\r\nPING\r\n",
    "subscriptions before the first connect stay": b"SUB a 1\r\n"
    b'CONNECT {"verbose":false}\r\nPUB a 1\r\nx\r\nPING\r\n',
    "a second connect drops subscriptions": HELLO + b"SUB a 1\r\nPUB a 1\r\nx\r\n"
    b'CONNECT {"verbose":false}\r\nPUB a 2\r\nhi\r\nPING\r\n',
    "connect without blank": b'CONNECT{"verbose":false}\r\nPING\r\n',
    "connect empty": b"CONNECT\r\nPING\r\n",
    "connect null": b"CONNECT null\r\nPING\r\n",
    "connect list": b"CONNECT []\r\nPING\r\n",
    "connect wrong type": b'CONNECT {"verbose":"x"}\r\nPING\r\n',
    "connect null member": b'CONNECT {"verbose":null,"name":null}\r\nPING\r\n',
    "connect other case": b'CONNECT {"Verbose":false,"lang":"x"}\r\nPING\r\n',
    "connect invalid utf-8": b'CONNECT {"verbose":false,"name":"\xff\xfe"}\r\nPING\r\n',
    "connect equal names": b'CONNECT {"verbose":true,"verbose":false}\r\nPING\r\n',
    "connect nested unknown": b'CONNECT {"verbose":false,"x":{"y":[[1,{}]]}}\r\nPING\r\n',
    "connect chooses account": b'CONNECT {"verbose":false,"account":"x"}\r\nPING\r\n',
    "connect protocol 2": b'CONNECT {"verbose":false,"protocol":2}\r\nPING\r\n',
    "connect protocol float": b'CONNECT {"verbose":false,"protocol":1.0}\r\nPING\r\n',
    "connect no_responders alone": b'CONNECT {"no_responders":true}\r\nPING\r\n',
    "connect trailing": b'CONNECT {"verbose":false} x\r\nPING\r\n',
    "connect too long": b'CONNECT {"name":"' + b"a" * 5000 + b'"}\r\nPING\r\n',
    # verbose and pedantic
    "verbose": VERBOSE + b"SUB a 1\r\nSUB a 1\r\nPUB a 2\r\nhi\r\nUNSUB 1\r\nUNSUB 9\r\nPING\r\n",
    "verbose refusals": VERBOSE + b"SUB a..b 3\r\nPUB a _R_.x 1\r\nx\r\nPUB $NRG.x 1\r\nx\r\n"
    b"SUB r 1\r\nPUB nobody r 1\r\nx\r\nPING\r\n",
    "pedantic": STRICT
    + b"SUB > 1\r\nPUB a.* 2\r\nhi\r\nPUB a..b 1\r\nx\r\nPUB a 1\r\nx\r\nPING\r\n",
    # the grammar
    "empty line": HELLO + b"\r\nPING\r\n",
    "lone line feed": HELLO + b"\nPING\r\n",
    "http": HELLO + b"GET / HTTP/1.1\r\n\r\n",
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "one wrong byte": HELLO + b"G",
    "text after bare verbs": HELLO + b"PINGxx\r\nPONGyy\r\n+OKzz\r\nPING a b\r\n",
    "lower case and tabs": HELLO + b"sub a 1\r\npub a\t 2\nhi\r\nping\n",
    "line feeds only": HELLO + b"SUB a 1\nPUB a 2\n10\r\nPUB a r 2\n10\r\nPING\n",
    "blanks": HELLO + b"PUB " + b" " * 5000 + b"a 1\r\nx\r\nPING\r\n",
    "a very long ping": HELLO + b"PING" + b"x" * 9000 + b"\r\n",
    "message from a client": HELLO + b"MSG a 1 2\r\nhi\r\nPING\r\n",
    "error from a client": HELLO + b"-ERR 'x'\r\nPING\r\n",
    "info from a client": HELLO + b"INFO {}\r\n+OK\r\nPING\r\n",
    "pub without arguments": HELLO + b"PUB\r\nPING\r\n",
    "pub with a blank": HELLO + b"PUB \r\nPING\r\n",
    "pub 1 argument": HELLO + b"PUB a\r\nPING\r\n",
    "pub 4 arguments": HELLO + b"PUB a b c 1\r\nPING\r\n",
    "sub without arguments": HELLO + b"SUB\r\nPING\r\n",
    "sub 1 argument": HELLO + b"SUB a\r\nPING\r\n",
    "sub 4 arguments": HELLO + b"SUB a b c d\r\nPING\r\n",
    "unsub without arguments": HELLO + b"UNSUB\r\nPING\r\n",
    "unsub 3 arguments": HELLO + b"UNSUB 1 2 3\r\nPING\r\n",
    "unsub negative": HELLO + b"SUB a 1\r\nUNSUB 1 -3\r\nPUB a 1\r\nx\r\nPING\r\n",
    # sizes and payloads
    "size plus": HELLO + b"PUB a +5\r\nhello\r\nPING\r\n",
    "size minus": HELLO + b"PUB a -1\r\nPING\r\n",
    "size exponent": HELLO + b"PUB a 1e3\r\nPING\r\n",
    "size hex": HELLO + b"PUB a 0x5\r\nhello\r\nPING\r\n",
    "size underscore": HELLO + b"PUB a 1_0\r\nhellohello\r\nPING\r\n",
    "size huge": HELLO + b"PUB a 99999999999999999999\r\nPING\r\n",
    "size of nine digits": HELLO + b"PUB a 999999999\r\nPING\r\n",
    "size of ten digits": HELLO + b"PUB a 0000000005\r\nhello\r\nPING\r\n",
    "over max_payload": HELLO + b"PUB a 1048577\r\n",
    "headers over max_payload": HELLO + b"HPUB a 12 1048577\r\n",
    "at max_payload": HELLO + b"PUB a 1048576\r\n" + b"x" * 1048576 + b"\r\nPING\r\n",
    "payload longer": HELLO + b"SUB a 1\r\nPUB a 2\r\nhello\r\nPING\r\n",
    "payload shorter": HELLO + b"SUB a 1\r\nPUB a 9\r\nhi\r\nPING\r\n",
    "payload with line feed": HELLO + b"SUB a 1\r\nPUB a 2\r\nhi\nPING\r\n",
    "payload with half an end": HELLO + b"SUB a 1\r\nPUB a 2\r\nhi\rxPING\r\n",
    "empty payload": HELLO + b"SUB a 1\r\nPUB a 0\r\n\r\nPING\r\n",
    "nul and invalid utf-8 payload": HELLO + b"SUB a 1\r\nPUB a 3\r\n\x00\xff\xfe\r\nPING\r\n",
    "control line of 4096": HELLO + b"PUB " + b"a" * 4094 + b" 1\r\nx\r\nPING\r\n",
    "control line of 4097": HELLO + b"PUB " + b"a" * 4095 + b" 1\r\nx\r\nPING\r\n",
    "control line without end": HELLO + b"PUB " + b"a" * 5000,
    # headers
    "headers": HELLO + b"SUB a 1\r\nHPUB a r 18 20\r\n" + BLOCK + b"hi\r\nPING\r\n",
    "empty header block": HELLO + b"SUB a 1\r\nHPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n",
    "header block of nothing": HELLO + b"SUB a 1\r\nHPUB a 0 2\r\nhi\r\nPING\r\n",
    "header block is junk": HELLO + b"SUB a 1\r\nHPUB a 4 6\r\njunkhi\r\nPING\r\n",
    "headers larger than total": HELLO + b"HPUB a 20 10\r\n0123456789\r\nPING\r\n",
    "headers not announced": STRICT + b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n",
    "headers before connect": b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n",
    # subjects
    "publish subjects": HELLO + b"SUB > 1\r\nPUB a..b 1\r\nx\r\nPUB .a 1\r\nx\r\nPUB a. 1\r\nx\r\n"
    b"PUB a.* 1\r\nx\r\nPUB > 1\r\nx\r\nPUB a\0b 1\r\nx\r\nPUB \xff\xfe 1\r\nx\r\nPING\r\n",
    "publish to a wildcard is literal": HELLO
    + b"SUB a.* 1\r\nSUB a.b 2\r\nPUB a.* 1\r\nx\r\nPING\r\n",
    "form feed and vertical tab": HELLO + b"SUB > 1\r\nPUB a\x0bb 1\r\nx\r\nPUB a\x0cb 1\r\ny\r\n"
    b"SUB c\x0cd 2\r\nPUB c\x0cd 1\r\nz\r\nPING\r\n",
    "subscribe subjects": HELLO + b"SUB >.a 1\r\nSUB a.>.b 2\r\nSUB a..b 3\r\nSUB ** 4\r\n"
    b"SUB .a 5\r\nSUB a. 6\r\nSUB \xff 7\r\nPING\r\n",
    "very many tokens": HELLO + b"SUB > 1\r\nPUB " + b"a." * 2000 + b"a 1\r\nx\r\nPING\r\n",
    "reserved": HELLO + b"PUB a _R_.x 1\r\nx\r\nPUB a $JS.ACK.x 1\r\nx\r\nPUB a $GR.x 1\r\nx\r\n"
    b"PUB a _GR_.x 1\r\nx\r\nPUB a _R_x 1\r\nx\r\nPUB a $JS.ACK 1\r\nx\r\nPING\r\n",
    "reserved subjects": HELLO + b"PUB $NRG.x 1\r\nx\r\nPUB $NRG 1\r\nx\r\nSUB a _sys_ 1\r\n"
    b"SUB $SYS.> 2\r\nSUB $NRG.> 3\r\nPUB $SYS.x 1\r\nx\r\nPING\r\n",
    "acks are ordinary to a watcher": HELLO + b"SUB $JS.ACK.> 9\r\nSUB r 1\r\n"
    b"PUB $JS.ACK.S.C.1.1.1.1.0 4\r\n+ACK\r\nPING\r\n",
    # deliveries
    "duplicate sid": HELLO + b"SUB a 1\r\nSUB b 1\r\nPUB b 1\r\nx\r\nPUB a 1\r\ny\r\nPING\r\n",
    "two subscriptions of one connection": HELLO + b"SUB a 1\r\nSUB a 2\r\nUNSUB 1\r\n"
    b"PUB a 1\r\nx\r\nPING\r\n",
    "unsub after more": HELLO + b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nUNSUB 1 3\r\n"
    b"PUB a 1\r\n3\r\nPUB a 1\r\n4\r\nPING\r\n",
    "unsub already reached": HELLO + b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nUNSUB 1 2\r\n"
    b"PUB a 1\r\n3\r\nPING\r\n",
    "unsub in a group": HELLO + b"SUB a q 1\r\nUNSUB 1 2\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\n"
    b"PUB a 1\r\n3\r\nPING\r\n",
    "odd sids": HELLO + b"SUB a sid.with*>\r\nPUB a 1\r\n1\r\nUNSUB sid.with*>\r\nPING\r\n",
    "no echo": NO_ECHO + b"SUB a 1\r\nSUB b q 2\r\nPUB a 1\r\nx\r\nPUB b 1\r\nx\r\nPING\r\n",
    # no responders
    "nobody": HELLO + b"SUB r 1\r\nPUB nobody r 1\r\nx\r\nPUB nobody other 1\r\nx\r\nPING\r\n",
    "nobody and headers": HELLO + b"SUB r 1\r\nHPUB nobody r 18 19\r\n" + BLOCK + b"x\r\nPING\r\n",
    "nobody does not count for unsub": HELLO + b"SUB r 1\r\nUNSUB 1 1\r\nPUB nobody r 1\r\nx\r\n"
    b"PUB nobody r 1\r\nx\r\nPING\r\n",
    "nobody told in a group": HELLO + b"SUB r q 1\r\nPUB nobody r 1\r\nx\r\nPING\r\n",
    "nobody but me without echo": NO_ECHO + b"SUB r 1\r\nSUB a 2\r\nPUB a r 1\r\nx\r\nPING\r\n",
    "nobody on broken subjects": HELLO + b"SUB r.* 1\r\nPUB nobody r.* 1\r\nx\r\n"
    b"PUB x..y r.1 1\r\nx\r\nPING\r\n",
    "nobody takes an ack": HELLO + b"SUB r 9\r\nPUB $JS.ACK.S.C.1.1.1.1.0 r 4\r\n+ACK\r\nPING\r\n",
    "nobody not asked for": STRICT + b"SUB r 1\r\nPUB nobody r 1\r\nx\r\nPING\r\n",
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bytes_get_the_same_answer(
    ours: CoreServer, theirs: NatsServer, name: str
) -> None:
    sent = CASES[name]
    pongs = len(re.findall(rb"(?im)^ping", sent)) or 99

    assert answer(ours, sent, pongs) == answer(theirs, sent, pongs)


@pytest.mark.parametrize("name", ["verbose", "headers", "line feeds only", "publish subjects"])
def test_the_answer_does_not_depend_on_how_the_bytes_are_divided(
    ours: CoreServer, name: str
) -> None:
    whole = answer(ours, CASES[name], 1)

    with Wire(ours.address) as wire:
        wire.frame()
        for position in range(len(CASES[name])):
            wire.send(CASES[name][position : position + 1])
        output = b""
        while b"PONG\r\n" not in output:
            output += wire.sock.recv(65536)

    assert _unasked(output) == whole


def test_info_has_the_same_members(ours: CoreServer, theirs: NatsServer) -> None:
    infos = []
    for server in (ours, theirs):
        with Wire(server.address) as wire:
            infos.append(json.loads(wire.frame().line[5:]))
    mine, reference = infos

    assert set(reference) - set(mine) == {"git_commit"}
    assert set(mine) <= set(reference)
    for name in ("version", "proto", "host", "headers", "max_payload", "api_lvl", "client_ip"):
        assert mine[name] == reference[name], name
    assert re.fullmatch("N[A-Z2-7]{55}", mine["server_id"])


def test_a_modern_client_gets_a_second_info_after_its_first_pong(core: Server) -> None:
    with Wire(core.address) as wire:
        wire.frame()
        wire.send(PROTO_1 + b"PING\r\n")
        assert wire.frame().line == b"PONG"
        info = json.loads(wire.frame().line[5:])
        wire.send(b"PING\r\n")

        assert wire.frame().line == b"PONG", "it comes once"
        assert info["connect_info"] is True
        assert info["remote_account"] == "$G"


def test_a_client_can_request_its_user_information(core: Server) -> None:
    with Wire(core.address) as wire:
        wire.hello()
        body = wire.request("$SYS.REQ.USER.INFO").json()

    assert body["data"] == {"user": "", "account": "$G", "account_name": "$G"}
    assert body["server"]["ver"] == "2.15.1"
    assert set(body["server"]) >= {
        "name",
        "host",
        "id",
        "ver",
        "jetstream",
        "flags",
        "seq",
        "time",
    } - ({"jetstream"})


def test_a_group_shares_and_other_groups_get_their_own(core: Server) -> None:
    with Wire(core.address) as wire:
        wire.hello()
        wire.send(b"SUB g.> q 1\r\nSUB g.x q 2\r\nSUB g.* p 3\r\nSUB g.x 4\r\n")
        wire.send(b"PUB g.x 1\r\nx\r\n" * 400)
        counts = Counter(frame.line.split(b" ")[2] for frame in wire.flush())

    assert counts[b"3"] == counts[b"4"] == 400
    assert counts[b"1"] + counts[b"2"] == 400
    assert min(counts[b"1"], counts[b"2"]) > 100


def test_a_subscriber_without_headers_gets_the_payload_alone(core: Server) -> None:
    with Wire(core.address) as old, Wire(core.address) as modern:
        old.hello(b'CONNECT {"verbose":false}\r\n')
        modern.hello()
        old.send(b"SUB h.a r1\r\n")
        old.flush()
        modern.send(b"HPUB h.a re 18 20\r\n" + BLOCK + b"hi\r\n")
        modern.flush()
        frame = old.frame()

    assert frame.line == b"MSG h.a r1 re 2"
    assert frame.payload == b"hi"


def test_the_order_of_one_publisher_is_kept(core: Server) -> None:
    with Wire(core.address) as subscriber, Wire(core.address) as publisher:
        subscriber.hello()
        publisher.hello()
        subscriber.send(b"SUB o.* 1\r\n")
        subscriber.flush()
        publisher.send(
            b"".join(b"PUB o.%d %d\r\n%d\r\n" % (n % 3, len(str(n)), n) for n in range(5000))
        )
        publisher.flush()
        seen = [int(frame.payload) for frame in subscriber.flush()]

    assert seen == list(range(5000))


@pytest.mark.parametrize("queue", [b"", b"q "], ids=["alone", "with-a-queue"])
@pytest.mark.parametrize("pattern", [b"run.a", b"run.*", b"run.>"], ids=["literal", "one", "rest"])
def test_a_long_run_of_equal_messages_arrives_complete(
    core: Server, pattern: bytes, queue: bytes
) -> None:
    with Wire(core.address) as subscriber, Wire(core.address) as publisher:
        subscriber.hello()
        publisher.hello()
        subscriber.send(b"SUB %b 1\r\nSUB %b 2\r\nSUB %b %b3\r\n" % (*(pattern,) * 3, queue))
        subscriber.flush()
        for subject in (b"run.a", b"run.b", b"run.a"):
            run = b"".join(b"PUB %b 6\r\n%06d\r\n" % (subject, n) for n in range(1000))
            publisher.send(run)
        publisher.flush()
        frames = subscriber.flush()

    subjects = [b"run.a", b"run.b", b"run.a"] if b"a" not in pattern else [b"run.a"] * 2
    for sid in (b"1", b"2", b"3"):
        mine = [f for f in frames if f.line.split(b" ")[2] == sid]
        assert [int(f.payload) for f in mine] == list(range(1000)) * len(subjects), sid
        assert [f.subject for f in mine[::1000]] == subjects, sid


def test_a_connection_cut_in_the_middle_of_a_payload_delivers_nothing(core: Server) -> None:
    with Wire(core.address) as subscriber:
        subscriber.hello()
        subscriber.send(b"SUB cut 1\r\n")
        subscriber.flush()
        for part in (b"PUB cut 5\r\nhe", b"PUB cut 5\r\nhello", b"PUB cut 5\r\nhello\r", b"PUB cu"):
            with Wire(core.address) as publisher:
                publisher.hello()
                publisher.send(part)
        with Wire(core.address) as publisher:
            publisher.hello()
            publisher.send(b"PUB cut 4\r\nlast\r\n")
            publisher.flush()

        assert [frame.payload for frame in subscriber.flush()] == [b"last"]


@pytest.mark.parametrize("subscriptions", [1, 1500, 3000])
def test_a_client_that_ends_its_sending_side_is_still_answered(
    core: Server, subscriptions: int
) -> None:
    sent = b"".join(b"SUB fin.%d %d\r\n" % (n, n) for n in range(1, subscriptions + 1))
    with Wire(core.address) as wire:
        wire.hello()
        wire.send(sent + b"PUB fin.1 1\r\nx\r\nPING\r\n")
        wire.sock.shutdown(socket.SHUT_WR)

        assert [wire.frame().line, wire.frame().line] == [b"MSG fin.1 1 1", b"PONG"]


def test_the_official_client(core: Server) -> None:
    async def main() -> None:
        url = f"nats://127.0.0.1:{core.address[1]}"
        client, other = await nats.connect(url), await nats.connect(url)
        try:
            await talk(client, other)
        finally:
            await other.close()
            await client.close()

    uvloop.run(main())


async def talk(client: Client, other: Client) -> None:
    async def serve(message: Msg) -> None:
        await message.respond(message.data + b"!")

    await other.subscribe("echo.*", "workers", cb=serve)
    # this client's PING overtakes what it gathered before: the second one comes after the SUB
    await other.flush()
    await other.flush()
    for number in range(50):
        reply = await client.request("echo.a", b"%d" % number, timeout=20)
        assert reply.data == b"%d!" % number
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("nobody.here", b"", timeout=20)
    subscription = await client.subscribe("h.>")
    await client.publish("h.x", b"body", headers={"A": "b"})
    message = await subscription.next_msg(timeout=20)
    assert (message.subject, message.data, message.headers) == ("h.x", b"body", {"A": "b"})
    await subscription.unsubscribe(limit=3)
    await other.drain()


# -- limits


def test_a_silent_client_is_stale(kind: str) -> None:
    with configured(kind, ping_interval=1, ping_max=1) as server, Wire(server.address) as wire:
        wire.frame()
        wire.send(b'CONNECT {"verbose":false}\r\n')
        assert wire.frame(pings=True).line == b"PING"

        assert wire.frame(pings=True).line == b"-ERR 'Stale Connection'"
        with pytest.raises(Closed):
            wire.frame()


def test_too_many_connections(kind: str) -> None:
    with configured(kind, max_connections=1) as server, Wire(server.address) as first:
        first.hello()
        with Wire(server.address) as second:
            assert second.frame().verb == b"INFO"
            assert second.frame().line == b"-ERR 'maximum connections exceeded'"
            with pytest.raises(Closed):
                second.frame()
        first.close()

        def is_free() -> bool:
            with Wire(server.address) as third:
                third.frame()
                third.send(HELLO + b"PING\r\n")
                return third.frame().line == b"PONG"

        assert eventually(is_free)


def test_too_many_subscriptions(kind: str) -> None:
    with configured(kind, max_subscriptions=2) as server:
        output = answer(
            server,
            HELLO + b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB c 3\r\n"
            b"PUB c 1\r\nx\r\nPING\r\n",
            1,
        )

    assert output == b"-ERR 'maximum subscriptions exceeded'\r\nMSG c 3 1\r\nx\r\nPONG\r\n"


def test_other_limits_of_size(kind: str) -> None:
    with configured(kind, max_payload=100, max_control_line=256) as server:
        with Wire(server.address) as wire:
            assert wire.hello()["max_payload"] == 100
        payload = answer(server, HELLO + b"PUB a 101\r\n", 1)
        line = answer(server, HELLO + b"SUB " + b"a" * 260 + b" 1\r\n", 1)

    assert payload == b"-ERR 'Maximum Payload Violation'\r\n<end>"
    assert line == b"-ERR 'maximum control line exceeded'\r\n<end>"


def test_too_many_tokens(kind: str) -> None:
    with configured(kind, max_subscription_tokens=3) as server:
        output = answer(server, HELLO + b"SUB a.b.c 1\r\nSUB a.b.c.d 2\r\nPING\r\n", 1)

    text = b'Permissions Violation for Subscription to "a.b.c.d", too many tokens'
    assert output == b"-ERR '%b'\r\nPONG\r\n" % text


def test_only_the_slow_consumer_is_cut(kind: str) -> None:
    body = b"x" * 1000
    with (
        configured(kind, max_pending=2_000_000) as server,
        Wire(server.address, timeout=20) as slow,
        Wire(server.address, timeout=20) as good,
        Wire(server.address, timeout=20) as publisher,
    ):
        for wire in (slow, good, publisher):
            wire.hello()
        for wire in (slow, good):
            wire.send(b"SUB s 1\r\n")
            wire.flush()
        received = 0
        for _ in range(60):
            publisher.send(b"PUB s 1000\r\n%b\r\n" % body * 500)
            publisher.flush()
            received += len(good.flush())

        def drained() -> bool:
            try:
                while True:
                    slow.frame()
            except Closed:
                return True

        assert received == 30_000
        assert drained()


def test_a_session_that_is_gone_is_forgotten(ours: CoreServer) -> None:
    eventually(lambda: not ours.call(lambda: len(ours.hub.sessions)))
    with Wire(ours.address) as wire:
        wire.hello()
        wire.send(b"".join(b"SUB churn.%d.* %d\r\n" % (n, n) for n in range(20_000)))
        wire.send(b"".join(b"UNSUB %d\r\n" % n for n in range(0, 20_000, 2)))
        wire.flush()
        account = ours.hub.default_account()
        assert ours.call(lambda: account.client_subscriptions) == 10_000

    eventually(lambda: not ours.call(lambda: account.client_subscriptions), within=30)
    eventually(lambda: not ours.call(lambda: len(ours.hub.sessions)), within=30)
    assert not ours.call(lambda: account.has_interest(b"churn.1.x"))


def test_plain_asyncio_serves_as_well() -> None:
    with CoreServer(uv=False) as server, Wire(server.address) as wire:
        wire.hello()
        wire.send(b"SUB a 1\r\n" + b"PUB a 100\r\n%b\r\n" % (b"x" * 100) * 5000)

        assert len(wire.flush()) == 5000


def test_a_firehose_does_not_starve_others(core: Server) -> None:
    chunk = b"PUB fire 128\r\n%b\r\n" % (b"x" * 128) * 500
    stop = threading.Event()

    def publish() -> None:
        with Wire(core.address, timeout=30) as publisher:
            publisher.hello()
            while not stop.is_set():
                publisher.send(chunk)

    with Wire(core.address) as other:
        other.hello()
        firehose = threading.Thread(target=publish)
        firehose.start()
        waits = []
        try:
            for _ in range(10):
                slow = slowness()
                for _ in range(10):
                    began = time.perf_counter()
                    other.flush()
                    waits.append((time.perf_counter() - began) / slow)
        finally:
            stop.set()
            firehose.join()

    assert statistics.median(waits) < 0.1


def test_stopping_writes_what_gathered_and_does_not_wait_for_the_stuck() -> None:
    with CoreServer() as server, Wire(server.address) as stuck, Wire(server.address) as reader:
        for wire in (stuck, reader):
            wire.hello()
            wire.send(b"SUB a 1\r\n")
            wire.flush()
        reader.send(b"PUB a 1000000\r\n%b\r\n" % (b"x" * 1_000_000) * 20)
        began = time.perf_counter()
        server.stop()
        took = time.perf_counter() - began

    assert took < 10
