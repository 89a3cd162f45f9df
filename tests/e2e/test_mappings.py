"""The block `mappings`: where a message goes that a client publishes, on both servers."""

# Subject: routing

import signal
import socket
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.dropin import NAMES, DropIn, config
from tests.support.eventually import eventually
from tests.support.sockets import receive_until

MAPPINGS = """
mappings {
  foo: bar
  "a.*.*": "b.$2.{{wildcard(1)}}"
  "deep.>": "else.>"
  "one.*": "mo.{{wildcard(1)}}"
  "two.*.*": "mt.$2.$1"
  "rest.*.>": "mr.>"
  "split.*": "parts.{{splitFromLeft(1,2)}}"
  "js.in": stored
  "$JS.my.API.>": "$JS.API.>"
  half: [ { destination: half.one, weight: 50% }, { dest: half.two, weight: 25% } ]
  loss: [ { dest: loss, weight: 50% } ]
  gone: { dest: gone, weight: 0 }
  elsewhere: [ { dest: far, weight: 100%, cluster: east }, { dest: near, weight: 100% } ]
}
authorization {
  users: [
    { user: said, password: p, permissions: { publish: [ foo ] } }
    { user: meant, password: p, permissions: { publish: [ bar ] } }
    { user: all, password: p }
  ]
}
no_auth_user: all
"""
QUIET = b'"verbose":false,"pedantic":false'


@pytest.fixture(params=NAMES, scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DropIn]:
    directory = tmp_path_factory.mktemp("mappings")
    path = config(directory, MAPPINGS, f'jetstream {{ store_dir: "{directory}/store" }}')
    with DropIn(request.param, "-c", path) as started:
        started.ports()
        yield started


def answers(server: DropIn, lines: bytes, options: bytes = QUIET) -> bytes:
    """What the server says to a client that sends these lines."""
    connect = b'CONNECT {"headers":true,"no_responders":true,%b}\r\n' % options
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(connect + lines + b"PING\r\n")
        seen = b""
        while b"PONG\r\n" not in seen:
            more = connection.recv(1 << 16)
            assert more, seen
            seen += more
    # The server asks a client for a sign of life once it is there for two seconds.
    return seen.partition(b"\r\n")[2].replace(b"PING\r\n", b"")


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"PUB foo 1\r\n1\r\n", b"MSG bar 1 1\r\n1\r\n"),
        (b"PUB a.x.y 1\r\n2\r\n", b"MSG b.y.x 1 1\r\n2\r\n"),
        (b"PUB a.x 1\r\n2\r\n", b"MSG a.x 1 1\r\n2\r\n"),
        (b"PUB deep.q.r 1\r\n3\r\n", b"MSG else.q.r 1 1\r\n3\r\n"),
        (b"PUB split.abcdef 1\r\n3\r\n", b"MSG parts.ab.cdef 1 1\r\n3\r\n"),
        (b"PUB elsewhere 1\r\n4\r\n", b"MSG near 1 1\r\n4\r\n"),
        (b"PUB foo back 1\r\n5\r\n", b"MSG bar 1 back 1\r\n5\r\n"),
        (
            b"HPUB foo 12 13\r\nNATS/1.0\r\n\r\n6\r\n",
            b"HMSG bar 1 12 13\r\nNATS/1.0\r\n\r\n6\r\n",
        ),
        (b"PUB foo 1\r\n7\r\n" * 3, b"MSG bar 1 1\r\n7\r\n" * 3),
        (b"PUB one.* 1\r\n1\r\n", b"MSG mo.* 1 1\r\n1\r\n"),
        (b"PUB one.> 1\r\n1\r\n", b"MSG one.> 1 1\r\n1\r\n"),
        (b"PUB two.a.> 1\r\n1\r\n", b"MSG two.a.> 1 1\r\n1\r\n"),
        (b"PUB two.>.a 1\r\n1\r\n", b"MSG two.>.a 1 1\r\n1\r\n"),
        (b"PUB rest.>.a 1\r\n1\r\n", b"MSG rest.>.a 1 1\r\n1\r\n"),
        (b"PUB rest.a.> 1\r\n1\r\n", b"MSG mr.> 1 1\r\n1\r\n"),
        (b"PUB deep 1\r\n8\r\n", b"MSG deep 1 1\r\n8\r\n"),
        (b"PUB gone 1\r\n9\r\n", b""),
    ],
)
def test_messages_go_to_their_mapped_subjects(server: DropIn, sent: bytes, seen: bytes) -> None:
    found = answers(server, b"SUB > 1\r\n" + sent)

    assert found == seen + b"PONG\r\n"


def test_subscribers_listen_to_the_new_subject(server: DropIn) -> None:
    found = answers(server, b"SUB foo 1\r\nSUB bar 2\r\nPUB foo 0\r\n\r\n")

    assert found == b"MSG bar 2 0\r\n\r\nPONG\r\n"


def test_weights_are_parts_of_a_hundred_and_the_rest_stays(server: DropIn) -> None:
    found = answers(server, b"SUB half 1\r\nSUB half.* 2\r\n" + b"PUB half 0\r\n\r\n" * 4000)
    counts = Counter(line.split()[1] for line in found.splitlines() if line.startswith(b"MSG"))

    assert counts.total() == 4000
    assert abs(counts[b"half.one"] - 2000) < 250
    assert abs(counts[b"half.two"] - 1000) < 250
    assert abs(counts[b"half"] - 1000) < 250


def test_a_source_that_is_its_own_destination_loses_the_rest(server: DropIn) -> None:
    found = answers(server, b"SUB loss 1\r\n" + b"PUB loss 0\r\n\r\n" * 2000)

    assert abs(found.count(b"MSG loss 1 0\r\n") - 1000) < 250


def test_a_message_lost_by_a_mapping_has_no_responders(server: DropIn) -> None:
    verbose = b'"verbose":true,"pedantic":false'

    found = answers(server, b"SUB in 1\r\nPUB gone in 0\r\n\r\n", verbose)

    said = b"HMSG in 1 32 32\r\nNATS/1.0 503\r\nNats-Subject: \r\n\r\n\r\n"
    assert found == b"+OK\r\n" * 3 + said + b"PONG\r\n"


def test_the_new_subject_has_no_responders(server: DropIn) -> None:
    found = answers(server, b"SUB in 1\r\nPUB foo in 0\r\n\r\n")

    assert b"NATS/1.0 503\r\nNats-Subject: bar\r\n" in found


@pytest.mark.parametrize(
    ("user", "seen"),
    [
        (b"said", b"-ERR 'Permissions Violation for Publish to \"bar\"'\r\n"),
        (b"meant", b"MSG bar 1 1\r\n1\r\n"),
    ],
)
def test_permissions_are_asked_about_the_new_subject(
    server: DropIn, user: bytes, seen: bytes
) -> None:
    options = QUIET + b',"user":"%b","pass":"p"' % user

    found = answers(server, b"SUB bar 1\r\nPUB foo 1\r\n1\r\n", options)

    assert found == seen + b"PONG\r\n"


def test_streams_and_their_api_are_reached_through_mappings(server: DropIn) -> None:
    create = b'{"name":"S","subjects":["stored"]}'
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB in 1\r\n')
        subject = b"$JS.my.API.STREAM.CREATE.S"
        connection.sendall(b"PUB %b in %d\r\n%b\r\n" % (subject, len(create), create))
        receive_until(connection, b'"did_create":true')
        connection.sendall(b"PUB js.in in 1\r\nx\r\n")
        seen = receive_until(connection, b'"seq":')

    assert b'"stream":"S"' in seen


def test_a_reload_takes_new_mappings(name: str, tmp_path: Path) -> None:
    reloads = [
        ("mappings { foo: baz }", b"MSG baz 1 0\r\n"),
        ("", b"MSG baz 1 0\r\n"),  # without a block what is in force stays
        ("mappings { other: x }", b"MSG foo 1 0\r\n"),
        ("mappings {}", b"MSG foo 1 0\r\n"),
    ]
    path = config(tmp_path, "mappings { foo: bar }")
    with (
        DropIn(name, "-c", path) as server,
        socket.create_connection(server.address, timeout=30) as connection,
    ):
        connection.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB > 1\r\nPING\r\n')
        receive_until(connection, b"PONG\r\n")
        for count, (line, expected) in enumerate(reloads, 1):
            config(tmp_path, line)
            server.send(signal.SIGHUP)
            eventually(partial(reloaded, server, count))
            connection.sendall(b"PUB foo 0\r\n\r\nPING\r\n")
            assert expected in receive_until(connection, b"PONG\r\n"), line
        assert "[INF] Reloaded: accounts" in server.texts()


def reloaded(server: DropIn, count: int) -> bool:
    return server.log().count("Reloaded server configuration") >= count
