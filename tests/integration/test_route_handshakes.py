"""Who becomes a peer, who does not and what he is told, and what happens when one is lost."""

# Subject: routes

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from core.node.server import ServerOptions
from tests.support.cluster import (
    Client,
    Member,
    jetgate,
    meshed,
    nats_server,
)
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.route_peer import Peer, connect, info

PASSWORD = ("user: u", "password: p")
AUTHORIZATION = f"authorization {{ {', '.join(PASSWORD)}, timeout: 20 }}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


M = TypeVar("M", bound=Member)


def started(stack: ExitStack, member: M) -> M:
    stack.callback(member.stop)
    member.start()
    return member


@pytest.fixture(scope="module", params=["jetgate", "nats-server"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Member]:
    """A server of either kind whose peers give a password."""
    member: Member
    if request.param == "jetgate":
        member = jetgate(user="u", password="p", timeout_s=20.0)
    else:
        member = nats_server(cluster=[AUTHORIZATION])
    try:
        yield member.start()
    finally:
        member.stop()


@pytest.fixture
def peer(guarded: Member) -> Iterator[Peer]:
    peer = Peer(guarded.route_port)
    try:
        yield peer
    finally:
        peer.close()


def test_the_info_of_a_server(guarded: Member, peer: Peer) -> None:
    said = peer.info
    assert said["server_id"] == guarded.server_id()
    assert (said["cluster"], said["headers"], said["auth_required"]) == ("test", True, True)
    assert (said["version"], said["max_payload"]) == ("2.15.1", 1048576)
    assert (said["host"], said["port"]) == ("127.0.0.1", guarded.route_port)
    assert said["connect_urls"] == [f"127.0.0.1:{guarded.address[1]}"]


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ([connect(**{"pass": "x"})], b"-ERR 'Authorization Violation'"),
        ([info()], b"-ERR 'Authorization Violation'"),
        ([b"RS+ $G a"], b"-ERR 'Authorization Violation'"),
        ([b"RMSG $G a 60000000", b"the beginning"], b"-ERR 'Authorization Violation'"),
        ([connect(lang="go")], b"-ERR 'attempted to connect to route port'"),
        (
            [connect(cluster="other")],
            b'-ERR \'Rejecting connection, cluster name "other" does not match "test"\'',
        ),
        ([connect(), info(cluster="other")], b""),
        ([connect(), info(), b"PING", b"FOO"], b"-ERR 'Unknown Protocol Operation'"),
        ([connect(), info(), b"PING", b"RS+ $G"], b""),
        ([connect(), info(), b"PING", b"RMSG $G a x"], b""),
    ],
)
def test_refused_peers(peer: Peer, sent: list[bytes], answer: bytes) -> None:
    peer.send(*sent)
    rest = peer.rest().split(b"\r\n")
    assert [line for line in rest if line.startswith(b"-ERR")] == ([answer] if answer else [])


@pytest.mark.parametrize("kind", ["jetgate", "nats-server"])
def test_a_silent_peer_is_closed(stack: ExitStack, kind: str) -> None:
    limit = "authorization { user: u, password: p, timeout: 0.1 }"
    member = started(
        stack, jetgate(timeout_s=0.1) if kind == "jetgate" else nats_server(cluster=[limit])
    )
    peer = Peer(member.route_port)
    stack.callback(peer.close)
    assert peer.rest() == b"-ERR 'Authentication Timeout'\r\n"


def test_a_second_connection_of_a_peer_is_closed(guarded: Member, peer: Peer) -> None:
    peer.send(connect(), info(), b"PING")
    while peer.line() != b"PONG":
        pass
    second = Peer(guarded.route_port)
    try:
        second.send(connect(), info(), b"PING")
        assert b"PONG" not in second.rest()
        peer.send(b"PING")
        while peer.line() != b"PONG":
            pass
    finally:
        second.close()
    peer.close()
    eventually(lambda: "P" * 56 not in guarded.peers())


def test_interest_is_announced_by_subject_and_queue_group(guarded: Member, peer: Peer) -> None:
    peer.send(connect(), info(), b"PING")
    while peer.line() != b"PONG":
        pass
    with Client(guarded) as client:
        told: list[bytes] = []
        for command in (
            b"SUB told.a 1\r\nSUB told.a 2\r\nSUB told.a q 3\r\nSUB told.a q 4\r\n",
            b"UNSUB 1\r\nUNSUB 4\r\n",
            b"UNSUB 2\r\nUNSUB 3\r\n",
            b"SUB told.b 5\r\n",
        ):
            client.send(command)
            client.flush()
        while told[-1:] != [b"RS+ $G told.b"]:
            line = peer.line()
            if b"told." in line:
                told.append(line)
    assert told == [
        b"RS+ $G told.a",
        b"RS+ $G told.a q 1",
        b"RS+ $G told.a q 2",
        b"RS+ $G told.a q 1",
        b"RS- $G told.a",
        b"RS- $G told.a q",
        b"RS+ $G told.b",
    ]
    assert peer.line() == b"RS- $G told.b"
    peer.close()
    eventually(lambda: "P" * 56 not in guarded.peers())


def test_a_message_for_several_groups_is_one_line(guarded: Member, peer: Peer) -> None:
    peer.send(connect(), info(), b"RS+ $G lot", b"RS+ $G lot g 1", b"RS+ $G * h 1", b"PING")
    while peer.line() != b"PONG":
        pass
    with Client(guarded) as client:
        client.send(
            b"PUB lot 1\r\na\r\nPUB lot r 1\r\nb\r\nHPUB lot 12 13\r\nNATS/1.0\r\n\r\nc\r\n"
        )
        found: list[list[bytes]] = []
        while len(found) < 3:
            line = peer.line()
            if line.startswith((b"RMSG", b"HMSG")):
                found.append(line.split(b" "))
    assert [sorted(words) for words in found] == [
        sorted(b"RMSG $G lot | g h 1".split(b" ")),
        sorted(b"RMSG $G lot + r g h 1".split(b" ")),
        sorted(b"HMSG $G lot | g h 12 13".split(b" ")),
    ]
    peer.close()
    eventually(lambda: "P" * 56 not in guarded.peers())


def test_a_new_server_is_made_known_to_the_others(guarded: Member, peer: Peer) -> None:
    peer.send(connect(), info(), b"PING")
    while peer.line() != b"PONG":
        pass
    other = Peer(guarded.route_port)
    try:
        named = {"server_id": "Q" * 56, "server_name": "Q", "port": 4321, "gossip_mode": 0}
        other.send(connect(name="Q" * 56), info(**named, auth_required=True), b"PING")
        while not (line := peer.line()).startswith(b"INFO"):
            pass
        told = json.loads(line[5:])
        assert (told["server_id"], told["server_name"]) == ("Q" * 56, "Q")
        assert told["ip"] == "nats-route://127.0.0.1:4321/"
    finally:
        other.close()
    peer.close()
    eventually(lambda: not guarded.peers())


# -- who dials ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [("jetgate", "jetgate"), ("jetgate", "nats-server"), ("nats-server", "jetgate")],
)
def test_a_made_up_name_gives_way(stack: ExitStack, first: str, second: str) -> None:
    """Whoever dials: the name of the cluster is that which was configured."""
    one: Member = jetgate() if first == "jetgate" else nats_server()
    started(stack, one)
    two: Member
    if second == "jetgate":
        two = jetgate([one], name="made-up", is_dynamic=True)
    else:
        two = nats_server([one], name="")
    started(stack, two)
    meshed([one, two])
    assert [name_of(member) for member in (one, two)] == ["test", "test"]


@pytest.mark.parametrize("own", ["!", "~"])
@pytest.mark.parametrize("dials", ["jetgate", "nats-server"])
def test_of_two_made_up_names_the_greater_stays(stack: ExitStack, own: str, dials: str) -> None:
    ports = [free_port(), free_port()]
    wanted = ports[1:] if dials == "jetgate" else []
    ours = jetgate(name=own, is_dynamic=True, port=ports[0], ports=wanted)
    started(stack, ours)
    asked = ports[:1] if dials == "nats-server" else []
    theirs = started(stack, nats_server(name="", port=ports[1], ports=asked))
    meshed([ours, theirs])
    names = {name_of(ours), name_of(theirs)}
    assert len(names) == 1
    assert (own in names) == (own == "~")


def name_of(member: Member) -> str:
    """The cluster's name, as other servers are told it."""
    peer = Peer(member.route_port)
    peer.close()
    return str(peer.info["cluster"])


def test_credentials_of_routes_are_given(stack: ExitStack, guarded: Member) -> None:
    given = {"user": "u", "password": "p"}
    one = started(stack, jetgate([guarded], given=given, user="u", password="p"))
    two = started(stack, nats_server([guarded], cluster=[AUTHORIZATION], given="u:p@"))
    meshed([guarded, one, two])


@pytest.mark.parametrize("kind", ["jetgate", "nats-server"])
def test_both_dial_each_other_and_one_connection_stays(stack: ExitStack, kind: str) -> None:
    """Both know the other, and jetgate also itself and an address where nobody is."""
    ports = [free_port() for _ in range(3)]
    two: Member
    if kind == "jetgate":
        two = jetgate(ports=ports, port=ports[1])
    else:
        two = nats_server(ports=ports[:1], port=ports[1])
    one = started(stack, jetgate(ports=ports, port=ports[0]))
    started(stack, two)
    meshed([one, two])
    with Client(one) as publisher, Client(two) as subscriber:
        subscriber.send(b"SUB once 1\r\n")
        subscriber.await_interest(publisher)
        found = subscriber.after(publisher, b"PUB once 1\r\nx\r\n")
        assert [frame.line for frame in found] == [b"MSG once 1 1"]


@pytest.mark.parametrize("kind", ["jetgate", "nats-server"])
def test_a_lost_server_is_dialled_until_it_is_back(stack: ExitStack, kind: str) -> None:
    """Its clients are no interest meanwhile, and those of its next life are again."""
    port = free_port()

    def other() -> Member:
        return jetgate(port=port) if kind == "jetgate" else nats_server(port=port)

    lost = started(stack, other())
    here = started(stack, jetgate([lost]))
    meshed([here, lost])
    with Client(here) as asking:
        asking.send(b"SUB inbox 1\r\n")
        answers_at(lost, asking)
        lost.stop()
        eventually(lambda: asking.ask(b"PUB service inbox 1\r\nq\r\n"))
        lost = started(stack, other())
        meshed([here, lost])
        answers_at(lost, asking)


def answers_at(member: Member, asking: Client) -> None:
    """Somebody who serves there is asked, and leaves."""
    with Client(member) as serving:
        serving.send(b"SUB service 1\r\n")
        serving.await_interest(asking)
        assert asking.ask(b"PUB service inbox 1\r\nq\r\n") == []
        assert serving.frame().payload == b"q"


def test_two_servers_with_jetstream_are_no_cluster(stack: ExitStack) -> None:
    member = started(stack, jetgate(options=ServerOptions(jetstream=True)))
    peer = Peer(member.route_port)
    stack.callback(peer.close)
    assert peer.info["jetstream"]
    peer.send(connect(), info(jetstream=True))
    text = b"-ERR 'Rejecting connection, this server and \"P\" both have JetStream'\r\n"
    assert peer.rest() == text
    assert member.peers() == set()


def test_a_real_server_with_jetstream_is_refused_by_one_that_has_it(stack: ExitStack) -> None:
    member = started(stack, jetgate(options=ServerOptions(jetstream=True)))
    real = nats_server([member])
    real.add("server_name: real", f'jetstream {{ store_dir: "{real.dir}" }}')
    started(stack, real)
    eventually(lambda: "both have JetStream'" in real.log())
    assert member.peers() == set()
