"""What no client should send: both servers must end in the same state, and jetgate go on serving.

The expected outcome of each row is what the reference server does with the same bytes.
"""

# Subject: protocol

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterator

import pytest

from tests.support.at_once import at_once
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.memory import resident
from tests.support.natsserver import NatsServer
from tests.support.wire import HELLO, Closed, Silence, Wire
from tests.wire.transcript import clean, plain

Servers = tuple[NatsServer, JetgateServer]

QUIET = 0.3  # seconds without a word that count as "open, waiting for more"
PATIENT = 10.0  # the same where the servers seem to differ: one of them may only be late

PEDANTIC = b'CONNECT {"verbose":false,"pedantic":true,"headers":true}\r\n'
BIG = b"9" * 20

RAW: dict[str, bytes] = {
    "http request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls client hello": bytes.fromhex("16030100c8010000c40303") + bytes(range(200)),
    "zero bytes": bytes(64),
    "random bytes": bytes((i * 73 + 41) % 256 for i in range(300)),
    "only line ends": b"\r\n\r\n\n\n",
    "connect without object": b"CONNECT\r\n",
    "connect with text": b"CONNECT text\r\n",
    "connect with array": b"CONNECT []\r\n",
    "connect with null": b"CONNECT null\r\n",
    "connect with number": b"CONNECT 5\r\n",
    "connect nested": b"CONNECT " + b'{"a":' * 300 + b"1" + b"}" * 300 + b"\r\n",
    "connect duplicate keys": b'CONNECT {"verbose":true,"verbose":false}\r\n',
    "connect not utf-8": b'CONNECT {"name":"\xff\xfe","verbose":false}\r\n',
    "connect wrong types": b'CONNECT {"verbose":"yes"}\r\n',
    "connect protocol text": b'CONNECT {"verbose":false,"protocol":"1"}\r\n',
    "connect protocol negative": b'CONNECT {"verbose":false,"protocol":-1}\r\n',
    "connect null members": b'CONNECT {"verbose":false,"name":null,"protocol":null}\r\n',
    "connect two values": b'CONNECT {"verbose":false} {"verbose":true}\r\n',
    "connect any case": b'CONNECT {"VERBOSE":false}\r\n',
    "connect with jwt": b'CONNECT {"verbose":false,"jwt":"x.y.z","nkey":"U","sig":"s"}\r\n',
    "connect long": b'CONNECT {"verbose":false,"name":"' + b"n" * 3900 + b'"}\r\n',
    "verb cut short": b"PU\r\n",
    "verb with letters after": b"PINGPONG\r\n",
    "ping with argument": b"PING x\r\n",
    "pong with argument": b"PONG x\r\n",
    "two carriage returns": b"PING\r\r\n",
    "blank before verb": b" PING\r\n",
}

AFTER_HELLO: dict[str, bytes] = {
    "control line of 4095": b"SUB " + b"a" * 4089 + b" 1\r\n",
    "control line of 4096": b"SUB " + b"a" * 4094 + b" 1\r\n",
    "control line of 4100": b"SUB " + b"a" * 4098 + b" 1\r\n",
    "control line of 9000 without end": b"SUB " + b"a" * 9000,
    "publish line of 5000": b"PUB " + b"a" * 5000 + b" 1\r\nx\r\n",
    "size one over": b"PUB a 1048577\r\n",
    "size negative": b"PUB a -1\r\n\r\n",
    "size with plus": b"PUB a +5\r\nhello\r\n",
    "size with zeros": b"PUB a 007\r\nsevenup\r\n",
    "size with exponent": b"PUB a 1e3\r\n",
    "size hexadecimal": b"PUB a 0x5\r\nhello\r\n",
    "size of twenty nines": b"PUB a " + BIG + b"\r\n",
    "size of 2^31": b"PUB a 2147483648\r\n",
    "size of 2^63": b"PUB a 9223372036854775808\r\n",
    "size of 2^64 and five": b"PUB a 18446744073709551621\r\nhello\r\n",
    "size with underscore": b"PUB a 1_0\r\n0123456789\r\n",
    "size in arabic digits": "PUB a \u0665\r\nhello\r\n".encode(),
    "size empty": b"PUB a \r\n\r\n",
    "payload shorter": b"PUB a 5\r\nhi\r\n",
    "payload longer": b"PUB a 2\r\nhello\r\n",
    "payload without end": b"PUB a 5\r\nhelloPING\r\n",
    "payload ended by line feed": b"PUB a 5\r\nhello\nPING\r\n",
    "headers longer than all": b"HPUB a 20 12\r\nNATS/1.0\r\n\r\n\r\n",
    "headers of zero": b"HPUB a 0 5\r\nhello\r\n",
    "headers negative": b"HPUB a -1 5\r\nhello\r\n",
    "headers size missing": b"HPUB a 12\r\nNATS/1.0\r\n\r\n\r\n",
    "headers four sizes": b"HPUB a b 12 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    "headers of twenty nines": b"HPUB a " + BIG + b" " + BIG + b"\r\n",
    "headers without version": b"HPUB a 10 12\r\nFoo: bar\r\nhi\r\n",
    "headers without blank line": b"HPUB a 20 22\r\nNATS/1.0\r\nFoo: bar\r\nhi\r\n",
    "headers with line feed only": b"HPUB a 20 22\r\nNATS/1.0\nFoo: bar\n\nhi\r\n",
    "headers ten thousand": (
        lambda block: b"HPUB a %d %d\r\n%s\r\n" % (len(block), len(block), block)
    )(b"NATS/1.0\r\n" + b"".join(b"K%d: v\r\n" % i for i in range(10000)) + b"\r\n"),
    "headers twice the same": b"HPUB a 30 30\r\nNATS/1.0\r\nA: b\r\na: c\r\nA: d\r\n\r\n\r\n",
    "publish two dots": b"PUB a..b 1\r\nx\r\n",
    "publish leading dot": b"PUB .a 1\r\nx\r\n",
    "publish trailing dot": b"PUB a. 1\r\nx\r\n",
    "publish star": b"PUB * 1\r\nx\r\n",
    "publish tail": b"PUB > 1\r\nx\r\n",
    "publish three fields": b"PUB a b 1\r\nx\r\n",
    "publish ten thousand tokens": b"PUB " + b"a." * 1900 + b"a 1\r\nx\r\n",
    "publish zero byte": b"PUB a\x00b 1\r\nx\r\n",
    "publish not utf-8": b"PUB a\xff\xfe 1\r\nx\r\n",
    "publish vertical tab": b"PUB a\x0bb 1\r\nx\r\n",
    "publish form feed": b"PUB a\x0cb 1\r\nx\r\n",
    "subscribe early tail": b"SUB >.a 9\r\n",
    "subscribe tail inside": b"SUB a.>.b 9\r\n",
    "subscribe two dots": b"SUB a..b 9\r\n",
    "subscribe two stars": b"SUB ** 9\r\nPUB ** 1\r\nx\r\n",
    "subscribe zero byte": b"SUB a\x00b 9\r\nPUB a\x00b 1\r\nx\r\n",
    "subscribe not utf-8": b"SUB \xff.* 9\r\nPUB \xff.a 1\r\nx\r\n",
    "subscribe long sid": b"SUB a " + b"9" * 2000 + b"\r\nPUB a 1\r\nx\r\n",
    "unsubscribe negative": b"SUB a 9\r\nUNSUB 9 -1\r\nPUB a 1\r\nx\r\n",
    "unsubscribe no number": b"SUB a 9\r\nUNSUB 9 x\r\nPUB a 1\r\nx\r\n",
    "unsubscribe three fields": b"SUB a 9\r\nUNSUB 9 1 1\r\nPUB a 1\r\nx\r\n",
    "unsubscribe of twenty nines": b"SUB a 9\r\nUNSUB 9 " + BIG + b"\r\nPUB a 1\r\nx\r\n",
    "unsubscribe of zero": b"SUB a 9\r\nUNSUB 9 0\r\nPUB a 1\r\nx\r\n",
    "unsubscribe of plus one": b"SUB a 9\r\nUNSUB 9 +1\r\nPUB a 1\r\nx\r\n",
    "subscribe to the same sid again": b"SUB a 9\r\nSUB b 9\r\nPUB b 1\r\nx\r\nPUB a 1\r\ny\r\n",
    "unsubscribe unknown": b"UNSUB nobody\r\nUNSUB nobody 5\r\n",
    "subscribe to everything": b"SUB > 9\r\nPUB a.b 1\r\nx\r\n",
    "queue with wildcards": b"SUB a *.> 9\r\nPUB a 1\r\nx\r\n",
    "queue with dots": b"SUB a a..b 9\r\nPUB a 1\r\nx\r\n",
    "reply with wildcard": b"SUB a 9\r\nPUB a b.* 1\r\nx\r\n",
    "reply with empty token": b"SUB a 9\r\nPUB a b..c 1\r\nx\r\n",
    "message from client": b"MSG a 1 1\r\nx\r\n",
    "ok from client": b"+OK\r\n+OK\r\n",
    "error from client": b"-ERR 'x'\r\n",
    "info from client": b"INFO {}\r\n",
    "info without object": b"INFO\r\n",
    "inter-node verbs": b"RS+ $G a\r\n",
    "leaf verbs": b"LS+ a\r\n",
    "account verbs": b"A+ x\r\n",
    "publish to ack nobody": b"PUB $JS.ACK 1\r\nx\r\n",
    "publish short api": b"PUB $JS.API 1\r\nx\r\n",
    "publish bare js": b"PUB $JS 1\r\nx\r\n",
    "api with empty tokens": b"PUB $JS.API.STREAM.INFO. r.1 0\r\n\r\n",
}


def outcome(address: tuple[str, int], data: bytes, hello: bytes, quiet: float) -> list[str]:
    """What a connection says to these bytes and to a PING after them, as lines.

    `quiet` seconds without a word count as "open, waiting for more".
    """
    with Wire(address) as wire:
        wire.frame()
        wire.send(hello + data + b"PING\r\n")
        said: list[str] = []
        while True:
            try:
                frame = wire.frame(quiet)
            except Silence:
                return said if said[-1:] == ["PONG"] else [*said, "open, waiting"]
            except Closed:
                return [*said, "closed"]
            line = re.sub(rb"(?<= )0+(?=\d+$)", b"", frame.line)
            said.append(plain(line + b" " + frame.headers + frame.payload).rstrip())
            if frame.line == b"PONG":
                # In which order the subscriptions of one connection are served is nobody's promise.
                return [*sorted(said[:-1]), "PONG"]


@pytest.fixture
def servers(nats_server: NatsServer, jetgate_server: JetgateServer) -> Iterator[Servers]:
    yield nats_server, jetgate_server
    assert serves(jetgate_server)


def serves(server: JetgateServer) -> bool:
    """Whether a fresh client can still do its work."""
    with Wire(server.address) as wire:
        wire.hello()
        return bool(wire.api("INFO")["type"])


def assert_same_outcome(servers: Servers, data: bytes, hello: bytes) -> None:
    """Both servers say the same; on a busy machine one may need longer for it."""

    addresses = [server.address for server in servers]

    def seen(quiet: float) -> list[list[str]]:
        return at_once(lambda address: outcome(address, data, hello, quiet), addresses)

    theirs, ours = seen(QUIET)
    if ours != theirs:
        theirs, ours = seen(PATIENT)
    assert ours == theirs


@pytest.mark.parametrize("name", RAW)
def test_bytes_before_connect(servers: Servers, name: str) -> None:
    assert_same_outcome(servers, RAW[name], b"")


@pytest.mark.parametrize("name", AFTER_HELLO)
def test_bytes_after_connect(servers: Servers, name: str) -> None:
    assert_same_outcome(servers, AFTER_HELLO[name], HELLO + b"SUB a 1\r\nSUB a.* 2\r\n")


@pytest.mark.parametrize("name", [name for name in AFTER_HELLO if "publish" in name])
def test_bytes_after_pedantic_connect(servers: Servers, name: str) -> None:
    assert_same_outcome(servers, AFTER_HELLO[name], PEDANTIC + b"SUB a 1\r\nSUB a.* 2\r\n")


def test_announced_sizes_are_not_allocated(jetgate_server: JetgateServer) -> None:
    before = resident(jetgate_server.pid)
    wires = [Wire(jetgate_server.address) for _ in range(200)]
    for wire in wires:
        wire.hello()
        wire.send(b"PUB a 1048576\r\nabc")
    serves(jetgate_server)

    grown = resident(jetgate_server.pid) - before
    for wire in wires:
        wire.close()

    assert grown < 50 << 20, f"{grown >> 20} MiB for 200 announced payloads"


@pytest.mark.parametrize(
    "split_at",
    [
        b"", b"PU", b"PUB a 5", b"PUB a 5\r\nhe", b"SUB a", b"HPUB a 12 1", b"CONNECT {",
        b"HPUB a 12 14\r\nNATS/1.0\r\n", b"SUB a 1\r\nUNSUB 1", b"SUB a 1\r\nUNSUB 1 5\r\nPING",
        b"SUB a 1\r\n" + b"PUB a 9\r\nall of it\r\n" * 500,
        b"SUB r 1\r\nPUB $JS.API.INFO r 0\r\n\r\n" * 5,
        b"SUB r 1\r\nPUB $JS.API.STREAM.CREATE.CUT r 14\r\n{\"name\":\"CUT\"}\r\n",
        b"SUB r 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.CUT.C r 13\r\n{\"batch\":100}\r\nPUB CUT",
    ],
)  # fmt: skip
def test_connections_that_end_anywhere_leave_nothing(
    jetgate_server: JetgateServer, split_at: bytes
) -> None:
    serves(jetgate_server)
    before = descriptors(jetgate_server.pid)
    for reset in (False, True) * 20:
        wire = Wire(jetgate_server.address)
        wire.hello()
        wire.send(split_at)
        if reset:
            linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
            wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        wire.close()

    eventually(lambda: descriptors(jetgate_server.pid) <= before, within=30)
    clean(jetgate_server)


def test_subscriptions_come_and_go_without_a_trace(jetgate_server: JetgateServer) -> None:
    lines = b"".join(b"SUB churn.%d.* %d\r\nUNSUB %d\r\n" % (i, i, i) for i in range(20_000))
    with Wire(jetgate_server.address, timeout=30) as wire:
        wire.hello()
        wire.send(lines)
        wire.flush()
        before = resident(jetgate_server.pid)
        for _ in range(2):
            wire.send(lines)
            wire.flush()

        assert resident(jetgate_server.pid) - before < 10 << 20


def descriptors(pid: int) -> int:
    """How many descriptors a process has open, without its sessions with PostgreSQL.

    It opens those when there is work, and closes them when there has been none for minutes.
    """
    with open("/proc/net/unix") as table:
        local = {f"socket:[{line.split()[6]}]" for line in table.readlines()[1:]}
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            count += os.readlink(f"/proc/{pid}/fd/{name}") not in local
    return count


NUMBERS = [
    "0",
    "-1",
    "-2",
    "1",
    "2147483647",
    "2147483648",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e308",
    "1.5",
    '"1"',
    "null",
    "true",
    "[]",
    "{}",
]
STREAM_NUMBERS = [
    "max_consumers",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msgs_per_subject",
    "max_msg_size",
    "num_replicas",
    "duplicate_window",
    "first_seq",
]
CONSUMER_NUMBERS = [
    "ack_wait",
    "max_deliver",
    "max_waiting",
    "max_ack_pending",
    "max_batch",
    "max_expires",
    "max_bytes",
    "inactive_threshold",
    "num_replicas",
    "opt_start_seq",
]
# Where jetgate answers otherwise, and what: the reference server reserves space on its disk, of
# which a database has no such figure; sequences are signed 64-bit numbers in PostgreSQL.
BEYOND = {
    ("max_bytes", "9007199254740993"): '"max_bytes": 9007199254740993',
    ("max_bytes", "9223372036854775807"): '"max_bytes": 9223372036854775807',
    ("first_seq", "9223372036854775808"): '"err_code": 10052',
}
NAMES = ["a.b", "*", ">", "a/b", "a\\b", "a b", "a\tb", "\x00", "", "x" * 256, "\u00e9", "a\n"]


def answer(server: NatsServer | JetgateServer, subject: str, body: str) -> str:
    """The answer to an API request with what varies taken out; "" for none."""
    with Wire(server.address) as wire:
        wire.hello()
        try:
            text = wire.request(f"$JS.API.{subject}", body.encode()).payload.decode()
        except Silence:
            return ""
    text = re.sub(r'"\d{4}-\d\d-\d\dT[^"]*"', '"<time>"', text)
    text = re.sub(r"invalid JSON: .*?\"\}", 'invalid JSON"}', text)
    text = re.sub(r'"_nats.ver":"[^"]*"', '"_nats.ver":""', text)
    return json.dumps(json.loads(text), sort_keys=True) if text.startswith("{") else text


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("member", STREAM_NUMBERS)
def test_numbers_of_streams(servers: Servers, member: str, value: str) -> None:
    body = f'{{"name":"N","subjects":["n.>"],"{member}":{value}}}'
    theirs, ours = (answer(server, "STREAM.CREATE.N", body) for server in servers)
    for server in servers:
        clean(server)

    expected = BEYOND.get((member, value))
    assert ours == theirs if expected is None else (expected in ours and expected not in theirs)


def test_the_last_sequence_there_is(jetgate_server: JetgateServer) -> None:
    last = 2**63 - 1
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.N", {"name": "N", "subjects": ["n.>"], "first_seq": last})
        answers = [wire.request("n.a", b"x").json() for _ in range(3)]
        state = wire.api("STREAM.INFO.N")["state"]
    clean(jetgate_server)

    assert answers[0] == {"stream": "N", "seq": last}
    assert [answer["error"]["code"] for answer in answers[1:]] == [503, 503]
    assert (state["messages"], state["last_seq"]) == (1, last)


@pytest.mark.parametrize("member", CONSUMER_NUMBERS)
def test_numbers_of_consumers(servers: Servers, member: str) -> None:
    for server in servers:
        answer(server, "STREAM.CREATE.N", '{"name":"N","subjects":["n.>"]}')
    different = []
    for value in NUMBERS:
        policy = ',"deliver_policy":"by_start_sequence"' if member == "opt_start_seq" else ""
        config = f'{{"durable_name":"C","ack_policy":"explicit","{member}":{value}{policy}}}'
        body = f'{{"stream_name":"N","config":{config}}}'
        theirs, ours = (answer(server, "CONSUMER.CREATE.N.C", body) for server in servers)
        if ours != theirs:
            different.append((value, ours, theirs))
        for server in servers:
            answer(server, "CONSUMER.DELETE.N.C", "")
    for server in servers:
        clean(server)

    assert different == []


CONSUMER_LISTS = {
    "filter_subjects": ["null", "[]", "[null]", '["n.a","n.a"]', '["n.a",null]', '[""]',
                        '["n.*","n.a"]', '[">","n.>"]', '["n..a"]', '["n.>.a"]', '[1]', '"n.a"',
                        json.dumps([f"n.{i}" for i in range(1000)])],
    "backoff": ["null", "[]", "[null]", "[-1]", "[0]", "[1,-1]", "[9223372036854775807]",
                "[9223372036854775808]", '["1s"]', "[1e9]", "1", json.dumps([1] * 10_000)],
    "metadata": ["null", "[]", '{"a":null}', '{"a":1}', '{"":""}', '{"_nats.x":"1"}',
                 json.dumps({f"k{i}": "v" * 100 for i in range(2000)})],
    "priority_groups": ["null", "[]", '["a"]', '["a","a"]', '[""]', '["a b"]', "[null]"],
}  # fmt: skip


@pytest.mark.parametrize("member", CONSUMER_LISTS)
def test_lists_of_consumers(servers: Servers, member: str) -> None:
    for server in servers:
        answer(server, "STREAM.CREATE.N", '{"name":"N","subjects":["n.>"]}')
    different = []
    for value in CONSUMER_LISTS[member]:
        config = (
            f'{{"durable_name":"C","ack_policy":"explicit","max_deliver":-1,"{member}":{value}}}'
        )
        body = f'{{"stream_name":"N","config":{config}}}'
        theirs, ours = (answer(server, "CONSUMER.CREATE.N.C", body) for server in servers)
        if ours != theirs:
            different.append((value[:60], ours[:300], theirs[:300]))
        for server in servers:
            answer(server, "CONSUMER.DELETE.N.C", "")
    for server in servers:
        clean(server)

    assert different == []


@pytest.mark.parametrize("body", [
    '{"seq":?}', '{"next_by_subj":"n.>","seq":?}', '{"seq":?,"no_erase":true}', '{"keep":?}',
    '{"filter":"n.a","keep":?}', '{"batch":?}', '{"offset":?}',
])  # fmt: skip
@pytest.mark.parametrize(
    "subject", ["STREAM.MSG.GET.N", "STREAM.MSG.DELETE.N", "STREAM.NAMES", "STREAM.PURGE.N"]
)
def test_numbers_of_requests(servers: Servers, subject: str, body: str) -> None:
    for server in servers:
        answer(server, "STREAM.CREATE.N", '{"name":"N","subjects":["n.>"]}')
        with Wire(server.address) as wire:
            wire.hello()
            wire.request("n.a", b"one")
    different = []
    for value in NUMBERS:
        theirs, ours = (answer(server, subject, body.replace("?", value)) for server in servers)
        if ours != theirs:
            different.append((value, ours, theirs))
    for server in servers:
        clean(server)

    assert different == []


@pytest.mark.parametrize("name", NAMES)
def test_names(servers: Servers, name: str) -> None:
    text = json.dumps(name)
    bodies = [
        ("STREAM.CREATE.N", '{"name":?}'),
        ("STREAM.CREATE.N", '{"name":"N","subjects":[?]}'),
        ("CONSUMER.CREATE.N.C", '{"stream_name":"N","config":{"durable_name":?}}'),
        ("CONSUMER.CREATE.N.C", '{"stream_name":"N","config":{"name":?}}'),
        ("CONSUMER.CREATE.N.D", '{"stream_name":"N","config":{"filter_subject":?}}'),
        ("STREAM.INFO.N", '{"subjects_filter":?}'),
        ("STREAM.PURGE.N", '{"filter":?}'),
        ("STREAM.MSG.GET.N", '{"last_by_subj":?}'),
        ("STREAM.NAMES", '{"subject":?}'),
    ]
    different = []
    for subject, body in bodies:
        theirs, ours = (answer(server, subject, body.replace("?", text)) for server in servers)
        if ours != theirs and '"cluster"' not in theirs:
            different.append((subject, body, ours, theirs))
    for server in servers:
        clean(server)

    assert different == []


BODIES = [
    "", " ", "{", "}", "[]", "null", "text", '"text"', "1", "{}{}", '{"name":}', '{"name":"N",}',
    '{"name":"N"}garbage', "\ufeff{}", '{"name":"N","name":"M"}', '{"NAME":"N"}', "{" * 2000,
    '{"name":"N","subjects":null}', '{"name":"N","subjects":[null]}',
    '{"name":"N","metadata":null}',
    '{"name":"N","subjects":["a","a"]}', '{"name":"N","metadata":{"a":1}}', '{"name":["N"]}',
    '{"name":"N","consumer_limits":null}', '{"name":"N","\\u006dax_msgs":5}',
    '{"name":"N","description":"\\ud800"}',
    json.dumps({"name": "N", "subjects": [f"n.{i}" for i in range(1000)]}),
    json.dumps({"name": "N", "subjects": ["n.a"] * 10_000}),
    json.dumps({"name": "N", "subjects": [None] * 10_000}),
]  # fmt: skip
VERBS = ["STREAM.CREATE.N", "STREAM.UPDATE.N", "STREAM.INFO.N", "STREAM.PURGE.N", "STREAM.NAMES",
         "STREAM.LIST", "STREAM.MSG.GET.N", "STREAM.MSG.DELETE.N", "CONSUMER.CREATE.N.C",
         "CONSUMER.NAMES.N", "CONSUMER.LIST.N", "CONSUMER.INFO.N.C", "CONSUMER.DELETE.N.C",
         "STREAM.DELETE.N", "INFO"]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_bodies(servers: Servers, verb: str) -> None:
    different = []
    for body in BODIES:
        theirs, ours = (_created(answer(server, verb, body)) for server in servers)
        if ours != theirs:
            different.append((body[:80], ours[:400], theirs[:400]))
    for server in servers:
        clean(server)

    assert different == []


def _created(text: str) -> str:
    """Leave out what the number of requests so far decides."""
    return re.sub(r'"(total|errors|memory|storage)": \d+', "", text)


def test_acks_of_messages_that_were_never_delivered(servers: Servers) -> None:
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.address)) for server in servers]
        for wire in wires:
            wire.hello()
            wire.api("STREAM.CREATE.N", {"name": "N", "subjects": ["n.>"]})
            config = {"durable_name": "C", "ack_policy": "explicit"}
            wire.api("CONSUMER.CREATE.N.C", {"stream_name": "N", "config": config})
            for _ in range(3):
                wire.request("n.a", b"x")
            wire.request("$JS.API.CONSUMER.MSG.NEXT.N.C", b"")
            for subject in (
                "$JS.ACK.N.C.1.9.9.1.0", "$JS.ACK.N.C.1.0.0.1.0", "$JS.ACK.N.C.1.-1.1.1.0",
                "$JS.ACK.N.C.x.y.z.1.0", "$JS.ACK.N.C", "$JS.ACK.N.C.1.1", "$JS.ACK.N",
                "$JS.ACK.N.C.1.2.2.1.0", "$JS.ACK.N.D.1.1.1.1.0", "$JS.ACK.M.C.1.1.1.1.0",
                "$JS.ACK.N.C.1.18446744073709551615.1.1.0", "$JS.ACK.N.C.1.1.1.1.0.extra",
            ):  # fmt: skip
                for payload in (b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"", b'-NAK {"delay":-1}'):
                    wire.publish(subject, payload)

        def same() -> bool:
            # The reference looks at acknowledgements a moment after it has read them.
            theirs, ours = map(_numbers, wires)
            assert ours == theirs
            return True

        eventually(same, within=30)
    for server in servers:
        clean(server)


def _numbers(wire: Wire) -> list[int]:
    info = wire.api("CONSUMER.INFO.N.C")
    names = ("num_ack_pending", "num_redelivered", "num_pending")
    floors = [info["ack_floor"]["stream_seq"], info["delivered"]["stream_seq"]]
    return floors + [info[name] for name in names]
