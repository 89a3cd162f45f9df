"""The life of a WebSocket: who connects, while the process starts, when it stops; and
readers who are slow."""

# Subject: HTTP, feeds

import asyncio
import gc
import json
import socket
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_ws
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from core.client import JetStream, connect, dial
from core.client.pull import Pull
from core.client.subscribe import JsMsg
from core.config.addresses import listen
from core.model.consumer import AckPolicy, ConsumerConfig, NextRequest
from core.model.stream import StreamConfig
from core.runtime.clock import SystemClock
from core.runtime.tasks import counters
from core.units import Seconds
from gateway.app import create_app
from gateway.auth.caller import Caller
from gateway.auth.state import AuthState
from gateway.contract.reference import Reference
from gateway.formats.ack_tokens import AckTokens
from gateway.http.problems import Problem
from gateway.http.protocol import HttpProtocol
from gateway.http.server import HttpServer
from gateway.http.startup import StartupServer
from gateway.http.websocket_protocol import WebSocketProtocol
from gateway.monitoring.metrics import Metrics
from gateway.readers.reader import StreamReader
from gateway.readers.shared import Feeds
from gateway.services import Gateway
from gateway.ws.close_codes import Remedy, remedy_of
from gateway.ws.codec import JSON_CODEC
from gateway.ws.connection import Connection
from gateway.ws.credit import FeedCredit
from gateway.ws.durable_feed import DurableFeed
from gateway.ws.frames import Subscribe
from gateway.ws.link import Feed, Link
from gateway.ws.ordered_feed import OrderedFeed
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.sockets import JSON, PACK, Socket, following
from tests.gateway.web import Web
from tests.support.eventually import eventually, observed
from tests.support.jetgate import JetgateServer
from tests.support.memory import resident
from tests.support.natsserver import NatsServer
from tests.support.websocket import frame, request
from tests.support.wire import Wire

MIB = 1 << 20
_SECOND = 1_000_000_000


class _Hasty(HttpProtocol):
    head_seconds = 0.05


@pytest.fixture(scope="module", params=["nats-server", "jetgate"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Web]:
    """The façade over nats-server, then `jetgate dev`, with a token."""
    if request.param == "jetgate":
        with JetgateServer("--auth", "s3cret/+", in_memory=True) as server:
            yield Web(server.http)
        return
    authorization = '{ token: "s3cret/+" }'
    with (
        NatsServer({"authorization": authorization}) as nats,
        GatewayServer(nats.address, with_users=True) as server,
    ):
        yield Web(server.http)


def bearer(token: str) -> str:
    return "bearer." + urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


def test_credentials_may_be_in_a_header_a_subprotocol_or_the_first_frame(guarded: Web) -> None:
    header = {"Authorization": "Bearer s3cret/+"}
    with Socket(guarded.address, headers=header) as ws:
        assert ws.ask("ping")["type"] == "pong"
    with Socket(guarded.address, PACK, bearer("s3cret/+")) as ws:
        assert ws.ws.subprotocol == PACK
        assert ws.refused("sub", sid=1, stream="NONE")[0] == 404
    with Socket(guarded.address, welcomed=False) as ws:
        assert ws.ask("hello", token="s3cret/+")["type"] == "welcome"
        assert ws.refused("sub", sid=1, stream="NONE")[0] == 404


def test_unknown_credentials_are_refused(guarded: Web) -> None:
    for more, headers in (
        ([bearer("wrong")], {}),
        (["bearer.!"], {}),
        ([], {"Authorization": "Bearer wrong"}),
    ):
        with pytest.raises(InvalidStatus) as refused:
            Socket(guarded.address, JSON, *more, headers=headers)
        assert refused.value.response.status_code == 401
    with Socket(guarded.address, welcomed=False) as ws:
        ws.send({"type": "hello", "id": 1, "token": "wrong"})
        assert ws.closed()[0] == 4000
    with Socket(guarded.address, welcomed=False) as ws:
        ws.send({"type": "ping", "id": 1})
        code, _ = ws.closed()
    assert remedy_of(code) is Remedy.SIGN_IN


def test_messages_are_short_until_the_sender_is_authenticated(guarded: Web) -> None:
    """Whoever has signed in sends long ones."""
    long = "x" * 40_000
    with Socket(guarded.address, welcomed=False) as ws:
        ws.send({"type": "hello", "id": 1, "token": long})
        with pytest.raises(ConnectionClosed) as closed:
            ws.frame()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    with Socket(guarded.address, welcomed=False) as ws:
        assert ws.ask("hello", token="s3cret/+")["type"] == "welcome"
        assert ws.ask("pub", subject="long", text=long * 20)["type"] == "error", "no stream"


def test_a_second_hello_ends_the_connection(web: Web) -> None:
    with Socket(web.address) as ws:
        assert ws.ask("hello")["type"] == "welcome"
        ws.send({"type": "hello", "id": 2})
        assert ws.closed()[0] == 4101


def test_a_silent_caller_is_not_waited_for(nats_server: NatsServer) -> None:
    settings = replace(SETTINGS, hello_timeout=Seconds(0.05))
    with (
        GatewayServer(nats_server.address, settings, with_users=True) as server,
        Socket(server.http, welcomed=False) as ws,
    ):
        assert ws.closed()[0] == 4001


def test_an_open_socket_is_no_slow_request(nats_server: NatsServer) -> None:
    """The time that the headers of a request may take is over; the WebSocket goes on."""

    async def scenario(address: tuple[str, int]) -> None:
        async def record_open() -> ClientConnection | None:
            with suppress(InvalidHandshake):  # the machine may stop between connect and send
                return await connect_ws("ws://{}:{}/v1/ws".format(*address), proxy=None)
            return None

        async with await observed(record_open) as ws:
            await ws.recv()
            loop = asyncio.get_running_loop()
            over = loop.time() + 2 * _Hasty.head_seconds
            await observed(lambda: loop.time() > over)
            await ws.send('{"type":"ping","id":1}')
            assert await ws.recv() == '{"type":"pong","id":1}'

    with GatewayServer(nats_server.address, http_type=_Hasty) as server:
        asyncio.run(scenario(server.http))


def test_a_handshake_waits_during_a_start_and_is_refused_at_the_end(
    nats_server: NatsServer,
) -> None:
    async def scenario() -> None:
        start = StartupServer(listen("127.0.0.1", 0, "HTTP"))
        await start.start()
        url = f"ws://127.0.0.1:{start.port}/v1/ws"

        async def record_open() -> object:
            protocols = [Subprotocol(JSON)]
            ws = await connect_ws(url, subprotocols=protocols, proxy=None).__aenter__()
            await ws.recv()
            return ws

        early = asyncio.create_task(record_open())
        await observed(lambda: bool(start.held))
        client = await connect(dial("{}:{}".format(*nats_server.address)))
        http = HttpServer(start)
        http.use(create_app(SETTINGS, client))
        ws = await early
        late = await record_open()
        await client.close()
        with pytest.raises(ConnectionClosed) as ended:
            await ws.recv()  # type: ignore[attr-defined]
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 4201
        with pytest.raises(ConnectionClosed):
            await late.recv()  # type: ignore[attr-defined]
        other = await connect(dial("{}:{}".format(*nats_server.address)))
        http.use(create_app(SETTINGS, other))
        last = await record_open()
        await http.stop()
        with pytest.raises(ConnectionClosed) as ended:
            await last.recv()  # type: ignore[attr-defined]
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1012
        await other.close()

    asyncio.run(scenario())


class _FullSocket(Link):
    """A connection that has no room for what feeds have."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.caller = Caller(gateway, AuthState(gateway.settings, gateway.clock))
        self.codec = JSON_CODEC

    def put(self, payload: bytes) -> None:
        raise AssertionError(payload)

    def ready(self, feed: Feed) -> None:
        """Never ask for anything."""

    def forget(self, feed: Feed) -> None:
        raise AssertionError("it has not ended by itself")


def test_pulled_messages_that_were_not_written_are_returned(nats_server: NatsServer) -> None:
    async def scenario() -> list[int]:
        client = await connect(dial("{}:{}".format(*nats_server.address)))
        js = JetStream(client)
        gateway = Gateway(
            SETTINGS,
            client,
            js,
            js,
            Metrics(None),
            AckTokens(SETTINGS.ack_key),
            print,
            Reference(),
            SystemClock(),
            Feeds(js, 9, 9),
        )
        await js.create_stream(StreamConfig(name="BACK", subjects=("back",)))
        config = ConsumerConfig(
            durable_name="C", ack_policy=AckPolicy.EXPLICIT, ack_wait=600 * _SECOND
        )
        await js.create_consumer("BACK", config)
        for _ in range(3):
            await js.publish(b"back", b"x")
        wanted = Subscribe(1, 1, stream="BACK", consumer="C")
        feed = DurableFeed(_FullSocket(gateway), wanted, FeedCredit())
        await feed.open()

        async def pulled() -> bool:
            return (await js.consumer_info("BACK", "C")).num_ack_pending == 3

        await observed(pulled)
        await feed.close()
        fetched = await js.fetch("BACK", "C", NextRequest(batch=3, expires=20 * _SECOND))
        await js.delete_stream("BACK")
        await client.close()
        return [JsMsg.of(msg, takes_acks=True).delivered for msg in fetched.messages]

    assert asyncio.run(scenario()) == [2, 2, 2]


def _unread(web: Web, wanted: dict[str, object]) -> socket.socket:
    """A WebSocket whose owner asks for a feed and reads nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(30)
    sock.connect(web.address)
    sock.sendall(request(first="GET /v1/ws HTTP/1.1"))
    assert b"HTTP/1.1 101" in sock.recv(16)
    sock.sendall(frame(json.dumps(wanted).encode(), 0x81))
    return sock


def _objects() -> list[object]:
    """What there is of HTTP and WebSocket connections in this process."""
    kinds = {
        Connection,
        HttpProtocol,
        OrderedFeed,
        Problem,
        Pull,
        ServerProtocol,
        StreamReader,
        WebSocketProtocol,
    }
    return [each for each in gc.get_objects() if type(each) in kinds]


@contextmanager
def _nothing_left() -> Iterator[Callable[[], bool]]:
    """Whoever connects within leaves nothing to the garbage collector: thousands that come and go
    would have it hold up everybody again and again. Gives what says whether somebody is there."""
    gc.collect()
    gc.disable()
    old = {id(each): each for each in _objects()}

    def is_there() -> bool:
        return any(id(each) not in old for each in _objects())

    try:
        yield is_there
        assert eventually(lambda: not is_there())
    finally:
        gc.enable()


@pytest.fixture
def left(nats_server: NatsServer) -> Iterator[Wire]:
    """A connection to a server with the stream LEFT, which has three messages."""
    with Wire(nats_server.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.LEFT", {"name": "LEFT", "subjects": ["left"]})
        for _ in range(3):
            wire.request("left", b"x")
        yield wire
        wire.api("STREAM.DELETE.LEFT")


@pytest.mark.parametrize("leaves", ["by a close frame", "without a word"])
@pytest.mark.parametrize("begin", ["new", "all"])
def test_a_connection_that_has_gone_leaves_nothing_to_the_garbage_collector(
    gateway_over_nats: GatewayServer, left: Wire, leaves: str, begin: str
) -> None:
    """Not by what it has read as it came, and not by the pages of what was there before."""
    with _nothing_left() as is_there, Socket(gateway_over_nats.http) as ws:
        wanted: dict[str, object] = {"stream": "LEFT", "from": begin, "credit": {"msgs": 2}}
        assert ws.ask("sub", sid=1, **wanted)["type"] == "subscribed"
        left.request("left", b"x")
        assert ws.messages(1, 1 if begin == "new" else 2)
        assert is_there()
        if leaves == "without a word":
            ws.ws.socket.shutdown(socket.SHUT_RDWR)


_HANDSHAKE = request(first="GET /v1/ws HTTP/1.1")


@pytest.mark.parametrize(
    ("rubbish", "answer"),
    [
        (b"\x00\xff", b"HTTP/1.1 400"),
        (b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf", b""),
        (
            b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 2\r\n\r\n{]",
            b"HTTP/1.1 4",
        ),
        (
            request({"Sec-WebSocket-Protocol": "none"}, first="GET /v1/ws HTTP/1.1"),
            b"HTTP/1.1 400",
        ),
        (_HANDSHAKE + frame(b"{]", 0x81), b"HTTP/1.1 101"),
        (_HANDSHAKE + frame(b"\xff\x00", 0x81), b"HTTP/1.1 101"),
    ],
    ids=["bytes", "half a request", "JSON", "handshake", "frame", "text"],
)
def test_garbage_leaves_nothing_to_the_garbage_collector_and_nothing_in_the_log(
    gateway_over_nats: GatewayServer,
    caplog: pytest.LogCaptureFixture,
    rubbish: bytes,
    answer: bytes,
) -> None:
    with (
        _nothing_left() as is_there,
        socket.create_connection(gateway_over_nats.http, timeout=30) as sock,
    ):
        sock.sendall(rubbish)
        if answer:
            assert sock.recv(len(answer)) == answer
        else:
            assert eventually(is_there)
    assert not caplog.records


@pytest.mark.parametrize(
    ("rubbish", "answer"),
    [
        (b"\x00\xff\r\n\r\n", b"HTTP/1.1 400"),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            b"HTTP/1.1 4",
        ),
        (
            request({"Sec-WebSocket-Protocol": "none"}, first="GET /v1/ws HTTP/1.1"),
            b"HTTP/1.1 400",
        ),
    ],
    ids=["bytes", "upgrade", "handshake"],
)
def test_garbage_does_not_fill_the_log_of_the_server(
    jetgate_server: JetgateServer, rubbish: bytes, answer: bytes
) -> None:
    before = len(jetgate_server.log())
    with socket.create_connection(jetgate_server.http, timeout=30) as sock:
        sock.sendall(rubbish)
        assert sock.recv(len(answer)) == answer
    assert Web(jetgate_server.http).get("/healthz").status == 200  # it has been dealt with
    assert "Invalid" not in (said := jetgate_server.log()[before:])
    assert "Unsupported" not in said
    assert "without completing" not in said


def test_no_task_belongs_to_a_message(gateway_over_nats: GatewayServer) -> None:
    web = Web(gateway_over_nats.http)
    assert web.json("PUT", "/v1/streams/COST", {"subjects": ["cost"]}).status == 201
    with Socket(web.address) as ws:
        ws.ask("sub", sid=1, stream="COST")
        ws.ask("sub", sid=2, subject="cost")
        before = counters["tasks"]
        ws.send(*({"type": "pub", "id": i, "subject": "cost"} for i in range(500)))
        assert len(ws.messages(1, 500)) == 500
        assert len(ws.messages(2, 500)) == 500
        assert counters["tasks"] == before
    web.delete("/v1/streams/COST")


def test_slow_readers_cost_little_memory_and_delay_no_other(jetgate_server: JetgateServer) -> None:
    """80 who read nothing of 24 MiB, by WebSocket and by events, and one who does."""
    web = Web(jetgate_server.http)
    answer = web.json("PUT", "/v1/streams/SLOW", {"subjects": ["slow.>"], "storage": "file"})
    assert answer.status == 201
    payload = b"x" * 8192
    slow: list[socket.socket] = []
    try:
        with Socket(web.address) as ws, following(web.address, "/v1/streams/SLOW/tail") as events:
            events.next()
            ws.ask("sub", sid=1, stream="SLOW")
            before = resident(jetgate_server.pid)
            for number in range(80):
                begin = ("all", "new")[number % 2]
                wanted = {"type": "sub", "id": 1, "sid": 1, "stream": "SLOW", "from": begin}
                slow.append(_unread(web, wanted))
            with Wire(jetgate_server.address) as wire:
                wire.hello()
                for number in range(3000):
                    wire.publish(f"slow.{number % 7}", payload)
                wire.flush()
            seen = [message["seq"] for message in ws.messages(1, 3000)]
            assert seen == list(range(1, 3001))
            assert [events.next()["data"]["seq"] for _ in range(3000)] == seen
            grown = resident(jetgate_server.pid) - before
        assert grown < 100 * MIB, f"{grown / MIB:.0f} MiB for {len(slow)} readers"
    finally:
        for sock in slow:
            sock.close()
        web.delete("/v1/streams/SLOW")
