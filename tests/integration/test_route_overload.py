"""Too much for a route, or for a client behind it: who waits, who is closed, who is spared."""

# Subject: routes

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from core.jetstream.consumer.pump import TICK_BYTES
from core.node.server import ServerOptions
from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.pubsub.limits import Limits
from core.route.route_parser import RouteParser
from core.route.settings import ClusterSettings
from core.units import Seconds
from tests.support.cluster import Client, JetgateMember, Member, jetgate, meshed, nats_server
from tests.support.eventually import eventually
from tests.support.node import Node, running_node
from tests.support.route_peer import Peer, connect, info, narrow
from tests.support.wire import HELLO, Wire

MIB = 1 << 20
NARROW = 32 * 1024
"""A client or a peer that holds no more than about this in its kernel."""
PATIENT = Limits(max_pending=8 * MIB, write_deadline=Seconds(600))
"""Publishers wait while a MiB is unsent."""
HIGH = MIB
READ = 256_000
"""What the server reads at most from one client before it looks at others."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Reader:
    """What a peer is sent: the payloads by subject; PINGs are answered."""

    def __init__(self, peer: Peer) -> None:
        self.payloads: dict[bytes, list[bytes]] = {}
        self._peer = peer
        self._parser = RouteParser(self)

    def read(self) -> None:
        """Read once."""
        data = self._peer.file.read1(READ)
        assert data, "the link was closed"
        self._parser.feed(data)

    def got(self, subject: bytes) -> list[bytes]:
        return self.payloads.setdefault(subject, [])

    def on_message_begun(self) -> None: ...
    def on_sub(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None: ...
    def on_unsub(self, account: bytes, subject: bytes, queue: bytes) -> None: ...
    def on_info(self, body: bytes) -> None: ...
    def on_connect(self, body: bytes) -> None: ...
    def on_pong(self) -> None: ...
    def on_hold(self, *, is_held: bool) -> None: ...

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None:
        self.got(subject).append(payload)

    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        for subject, payload in zip(batch.subjects, batch.payloads, strict=True):
            self.got(subject).append(payload)

    def on_ping(self) -> None:
        self._peer.send(b"PONG")

    def on_err(self, text: bytes) -> None:
        raise AssertionError(text)


def peer_that_listens(stack: ExitStack, port: int, subject: bytes) -> Peer:
    """A server with a subscriber, which is known to be a peer now."""
    peer = Peer(port, receive_buffer=NARROW)
    stack.callback(peer.close)
    peer.send(connect(), info(), b"RS+ $G " + subject, b"PING")
    while peer.line() != b"PONG":
        pass
    return peer


def unsent(member: JetgateMember) -> int:
    """Bytes that wait for the only peer."""
    mesh = member.server.mesh
    assert mesh is not None
    (view,) = member.call(mesh.routes)
    return view.pending_size


class Publisher:
    """A client that publishes numbered messages as fast as it may."""

    def __init__(self, stack: ExitStack, member: Member, subject: bytes) -> None:
        self.sock = narrow(member.address)
        stack.callback(self.sock.close)
        self.sock.sendall(HELLO)
        self.count = 0
        self._subject = subject
        self._rest = memoryview(b"")

    def push(self) -> int:
        """Send what the kernel takes at once; return how many bytes that was."""
        self.sock.setblocking(False)
        sent = 0
        try:
            while sent < MIB:
                self._rest = self._rest or self._block()
                count = self.sock.send(self._rest)
                self._rest = self._rest[count:]
                sent += count
        except BlockingIOError:
            pass
        self.sock.settimeout(30)
        return sent

    def _block(self) -> memoryview:
        numbers = range(self.count, self.count + 100)
        self.count += 100
        line = b"PUB %b 1000\r\n%%01000d\r\n" % self._subject
        return memoryview(b"".join(line % number for number in numbers))

    def finish(self) -> None:
        """Send the rest of what was begun."""
        self.sock.sendall(self._rest)


def test_only_publishers_that_fill_a_link_wait_for_it(stack: ExitStack) -> None:
    options = ServerOptions(jetstream=False, limits=PATIENT)
    member = jetgate(options=options)
    stack.callback(member.stop)
    member.start()
    peer = peer_that_listens(stack, member.route_port, b"flood.*")
    reader = Reader(peer)
    publishers = [Publisher(stack, member, b"flood.%d" % n) for n in range(3)]
    with Client(member) as other:
        other.send(b"SUB here 1\r\n")
        other.flush()

        def wait_all() -> bool:
            peer.send(b"PING")  # it lives, though it reads nothing
            other.send(b"PUB here 5\r\nhello\r\n")
            assert [frame.payload for frame in other.flush()] == [b"hello"]
            assert unsent(member) <= HIGH + 2 * READ * len(publishers)
            return sum(publisher.push() for publisher in publishers) == 0

        eventually(wait_all, every=0)
        finishing = [threading.Thread(target=each.finish) for each in publishers]
        for thread in finishing:
            thread.start()
        for number, publisher in enumerate(publishers):
            got = reader.got(b"flood.%d" % number)
            while len(got) < publisher.count:
                reader.read()
            assert got == [b"%01000d" % n for n in range(publisher.count)]
        for thread in finishing:
            thread.join()


def test_clients_of_a_peer_wait_while_a_server_is_overloaded(stack: ExitStack) -> None:
    """Those that send there; who sends elsewhere, or little, does not."""
    busy = jetgate(options=ServerOptions(jetstream=False, limits=PATIENT))
    stack.callback(busy.stop)
    busy.start()
    front = jetgate([busy])
    stack.callback(front.stop)
    front.start()
    meshed([busy, front])
    with Client(busy) as subscriber, Client(front) as other:
        subscriber.send(b"SUB flood 1\r\nSUB few 2\r\n")
        subscriber.await_interest(other)
        publisher = Publisher(stack, front, b"flood")
        hub = busy.server.hub
        busy.call(hub.begin_backpressure)
        eventually(lambda: front.server.hub.blocked_links)
        eventually(lambda: publisher.push() == 0, every=0)
        other.send(b"PUB few 1\r\nx\r\n")
        while subscriber.frame().payload != b"x":
            pass
        busy.call(hub.end_backpressure)
        publisher.finish()
        while subscriber.frame().payload != b"%01000d" % (publisher.count - 1):
            pass
        assert not front.server.hub.blocked_links


PAIRS = [("jetgate", "jetgate"), ("nats-server", "jetgate"), ("jetgate", "nats-server")]


@pytest.mark.parametrize(("here", "there"), PAIRS, ids=lambda kind: str(kind))
def test_a_slow_client_behind_a_route_is_closed_and_others_get_everything(
    stack: ExitStack, here: str, there: str
) -> None:
    server: Member = jetgate() if here == "jetgate" else nats_server()
    stack.callback(server.stop)
    server.start()
    front: Member
    if there == "jetgate":
        limits = Limits(max_pending=MIB)
        front = jetgate([server], options=ServerOptions(jetstream=False, limits=limits))
    else:
        front = nats_server([server], lines=["max_pending: 1MB"])
    stack.callback(front.stop)
    front.start()
    meshed([server, front])
    slow = narrow(front.address, NARROW)
    stack.callback(slow.close)
    slow.sendall(HELLO + b"SUB flood 1\r\nPING\r\n")
    with Client(server) as publisher, Client(front) as fast, Client(front) as asking:
        fast.send(b"SUB flood 1\r\n")
        fast.await_interest(publisher)
        publisher.send(b"SUB service 1\r\n")
        asking.send(b"SUB inbox 1\r\n")
        publisher.await_interest(asking)

        def is_closed() -> bool:
            found = fast.after(publisher, b"PUB flood 20000\r\n%b\r\n" % bytes(20_000) * 10)
            assert [len(frame.payload) for frame in found] == [20_000] * 10
            asking.send(b"PUB service inbox 1\r\nq\r\n")
            assert publisher.frame().payload == b"q"
            return slow_consumers(front) == 1

        eventually(is_closed, every=0)
        assert slow_consumers(server) == 0


def slow_consumers(member: Member) -> int:
    if isinstance(member, JetgateMember):
        return member.server.hub.slow_consumers
    return int(str(member.page("varz")["slow_consumers"]))


# -- deliveries of JetStream over a route ------------------------------------------------------

CLUSTER = ClusterSettings(name="test", host="127.0.0.1", port=0)
COUNT, SIZE = 300, 64 * 1024
"""Some 19 MiB: more than limits and kernels hold together."""
PAYLOADS = [b"%0*d" % (SIZE, number) for number in range(COUNT)]


class Storing:
    """A server with JetStream, for tests that run in another thread than it."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self._loop = loop
        assert node.server.mesh is not None
        self.address = (node.hub.host, node.hub.port)
        self.route_port = node.server.mesh.address[1]

    def routes(self) -> list[Any]:
        async def look() -> list[Any]:
            assert self.node.server.mesh is not None
            return list(self.node.server.mesh.routes())

        return asyncio.run_coroutine_threadsafe(look(), self._loop).result(60)

    def fill(self, wire: Wire) -> None:
        """Store messages, and begin to push them to `slow.push`."""
        wire.hello()
        assert "error" not in wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for number, payload in enumerate(PAYLOADS):
            assert wire.request("s", payload).json()["seq"] == number + 1
        config = {"durable_name": "push", "deliver_subject": "slow.push", "ack_policy": "none"}
        wanted = {"stream_name": "S", "config": config}
        assert "error" not in wire.api("CONSUMER.DURABLE.CREATE.S.push", wanted)


def with_storing(database: str, play: Callable[[Storing, ExitStack], None]) -> None:
    """Run a scenario beside a server with JetStream."""

    async def scenario() -> None:
        options = ServerOptions(port=0, cluster=CLUSTER, limits=PATIENT)
        async with running_node(database, server=options) as node:
            storing = Storing(node, asyncio.get_running_loop())
            with ExitStack() as stack:
                await asyncio.to_thread(play, storing, stack)

    asyncio.run(scenario())


def pulled(wire: Wire, storing: Storing) -> None:
    """Read the stream by pulls, of no more at once than any output may hold."""
    config = {"durable_name": "pull", "ack_policy": "none"}
    wanted = {"stream_name": "S", "config": config}
    answer = wire.api("CONSUMER.DURABLE.CREATE.S.pull", wanted)
    assert "error" not in answer
    wire.send(b"SUB pulled 1\r\n")
    for start in range(0, COUNT, 20):
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.pull", b"20", reply=b"pulled")
        found = [wire.frame().payload[-4:] for _ in range(20)]
        assert found == [payload[-4:] for payload in PAYLOADS[start : start + 20]]


def test_a_consumer_waits_for_a_route_that_takes_no_more(database: str) -> None:
    """It would otherwise fill it until it is cut; what is unsent stays within bounds."""

    def play(storing: Storing, stack: ExitStack) -> None:
        wire = stack.enter_context(Wire(storing.address))
        storing.fill(wire)
        peer = peer_that_listens(stack, storing.route_port, b"slow.push")
        reader = Reader(peer)

        def is_full() -> bool:
            peer.send(b"PING")  # it lives, though it reads nothing
            (view,) = storing.routes()
            return bool(view.pending_size > HIGH // 2)

        eventually(is_full)
        pulled(wire, storing)
        peer.send(b"PING")
        (view,) = storing.routes()
        assert view.pending_size <= 2 * (HIGH + TICK_BYTES)
        got = reader.got(b"slow.push")
        while len(got) < COUNT:
            reader.read()
        assert [payload[-4:] for payload in got] == [payload[-4:] for payload in PAYLOADS]

    with_storing(database, play)


@pytest.mark.parametrize("kind", ["jetgate", "nats-server"])
def test_a_slow_client_behind_a_route_loses_its_own_deliveries_alone(
    database: str, kind: str
) -> None:
    def play(storing: Storing, stack: ExitStack) -> None:
        ports = [storing.route_port]
        front: Member
        if kind == "jetgate":
            options = ServerOptions(jetstream=False, limits=Limits(max_pending=8 * MIB))
            front = jetgate(ports=ports, options=options)
        else:
            front = nats_server(ports=ports, lines=["max_pending: 8MB"])
        stack.callback(front.stop)
        front.start()
        eventually(storing.routes)
        slow = narrow(front.address, NARROW)
        stack.callback(slow.close)
        slow.sendall(HELLO + b"SUB slow.push 1\r\nPING\r\n")
        wire = stack.enter_context(Wire(storing.address))
        storing.fill(wire)
        with Client(front) as client:
            eventually(lambda: slow_consumers(front) == 1)
            pulled(client, storing)
        assert storing.node.hub.slow_consumers == 0

    with_storing(database, play)
