"""Protocol traces in the log: the same operations, on both servers, in the same lines."""

# Subject: protocol traces

import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.dropin import DropIn, config
from tests.support.eventually import eventually
from tests.support.wire import Wire

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true%b}\r\n'
ANYWHERE = ("-a", "127.0.0.1", "-p", "-1")
CLIENT = re.compile(r"\[TRC\] 127\.0\.0\.1:\d+ - cid:(\d+) - (.*)")
STAMP = re.compile(r"\d{16,}")


def connected(server: DropIn, more: bytes = b"") -> Wire:
    wire = Wire(server.address)
    wire.hello(CONNECT % more)
    return wire


def traces(server: DropIn) -> list[str]:
    """What the log has of clients, without their addresses; `1: ` is in front of the first one.

    And without what a server asks those that are there for two seconds, and is answered.
    """
    found = [match for text in server.texts() if (match := CLIENT.fullmatch(text))]
    numbers = list(dict.fromkeys(match[1] for match in found))
    asked: Counter[str] = Counter()
    shown = []
    for client, text in (match.groups() for match in found):
        if text.endswith("->> [PING]"):
            asked[client] += 1
        elif asked[client] and text.endswith("<<- [PONG]"):
            asked[client] -= 1
        else:
            shown.append(f"{numbers.index(client) + 1}: {STAMP.sub('T', text)}")
    return shown


def test_every_operation_is_logged_as_it_happens(name: str) -> None:
    with DropIn(name, *ANYWHERE, "-V") as server, connected(server) as wire:
        wire.send(b"SUB foo.* 1\r\nPUB foo.a 3\r\nabc\r\nSUB bar q 22\r\nPUB bar foo.r 0\r\n\r\n")
        wire.send(b"UNSUB 22\r\nUNSUB 99\r\nUNSUB 1 5\r\nPUB foo.b foo.r 4\r\n\r\n\x01\xff\r\n")
        wire.send(b'HPUB foo.c 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhe"lo\r\npub foo.d  1\r\nx\r\n')
        wire.send(b"PUB nobody foo.r 2\r\nhi\r\nPONG\r\nping\r\nPUB foo.e 2\r\n12\r\n")
        wire.flush()
        wire.send(b"BOGUS\r\n")
        eventually(lambda: any("-ERR" in line for line in traces(server)))
        connect = (CONNECT % b"").decode().removeprefix("CONNECT ").strip()
        assert traces(server) == [
            f"1: <<- [CONNECT {connect}]",
            *("1: <<- [PING]", "1: ->> [PONG]"),
            "1: <<- [SUB foo.* 1]",
            *("1: <<- [PUB foo.a 3]", '1: <<- MSG_PAYLOAD: ["abc"]'),
            *("1: ->> [MSG foo.a 1 3]", '1: ->> MSG_PAYLOAD: ["abc"]'),
            "1: <<- [SUB bar q 22]",
            *("1: <<- [PUB bar foo.r 0]", "1: ->> [MSG bar 22 foo.r 0]"),
            *("1: <<- [UNSUB 22]", "1: <-> [DELSUB 22]", "1: <<- [UNSUB 99]", "1: <<- [UNSUB 1 5]"),
            *("1: <<- [PUB foo.b foo.r 4]", '1: <<- MSG_PAYLOAD: ["\\r\\n\\x01\\xff"]'),
            *("1: ->> [MSG foo.b 1 foo.r 4]", '1: ->> MSG_PAYLOAD: ["\\r\\n\\x01\\xff"]'),
            "1: <<- [HPUB foo.c 18 23]",
            '1: <<- MSG_PAYLOAD: ["NATS/1.0\\r\\nA: b\\r\\n\\r\\nhe\\"lo"]',
            "1: ->> [HMSG foo.c 1 18 23]",
            '1: ->> MSG_PAYLOAD: ["NATS/1.0\\r\\nA: b\\r\\n\\r\\nhe\\"lo"]',
            *("1: <<- [PUB foo.d  1]", '1: <<- MSG_PAYLOAD: ["x"]'),
            *("1: ->> [MSG foo.d 1 1]", '1: ->> MSG_PAYLOAD: ["x"]'),
            *("1: <<- [PUB nobody foo.r 2]", '1: <<- MSG_PAYLOAD: ["hi"]'),
            *("1: <<- [PONG]", "1: <<- [PING]", "1: ->> [PONG]"),
            *("1: <<- [PUB foo.e 2]", '1: <<- MSG_PAYLOAD: ["12"]'),
            *("1: ->> [MSG foo.e 1 2]", '1: ->> MSG_PAYLOAD: ["12"]', "1: <-> [DELSUB 1]"),
            *("1: <<- [PING]", "1: ->> [PONG]"),
            "1: ->> [-ERR Unknown Protocol Operation]",
        ]


def test_a_message_is_logged_where_it_comes_from_and_where_it_goes(name: str) -> None:
    with DropIn(name, *ANYWHERE, "-DV") as server:
        with connected(server, b',"name":"to \\"x\\""') as to:
            to.send(b"SUB foo 7\r\n")
            to.flush()
            with connected(server, b',"version":"1.2","lang":"go","user":"u:p"') as source:
                source.send(b"PUB foo 1\r\na\r\nPUB foo 1\r\nb\r\n")
                source.flush()
                assert [to.frame().payload for _ in range(2)] == [b"a", b"b"]

        eventually(lambda: any("DELSUB" in line for line in traces(server)))
        there, here = '1: "to \\"x\\"" -', '2: "v1.2:go" - "$G/user:u:p" -'
        lines = traces(server)
        assert [line for line in lines if "SUB" not in line and "CONNECT" not in line] == [
            *(f"{there} <<- [PING]", f"{there} ->> [PONG]") * 2,
            *(f"{here} <<- [PING]", f"{here} ->> [PONG]"),
            *(f"{here} <<- [PUB foo 1]", f'{here} <<- MSG_PAYLOAD: ["a"]'),
            *(f"{there} ->> [MSG foo 7 1]", f'{there} ->> MSG_PAYLOAD: ["a"]'),
            *(f"{here} <<- [PUB foo 1]", f'{here} <<- MSG_PAYLOAD: ["b"]'),
            *(f"{there} ->> [MSG foo 7 1]", f'{there} ->> MSG_PAYLOAD: ["b"]'),
            *(f"{here} <<- [PING]", f"{here} ->> [PONG]"),
        ]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b'"user":"u","pass":"secret"', '"user":"u","pass":"[REDACTED]"'),
        (b'"auth_token" : "secret"', '"auth_token" : "[REDACTED]"'),
        (b'"password":"a","pass":"b","x":1', '"password":"[REDACTED]","pass":"[REDACTED]","x":1'),
        (b'"jwt":"j","nkey":"k","sig":"s"', '"jwt":"j","nkey":"[REDACTED]","sig":"[REDACTED]"'),
    ],
)
def test_secrets_in_connect_are_hidden(name: str, content: bytes, shown: str) -> None:
    with DropIn(name, *ANYWHERE, "--trace") as server, Wire(server.address) as wire:
        wire.send(b"CONNECT {%b}\r\nPING\r\n" % content)

        eventually(lambda: any("CONNECT" in line for line in traces(server)))

        assert traces(server)[0] == f"1: <<- [CONNECT {{{shown}}}]"


def test_payloads_are_cut_at_the_configured_length(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, "trace: true", "max_traced_msg_len: 5")
    with DropIn(name, "-c", path) as server, connected(server) as wire:
        wire.send(b"PUB a 5\r\n12345\r\nPUB b 6\r\n123456\r\n")
        wire.flush()

        assert [line for line in traces(server) if "PAYLOAD" in line] == [
            '1: <<- MSG_PAYLOAD: ["12345"]',
            '1: <<- MSG_PAYLOAD: ["12345..."]',
        ]


def test_headers_alone_are_logged_if_configured(name: str, tmp_path: Path) -> None:
    path = config(tmp_path, "trace_headers: true")
    with DropIn(name, "-c", path) as server, connected(server, b',"auth_token":"x"') as wire:
        wire.send(b"SUB b 1\r\nPUB a 1\r\nx\r\nHPUB b 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")
        wire.flush()

        shown = 'MSG_PAYLOAD: ["NATS/1.0\\r\\nA: b"]'
        payloads = [line for line in traces(server) if "PAYLOAD" in line]
        label = '1: "$G/token" -'
        assert payloads == [f"{label} <<- {shown}", f"{label} ->> {shown}"]


def test_refusals_are_logged(name: str, tmp_path: Path) -> None:
    users = '{user: a, password: pw, permissions: {publish: "x", subscribe: "y"}}'
    path = config(tmp_path, "trace: true", f"authorization {{ users: [ {users} ] }}")
    with DropIn(name, "-c", path) as server:
        with Wire(server.address) as wire:
            wire.frame()
            wire.send(CONNECT % b',"user":"a","pass":"wrong"')
            assert wire.frame().verb == b"-ERR"
        with connected(server, b',"user":"a","pass":"pw"') as wire:
            wire.send(b"SUB no 1\r\nPUB no 1\r\nx\r\n")
            wire.flush()

        label = '2: "$G/user:a" -'
        lines = [line for line in traces(server) if "CONNECT" not in line]
        assert lines[:9] == [
            "1: ->> [-ERR Authorization Violation]",
            *(f"{label} <<- [PING]", f"{label} ->> [PONG]"),
            f"{label} <<- [SUB no 1]",
            f'{label} ->> [-ERR Permissions Violation for Subscription to "no"]',
            *(f"{label} <<- [PUB no 1]", f'{label} <<- MSG_PAYLOAD: ["x"]'),
            f'{label} ->> [-ERR Permissions Violation for Publish to "no"]',
            f"{label} <<- [PING]",
        ]


def test_jetstream_is_logged_as_the_messages_that_it_sends(name: str, tmp_path: Path) -> None:
    flags = ("-js", "-sd", str(tmp_path / "store"))
    with DropIn(name, *ANYWHERE, "-V", *flags) as server:
        with connected(server) as admin:
            subjects = {"name": "S", "subjects": ["s.*"], "allow_direct": True}
            assert "error" not in admin.api("STREAM.CREATE.S", subjects)
            consumer = {"durable_name": "C", "ack_policy": "explicit"}
            asked = {"stream_name": "S", "config": consumer}
            assert "error" not in admin.api("CONSUMER.DURABLE.CREATE.S.C", asked)
        with connected(server) as wire:
            wire.send(b"SUB in.* 5\r\n")
            for number in range(3):
                wire.publish("s.a", b"m%d" % number, reply=b"in.ack")
                wire.frame()
            wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b"3", reply=b"in.next")
            for _ in range(3):
                wire.frame()
            wire.publish("$JS.API.DIRECT.GET.S.s.a", b'{"no_hdr":true}', reply=b"in.get")
            wire.frame()

        lines = [line for line in traces(server) if line.startswith("2: ->> ")]
        # How many are left for a consumer, nats-server may count a moment later.
        sent = [re.sub(r"T\.\d ", "T.N ", line) for line in lines]
        acks = [("in.ack 5 22", f'{{\\"stream\\":\\"S\\",\\"seq\\":{n}}}') for n in (1, 2, 3)]
        ack_subject = "$JS.ACK.S.C.1.{0}.{0}.T.N"
        messages = [
            *acks,
            *((f"s.a 5 {ack_subject.format(n + 1)} 2", f"m{n}") for n in range(3)),
            ("in.get 5 2", "m2"),
        ]
        expected = ["2: ->> [PONG]"]
        for line, payload in messages:
            expected += [f"2: ->> [MSG {line}]", f'2: ->> MSG_PAYLOAD: ["{payload}"]']
        assert sent == expected


def test_a_reload_switches_traces_of_connected_clients(name: str, tmp_path: Path) -> None:
    with DropIn(name, "-c", config(tmp_path, "")) as server, connected(server) as wire:
        wire.send(b"SUB foo 1\r\nPUB foo 1\r\n1\r\nPU")
        assert wire.frame().payload == b"1"
        for number, line in enumerate(("trace: true", "max_traced_msg_len: 3", "trace: false")):
            config(tmp_path, line, *(["trace: true"] if number == 1 else []))
            server.send(signal.SIGHUP)
            eventually(lambda: server.log().count("Reloaded server config") == number + 1)  # noqa: B023
            wire.send(b"B foo 4\r\n%d234\r\nPU" % number)
            assert wire.frame().payload == b"%d234" % number

        texts = server.texts()
        for content in ("trace = true", "max_traced_msg_len = 3", "trace = false"):
            assert f"[INF] Reloaded: {content}" in texts
        assert [line for line in traces(server) if "PUB" not in line] == [
            *('1: <<- MSG_PAYLOAD: ["0234"]', "1: ->> [MSG foo 1 4]"),
            '1: ->> MSG_PAYLOAD: ["0234"]',
            *('1: <<- MSG_PAYLOAD: ["123..."]', "1: ->> [MSG foo 1 4]"),
            '1: ->> MSG_PAYLOAD: ["123..."]',
        ]
