"""Links between nodes of one database: who is let in, who is not, and who of them leads."""

# Subject: several nodes

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from core.client import Msg, attach, connect
from core.node.owner_links import OwnerLinks
from core.node.ownership.state import Command, PeerReleased, Step
from core.node.publish_gate import PublishGate
from core.node.server import Server, ServerOptions
from core.pubsub.authored import with_author
from core.route import dialing
from core.route.database_mesh import DatabaseMesh
from core.route.handshake import RouteInfo
from core.route.proof import LinkProof
from core.route.settings import ClusterSettings
from core.runtime.clock import SystemClock
from core.transport.author_publisher import author_of
from core.transport.loopback import connect_loopback
from core.transport.session import ClientSession
from core.units import LeaseGroup, Nanos
from tests.support.eventually import observed
from tests.support.lease_groups import by_group, lease_groups
from tests.support.ownership import dispatch_of, own, owners, transfer
from tests.support.scenario import run_within

SECRET = b"s" * 32
SECOND = 1_000_000_000
ANYWHERE = ClusterSettings(name="", host="127.0.0.1", port=0)
CONNECT = b'CONNECT {"echo":true,"name":"X","cluster":"%s"}\r\n'


@asynccontextmanager
async def node(
    secret: bytes = SECRET, settings: ClusterSettings = ANYWHERE
) -> AsyncIterator[DatabaseMesh]:
    server = Server(ServerOptions(port=0, links=settings), SystemClock())
    await server.listen()
    await server.join(secret)
    assert server.links is not None
    try:
        yield server.links
    finally:
        await server.close()


async def info_of(reader: asyncio.StreamReader) -> dict[str, Any]:
    line = await reader.readline()
    assert line.startswith(b"INFO ")
    return dict(json.loads(line[5:]))


def test_nodes_of_one_database_are_linked_and_learn_the_leader_after_its_interest() -> None:
    async def scenario() -> None:
        async with node() as one, node() as two, node() as three:
            own(dispatch_of(one), by_group({0: 7, 3: 7}))
            one.hub.default_account().subscribe(b"served.*", lambda *_: None)
            joined: list[int] = []
            one.linked.subscribe(lambda: joined.append(len(one.nodes)))
            for mesh in (two, three):
                mesh.dial(*one.address)
            three.dial(*two.address)
            await observed(lambda: owners(two) and owners(three) and len(two.peers) == 2)
            assert owners(two) == dict.fromkeys((0, 3), two.peers[one.hub.server_id])
            # Whoever knows the leader knows what it takes.
            assert two.hub.default_account().has_interest(b"served.a")
            assert not owners(one)
            assert joined == [1, 2]
            assert [
                OwnerLinks(dispatch_of(each), each).owner_name(LeaseGroup(3)) for each in (one, two)
            ] == [one.hub.server_name] * 2

            heard: list[tuple[str, frozenset[int], bool]] = []

            def hear(step: Step) -> None:
                if isinstance(step.event, PeerReleased):
                    heard.append((step.event.to, step.event.groups, step.event.is_requested))

            for mesh in (two, three):
                dispatch_of(mesh).subscribe({Command.PLACE: hear})
            transfer(dispatch_of(one), {two.hub.server_name: lease_groups(3)}, is_requested=True)
            await observed(lambda: len(heard) == 2)
            own(dispatch_of(two), by_group({3: 9}))
            await observed(lambda: 3 in owners(one) and 3 in owners(three))
            assert set(heard) == {(two.hub.server_name, frozenset((3,)), True)}
            heard.clear()
            transfer(dispatch_of(two), {one.hub.server_name: lease_groups(3)})
            await observed(lambda: heard)
            assert heard[0] == (one.hub.server_name, frozenset((3,)), False)

    run_within(60, scenario)


def test_a_linked_node_is_not_dialled_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "_PAUSE_S", 0.0)
    monkeypatch.setattr(dialing, "_JITTER_S", 0.0)

    async def scenario() -> None:
        async with node() as one, node() as two:
            one.dial(*two.address)
            await observed(lambda: one.peers and two.peers)
            two.dial(*one.address)
            await observed(lambda: "Duplicate Route" in caplog.text)
            for _ in range(50):  # turns enough for many more
                await asyncio.gather(*(link.read() for link in one.peers.values()))
            assert caplog.text.count("Route connection created") == 4

    caplog.set_level(logging.INFO, logger="core.route")
    run_within(60, scenario)


def test_of_two_nodes_that_claim_a_group_the_later_epoch_wins() -> None:
    async def scenario() -> None:
        async with node() as former, node() as later, node() as third:
            own(dispatch_of(former), by_group({0: 1, 3: 1}))
            third.dial(*former.address)
            await observed(lambda: owners(third))
            own(dispatch_of(later), by_group({3: 2}))
            third.dial(*later.address)
            later.dial(*former.address)
            third_reach = OwnerLinks(dispatch_of(third), third)
            await observed(lambda: third_reach.owner_name(LeaseGroup(3)) == later.hub.server_name)
            assert {link.info.server_id for link in third.peers.values()} == {later.hub.server_id}

    run_within(60, scenario)


@pytest.mark.parametrize("stood_still", ["", "until now", "until just before"])
def test_only_a_node_that_was_stopped_does_not_read_from_clients(stood_still: str) -> None:
    """Whoever loses its leader: clients are held, and what they published meanwhile is served."""

    async def scenario() -> None:
        server = Server(ServerOptions(port=0, links=ANYWHERE), SystemClock())
        gate = PublishGate(server)
        await server.listen()
        await server.join(SECRET)
        mesh = server.links
        assert mesh is not None
        async with node() as leader:
            own(dispatch_of(leader), by_group({0: 1}))
            mesh.dial(*leader.address)
            await observed(lambda: gate.is_open)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n')
            await reader.readuntil(b"PONG\r\n")
            assert mesh._timer is not None
            mesh._timer.cancel()
            shift = (-3 if stood_still else 3600) * SECOND
            mesh._ticked = Nanos(mesh.hub.clock.monotonic() + shift)
            if stood_still == "until just before":
                mesh._tick()
                mesh._timer.cancel()
            own(dispatch_of(leader), {})
            await observed(lambda: not gate.is_open)
            writer.write(b"PUB a 1\r\nx\r\n")
            if not stood_still:
                own(dispatch_of(leader), by_group({0: 2}))
            said = b""
            with contextlib.suppress(ConnectionResetError):  # closed with something unread
                said = await (reader.read() if stood_still else reader.readuntil(b"x\r\n"))
            assert (b"MSG a 1 1" in said) != bool(stood_still)
            writer.close()
        await gate.close()
        await server.close()

    run_within(60, scenario)


@pytest.mark.parametrize("proves", ["nothing", "by another secret", "a nonce alone", "too late"])
def test_a_node_that_does_not_prove_the_secret_is_refused(
    caplog: pytest.LogCaptureFixture, proves: str
) -> None:
    async def scenario() -> None:
        async with node() as mesh:
            reader, writer = await asyncio.open_connection(*mesh.address)
            greeting = await info_of(reader)
            assert "jetgate_proof" not in greeting
            assert "jetgate_claims" not in greeting
            info = {"server_id": "X", "server_name": "x", "cluster": mesh.name, "jetstream": True}
            proving = LinkProof(b"t" * 32, "X", has_dialled=True)
            proving.meet(RouteInfo(server_id=mesh.hub.server_id, nonce=greeting["jetgate_nonce"]))
            if proves != "nothing":
                info["jetgate_nonce"] = proving.nonce
            if proves == "by another secret":
                info["jetgate_proof"] = proving.own()
            said = CONNECT % mesh.name.encode() + b"INFO %b\r\n" % json.dumps(info).encode()
            if proves == "too late":
                said = CONNECT % mesh.name.encode() + b"RS+ $G > \r\n"
            writer.write(said)
            assert (await reader.read()).startswith(b"-ERR '")
            writer.close()
            await observed(lambda: not mesh._links)
            assert not mesh.peers

    with caplog.at_level(logging.WARNING):
        run_within(60, scenario)
    assert len(caplog.records) == 1


def test_an_imposter_that_listens_gets_nothing() -> None:
    """It knows everything but the secret, and says back what it is told."""
    told: list[bytes] = []
    name, over = "", asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = LinkProof(SECRET, "X", has_dialled=False).nonce
        mine = {"server_id": "X", "cluster": name, "jetstream": True, "jetgate_nonce": nonce}
        writer.write(b"INFO %b\r\n" % json.dumps(mine).encode())
        told.append(await reader.readline())
        info = await info_of(reader)
        told.append(json.dumps(info).encode())
        # The proof of the other, as its own; then interest, as if it had been believed.
        mine["jetgate_proof"] = info["jetgate_proof"]
        writer.write(b"INFO %b\r\nRS+ $G secret.>\r\n" % json.dumps(mine).encode())
        told.append(await reader.read())
        writer.close()
        over.set()

    async def scenario() -> None:
        nonlocal name, over
        over = asyncio.Event()
        async with node() as mesh:
            name = mesh.name
            own(dispatch_of(mesh), by_group({0: 3}))
            mesh.hub.default_account().subscribe(b"private", lambda *_: None)
            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            address = server.sockets[0].getsockname()[:2]
            mesh.dial(*address)
            await over.wait()
            mesh.dial_no_more(*address)
            assert not mesh.peers
            assert not mesh.hub.default_account().has_interest(b"secret.a")
            server.close()
            await server.wait_closed()

    run_within(60, scenario)
    said = b"".join(told)
    assert said.endswith(b"-ERR 'Authorization Violation'\r\n") or b"-ERR" in said
    for private in (SECRET, SECRET.hex().encode(), b"private", b"jetgate_claims", b"RS+"):
        assert private not in said


def test_a_node_of_another_database_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with node() as one, node(b"t" * 32) as other:
            other.dial(*one.address)
            await observed(lambda: "Cluster Name Conflict" in caplog.text)
            assert not one.peers
            assert not other.peers

    with caplog.at_level(logging.INFO):
        run_within(60, scenario)


def test_members_of_a_named_cluster_without_the_secret_are_not_believed_about_leaders() -> None:
    """A node, and a server without JetStream that says of itself that it leads."""
    named = ClusterSettings(name="east", host="127.0.0.1", port=0)

    async def scenario() -> None:
        async with node(settings=named) as mesh, node(settings=named) as other:
            own(dispatch_of(other), by_group({0: 3}))
            mesh.dial(*other.address)
            await observed(lambda: owners(mesh))
            reader, writer = await asyncio.open_connection(*mesh.address)
            await info_of(reader)
            info: dict[str, Any] = {"server_id": "X", "server_name": "x", "cluster": "east"}
            claims = {"jetgate_claims": [[9, "1"]], "jetgate_begins": True}
            said = CONNECT % b"east" + b"INFO %b\r\n" % json.dumps(info | claims).encode()
            writer.write(said + b"RS+ $G heard\r\n")
            await observed(lambda: mesh.hub.default_account().has_interest(b"heard"))
            writer.write(b"INFO %b\r\nRS+ $G after\r\n" % json.dumps(info | claims).encode())
            await observed(lambda: mesh.hub.default_account().has_interest(b"after"))
            assert not mesh.is_beginning
            assert owners(mesh) == {0: mesh.peers[other.hub.server_id]}
            assert [link.info.server_id for link in mesh.nodes] == [other.hub.server_id]
            assert "X" in mesh.peers
            writer.close()

    run_within(60, scenario)


@pytest.mark.parametrize("proves", ["nothing", "by another secret"])
def test_in_a_cluster_with_a_name_another_jetstream_is_refused(
    caplog: pytest.LogCaptureFixture, proves: str
) -> None:
    named = ClusterSettings(name="east", host="127.0.0.1", port=0)

    async def scenario() -> None:
        async with node(settings=named) as mesh:
            reader, writer = await asyncio.open_connection(*mesh.address)
            greeting = await info_of(reader)
            info = {"server_id": "X", "server_name": "x", "cluster": "east", "jetstream": True}
            proving = LinkProof(b"t" * 32, "X", has_dialled=True)
            proving.meet(RouteInfo(server_id=mesh.hub.server_id, nonce=greeting["jetgate_nonce"]))
            if proves != "nothing":
                info |= {"jetgate_nonce": proving.nonce, "jetgate_proof": proving.own()}
            writer.write(CONNECT % b"east" + b"INFO %b\r\n" % json.dumps(info).encode())
            assert (await reader.read()).startswith(b"-ERR 'Rejecting connection, this server and")
            writer.close()
            await observed(lambda: not mesh._links)
            assert not mesh.peers

    with caplog.at_level(logging.WARNING):
        run_within(60, scenario)
    [record] = caplog.records
    many = "both have JetStream" if proves == "nothing" else "JetStream over two databases"
    assert many in record.getMessage()


class Listener:
    """Somebody between two nodes: passes on what they send, and keeps it."""

    def __init__(self, to: tuple[str, int]) -> None:
        self.dialled = self.accepted = b""
        self._to = to
        self._writers: list[asyncio.StreamWriter] = []

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection(*self._to)
        self._writers += [writer, to]
        await asyncio.gather(
            self._keep(reader, to, "dialled"), self._keep(there, writer, "accepted")
        )

    async def _keep(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: str
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                setattr(self, side, getattr(self, side) + data)
                writer.write(data)
        writer.close()

    def disconnect(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def between(to: tuple[str, int]) -> AsyncIterator[tuple[Listener, tuple[str, int]]]:
    """A listener in front of a node, and its address."""
    listener = Listener(to)
    server = await asyncio.start_server(listener.pass_on, "127.0.0.1", 0)
    yield listener, server.sockets[0].getsockname()[:2]
    listener.disconnect()
    server.close()


def test_a_recorded_handshake_is_refused_when_replayed() -> None:
    async def scenario() -> None:
        async with node() as one, node() as two, between(one.address) as (recorded, address):
            own(dispatch_of(one), by_group({0: 3}))
            two.dial(*address)
            await observed(lambda: owners(two) and one.peers)
            two.dial_no_more(*address)
            recorded.disconnect()
            await observed(lambda: not (one.peers or two.peers))

            # What the one who dialled has said, to the same node and to another.
            async with node() as three:
                for mesh in (one, three):
                    reader, writer = await asyncio.open_connection(*mesh.address)
                    writer.write(recorded.dialled + b"RS+ $G secret.>\r\n")
                    answer = await reader.read()
                    assert b"of the database's secret" in answer
                    assert b"jetgate_claims" not in answer
                    assert not mesh.peers
                    assert not mesh.hub.default_account().has_interest(b"secret.a")
                    writer.close()

            # What the one who accepted has said, to who dials again.
            over = asyncio.Event()

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(recorded.accepted + b"RS+ $G secret.>\r\n")
                assert b"jetgate_claims" not in await reader.read()
                writer.close()
                over.set()

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            place = server.sockets[0].getsockname()[:2]
            two.dial(*place)
            await over.wait()
            two.dial_no_more(*place)
            assert not two.peers
            assert not owners(two)
            assert not two.hub.default_account().has_interest(b"secret.a")
            server.close()

    run_within(60, scenario)


def test_a_node_that_dials_itself_sends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with node() as one, between(one.address) as (recorded, address):
            own(dispatch_of(one), by_group({0: 3}))
            one.dial(*address)
            await observed(lambda: "Duplicate Route" in caplog.text)
            one.dial_no_more(*address)
            assert not one.peers
            for said in (recorded.dialled, recorded.accepted):
                assert b"jetgate_claims" not in said
                assert b"RS+" not in said

    with caplog.at_level(logging.INFO):
        run_within(60, scenario)


def test_addresses_that_peers_name_are_dialled_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dialing, "GOSSIPED_MAX", 3)
    named = ClusterSettings(name="east", host="127.0.0.1", port=0)

    async def scenario() -> None:
        async with node(settings=named) as mesh:
            for number in range(9):
                ip = f"nats-route://127.0.0.1:{number + 1}/"
                mesh.met(RouteInfo(server_id=f"X{number}", host=f"h{number}", port=1, ip=ip))
            assert len(mesh._dialer._tasks) == 3
            mesh.dial("127.0.0.1", 1000)  # a node that the database names
            assert len(mesh._dialer._tasks) == 4
            for task in list(mesh._dialer._tasks.values())[:3]:
                task.cancel()
            await asyncio.sleep(0)
            ip = "nats-route://127.0.0.1:20/"
            mesh.met(RouteInfo(server_id="X", host="h", port=1, ip=ip))
            assert ("127.0.0.1", 20) in mesh._dialer._tasks

    with caplog.at_level(logging.WARNING):
        run_within(60, scenario)
    assert caplog.text.count("addresses are gossiped") == 6


def test_a_stream_on_another_node_learns_the_author_of_a_batch_and_its_subscribers_do_not() -> None:
    """Over HTTP a batch belongs to a connection, wherever its stream is led."""
    block = b"NATS/1.0\r\nNats-Batch-Id: B\r\nNats-Batch-Sequence: 1\r\n\r\n"

    async def scenario() -> None:
        async with node() as one, node() as two:
            taken: list[bytes] = []
            stream = one.hub.default_account().subscribe(b"s.*", lambda *m: taken.append(m[3]))
            stream.takes_authors = True
            listener = await connect(attach(partial(connect_loopback, one.hub)))
            heard: list[Msg] = []
            listener.subscribe(b"s.*", heard.extend)
            await listener.flush()
            two.dial(*one.address)
            client = await connect(attach(partial(connect_loopback, two.hub)))
            await observed(lambda: two.hub.default_account().has_interest(b"s.a"))

            client.publish(b"s.a", b"x", headers=block)

            await observed(lambda: taken and heard)
            session = two.hub.sessions[client.info.client_id]
            assert isinstance(session, ClientSession)
            author = author_of(session)
            assert taken == [with_author(block, author)]
            assert [msg.headers for msg in heard] == [block]
            await client.close()
            await listener.close()

    run_within(60, scenario)
