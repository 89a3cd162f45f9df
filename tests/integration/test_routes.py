"""Core NATS over routes: four servers in one mesh, two of each kind, and every pair of kinds.

One nats-server offers a pool of routes, as it does by default, the other none.
"""

# Subject: routes

import json
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.node.server import ServerOptions
from core.pubsub.mappings import Destination, Mapping
from tests.support.cluster import (
    Client,
    JetgateMember,
    Member,
    NatsMember,
    gathered,
    jetgate,
    meshed,
    nats_server,
)
from tests.support.eventually import eventually
from tests.support.websocket import WebSocket, request
from tests.support.wire import HELLO, Frame

Members = dict[str, Member]
BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"


@pytest.fixture(scope="module")
def mesh() -> Iterator[Members]:
    """All dial the first; they find each other by what it tells them."""
    first = jetgate(options=ServerOptions(jetstream=False, ws_port=0))
    started: list[Member] = []
    try:
        started.append(first.start())
        started.append(nats_server([first]).start())
        started.append(
            nats_server(
                [first],
                cluster=["pool_size: -1", "compression: s2_fast"],
                lines=["websocket { listen: '127.0.0.1:-1', no_tls: true }"],
            ).start()
        )
        started.append(jetgate([first]).start())
        meshed(started)
        yield dict(zip(("jetgate", "pooled", "single", "other"), started, strict=True))
    finally:
        for member in started:
            member.stop()


PAIRS = (
    ("jetgate", "other"),
    ("jetgate", "pooled"),
    ("pooled", "jetgate"),
    ("single", "other"),
    ("other", "single"),
)


@pytest.fixture(params=PAIRS, ids=lambda pair: "-".join(pair))
def pair(mesh: Members, request: pytest.FixtureRequest) -> Iterator[tuple[Client, Client]]:
    """Somebody who publishes at one server, somebody who subscribes at another."""
    here, there = request.param
    with Client(mesh[here]) as publisher, Client(mesh[there]) as subscriber:
        yield publisher, subscriber


def lines(frames: list[Frame]) -> list[bytes]:
    return [frame.line for frame in frames]


def test_a_message_arrives_with_reply_and_headers(pair: tuple[Client, Client]) -> None:
    publisher, subscriber = pair
    subscriber.send(b"SUB greet.* 1\r\nSUB greet.> 2\r\n")
    subscriber.await_interest(publisher)
    body = BLOCK + b"hello"
    found = subscriber.after(
        publisher,
        b"PUB greet.a 2\r\nhi\r\nPUB greet.b inbox 0\r\n\r\n"
        b"HPUB greet.c inbox %d %d\r\n%b\r\n" % (len(BLOCK), len(body), body),
    )
    assert [(f.subject, f.reply, f.headers, f.payload) for f in found] == [
        (b"greet.a", b"", b"", b"hi"),
        (b"greet.a", b"", b"", b"hi"),
        (b"greet.b", b"inbox", b"", b""),
        (b"greet.b", b"inbox", b"", b""),
        (b"greet.c", b"inbox", BLOCK, b"hello"),
        (b"greet.c", b"inbox", BLOCK, b"hello"),
    ]


def test_large_and_many_messages_keep_their_order(pair: tuple[Client, Client]) -> None:
    publisher, subscriber = pair
    subscriber.send(b"SUB many 1\r\n")
    subscriber.await_interest(publisher)
    payloads = [b"%06d" % n + b"x" * (n % 700) for n in range(2000)] + [b"y" * 1_000_000]
    data = b"".join(b"PUB many %d\r\n%b\r\n" % (len(p), p) for p in payloads)
    found = subscriber.after(publisher, data)
    assert [frame.payload for frame in found] == payloads


def test_request_and_reply(pair: tuple[Client, Client]) -> None:
    asking, serving = pair
    serving.send(b"SUB service 1\r\n")
    asking.send(b"SUB inbox.* 1\r\n")
    serving.await_interest(asking)
    asking.send(b"PUB service inbox.7 1\r\nq\r\n")
    request = serving.frame()
    assert (request.subject, request.reply, request.payload) == (b"service", b"inbox.7", b"q")
    serving.send(b"PUB inbox.7 1\r\na\r\n")
    answer = asking.frame()
    assert (answer.line, answer.payload) == (b"MSG inbox.7 1 1", b"a")


def test_no_responders_are_reported_only_without_a_subscription(
    pair: tuple[Client, Client],
) -> None:
    asking, serving = pair
    asking.send(b"SUB inbox.* 1\r\n")
    assert [f.headers[:12] for f in asking.ask(b"PUB lonely inbox.1 0\r\n\r\n")] == [
        b"NATS/1.0 503"
    ]
    serving.send(b"SUB lonely 1\r\n")
    serving.await_interest(asking)
    assert asking.ask(b"PUB lonely inbox.2 0\r\n\r\n") == []
    assert serving.frame().reply == b"inbox.2"
    serving.send(b"UNSUB 1\r\n")
    eventually(lambda: asking.ask(b"PUB lonely inbox.3 0\r\n\r\n"))


def test_one_member_of_a_queue_group_gets_a_message(mesh: Members) -> None:
    """Members at three servers, publishers at all: each message once.

    jetgate prefers members of its own; nats-server chooses among all by chance.
    """
    clients = {name: Client(member) for name, member in mesh.items()}
    try:
        serving = [clients[name] for name in ("jetgate", "pooled", "other")]
        for client in serving:
            client.send(b"SUB work group 1\r\nSUB work group 2\r\n")
        for client in serving:
            client.await_interest(*clients.values())
        for name, publisher in clients.items():
            data = b"".join(b"PUB work 3\r\n%03d\r\n" % n for n in range(100))
            got = [[f.payload for f in frames] for frames in gathered(publisher, serving, data)]
            assert sorted(chain(*got)) == [b"%03d" % n for n in range(100)], name
            if publisher in serving and mesh[name].kind == "jetgate":
                assert len(got[serving.index(publisher)]) == 100, name
            else:
                assert all(got), name
    finally:
        for client in clients.values():
            client.close()


def test_plain_and_grouped_subscribers_of_one_server(pair: tuple[Client, Client]) -> None:
    publisher, subscriber = pair
    subscriber.send(b"SUB mixed 1\r\nSUB mixed g 2\r\nSUB mixed g 3\r\nSUB mixed h 4\r\n")
    subscriber.await_interest(publisher)
    found = subscriber.after(publisher, b"PUB mixed back 2\r\nhi\r\n")
    assert {frame.reply for frame in found} == {b"back"}
    sids = sorted(frame.line.split(b" ")[2] for frame in found)
    assert sids in ([b"1", b"2", b"4"], [b"1", b"3", b"4"])


def test_a_message_goes_one_hop_and_arrives_once_everywhere(mesh: Members) -> None:
    clients = [Client(member) for member in mesh.values()]
    try:
        for client in clients:
            client.send(b"SUB all 1\r\nSUB * 2\r\n")
        for client in clients:
            client.await_interest(*clients)
        for publisher in clients:
            for frames in gathered(publisher, clients, b"PUB all 1\r\nx\r\n"):
                assert sorted(lines(frames)) == [b"MSG all 1 1", b"MSG all 2 1"]
    finally:
        for client in clients:
            client.close()


def test_a_subscription_ends_after_its_last_message(pair: tuple[Client, Client]) -> None:
    publisher, subscriber = pair
    subscriber.send(b"SUB few 1\r\nUNSUB 1 2\r\n")
    subscriber.await_interest(publisher)
    found = subscriber.after(publisher, b"PUB few 1\r\na\r\nPUB few 1\r\nb\r\nPUB few 1\r\nc\r\n")
    assert [frame.payload for frame in found] == [b"a", b"b"]
    publisher.send(b"SUB inbox 9\r\n")
    eventually(lambda: publisher.ask(b"PUB few inbox 0\r\n\r\n"))


def test_a_publisher_without_echo_reaches_others(mesh: Members) -> None:
    connect = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"echo":false}\r\n'
    with Client(mesh["jetgate"], connect) as quiet, Client(mesh["single"]) as other:
        quiet.send(b"SUB say 1\r\nSUB say g 2\r\n")
        other.send(b"SUB say 1\r\nSUB say g 2\r\n")
        other.await_interest(quiet)
        found = other.after(quiet, b"PUB say 2\r\nhi\r\n")
        assert sorted(lines(found)) == [b"MSG say 1 2", b"MSG say 2 2"]
        assert quiet.flush() == []


def test_clients_learn_all_servers(mesh: Members) -> None:
    """Only real servers tell their clients here: what jetgate's are told is the assembly's."""
    urls = {f"127.0.0.1:{member.address[1]}" for member in mesh.values()}

    def are_told() -> bool:
        with Client(mesh["pooled"]) as client:
            return set(client.info["connect_urls"]) == urls

    eventually(are_told)  # who was in the cluster a moment ago may still be known
    here = mesh["jetgate"]
    assert isinstance(here, JetgateMember)
    routes = here.server.mesh
    assert routes is not None
    others = urls - {f"127.0.0.1:{here.address[1]}"}
    eventually(lambda: set(here.call(routes.connect_urls)) == others)


def test_clients_over_websocket_learn_the_other_websocket_addresses(mesh: Members) -> None:
    serving = [mesh["jetgate"], mesh["single"]]
    places = [f"127.0.0.1:{member.ws_address[1]}" for member in serving]
    for member, own in zip(serving, places, strict=True):
        with WebSocket(member.ws_address) as web:
            web.ask(request())
            while not (said := web.frame().payload):
                pass
            told = json.loads(said.removeprefix(b"INFO "))["connect_urls"]
            assert (told[0], sorted(told)) == (own, sorted(places))


def test_a_route_counts_what_it_carries(mesh: Members) -> None:
    member, pooled = mesh["jetgate"], mesh["pooled"]
    assert isinstance(member, JetgateMember)
    routes = member.server.mesh
    assert routes is not None
    with Client(member) as publisher, Client(pooled) as subscriber:
        subscriber.send(b"SUB counted 1\r\n")
        subscriber.await_interest(publisher)

        def shown() -> tuple[int, int]:
            views = member.call(routes.routes)
            view = next(v for v in views if v.remote_id == pooled.server_id())
            assert view.rtt > 0
            assert view.uptime >= view.idle >= 0
            told = {(s.account, s.subject, s.queue) for s in view.subscriptions}
            assert ("$G", "counted", "") in told
            return view.out_msgs, view.out_bytes

        before = shown()
        publisher.send(b"PUB counted 5\r\nhello\r\n")
        publisher.flush()
        after = shown()
        assert (after[0] - before[0], after[1] - before[1]) == (1, 5)
        assert subscriber.frame().payload == b"hello"


def test_jetgate_announces_nothing_of_the_system_account(mesh: Members) -> None:
    single = mesh["single"]
    assert isinstance(single, NatsMember)
    routes: Any = single.page("routez?subs=1")["routes"]
    ids = {member.server_id() for member in mesh.values() if member.kind == "jetgate"}
    told = {route["remote_id"]: route.get("subscriptions_list") or [] for route in routes}
    assert ids <= set(told)
    assert not [subject for each in ids for subject in told[each] if "$SYS" in subject]


# -- what the server of a publisher decides, and what that of a subscriber ---------------------


@pytest.fixture(scope="module")
def strict(mesh: Members) -> Iterator[JetgateMember]:
    """One more server: its users have permissions, and it maps subjects."""
    limited = Permissions(subscribe=Rule(("open.>", "*.*", "_settle.>", "_fence.>"), ("open.no",)))
    users = Users(users=(User("u", "p", limited), User("v", "p")))
    mapping = Mapping("from.*", (Destination("to.$1"),))
    options = ServerOptions(jetstream=False, users=users, mappings=(mapping,))
    member = jetgate([mesh["jetgate"]], options=options)
    try:
        member.start()
        meshed([*mesh.values(), member])
        yield member
    finally:
        member.stop()


def login(user: bytes) -> bytes:
    return HELLO.replace(b"}", b',"user":"%b","pass":"p"}' % user)


@pytest.mark.parametrize("other", ["jetgate", "single"])
def test_permissions_of_a_subscriber_hold_for_what_comes_over_a_route(
    mesh: Members, strict: JetgateMember, other: str
) -> None:
    with Client(strict, login(b"u")) as subscriber, Client(mesh[other]) as publisher:
        subscriber.send(b"SUB *.* 1\r\n")
        subscriber.await_interest(publisher)
        data = b"PUB open.yes 1\r\na\r\nPUB open.no 1\r\nb\r\nPUB open.also 1\r\nc\r\n"
        found = subscriber.after(publisher, data)
        assert lines(found) == [b"MSG open.yes 1 1", b"MSG open.also 1 1"]


@pytest.mark.parametrize("other", ["jetgate", "single"])
def test_subjects_are_mapped_where_they_are_published(
    mesh: Members, strict: JetgateMember, other: str
) -> None:
    with Client(strict, login(b"v")) as strictly, Client(mesh[other]) as elsewhere:
        for client in (strictly, elsewhere):
            client.send(b"SUB from.* 1\r\nSUB to.* 2\r\n")
        for client in (strictly, elsewhere):
            client.await_interest(strictly, elsewhere)
        data = b"PUB from.a 1\r\nx\r\n"
        got = gathered(strictly, [strictly, elsewhere], data)
        assert [lines(frames) for frames in got] == [[b"MSG to.a 2 1"]] * 2
        got = gathered(elsewhere, [strictly, elsewhere], data)
        assert [lines(frames) for frames in got] == [[b"MSG from.a 1 1"]] * 2


def test_a_message_that_only_traces_reaches_no_subscriber(pair: tuple[Client, Client]) -> None:
    publisher, subscriber = pair
    subscriber.send(b"SUB traced 1\r\n")
    publisher.send(b"SUB report 9\r\n")
    subscriber.await_interest(publisher)
    asks = b"NATS/1.0\r\nNats-Trace-Dest: report\r\n\r\n"
    only = b"NATS/1.0\r\nNats-Trace-Dest: report\r\nNats-Trace-Only: true\r\n\r\n"
    data = b"".join(b"HPUB traced %d %d\r\n%b\r\n" % (len(h), len(h), h) for h in (only, asks))
    found = subscriber.after(publisher, data)
    assert [frame.subject for frame in found] == [b"traced"]


def test_a_client_that_leaves_is_no_interest(mesh: Members) -> None:
    with Client(mesh["other"]) as asking:
        asking.send(b"SUB inbox 1\r\n")
        with Client(mesh["jetgate"]) as serving:
            serving.send(b"SUB brief.> 1\r\nSUB brief.> q 2\r\n")
            serving.await_interest(asking)
            assert asking.is_heard(b"PUB brief.a inbox 0\r\n\r\n")
        eventually(lambda: not asking.is_heard(b"PUB brief.a inbox 0\r\n\r\n"))


def test_peers_are_notified_of_lame_duck_mode(mesh: Members) -> None:
    """Clients of others are no longer sent there; its routes stay until it ends."""
    leaving = jetgate([mesh["jetgate"]])
    try:
        leaving.start()
        meshed([*mesh.values(), leaving])
        url = f"127.0.0.1:{leaving.address[1]}"
        others = [mesh["pooled"], mesh["single"]]
        for member in others:  # it has the route a moment before it tells
            eventually(partial(tells, member, url))
        routes = leaving.server.mesh
        assert routes is not None
        leaving.call(routes.retire)
        for member in others:
            eventually(partial(lacks, member, url))
        meshed([*mesh.values(), leaving])
    finally:
        leaving.stop()


def tells(member: Member, url: str) -> bool:
    return url in told(member)


def lacks(member: Member, url: str) -> bool:
    return url not in told(member)


def told(member: Member) -> list[str]:
    """The places that a new client is told of."""
    with Client(member) as client:
        return list(client.info["connect_urls"])
