"""Users who may only subscribe, over sockets: what they follow and are refused, and their end."""

# Subject: permissions, HTTP, operations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, Options, attach, connect
from core.config.addresses import listen
from core.model.stream import StreamConfig
from core.node.server import ServerOptions
from core.transport.loopback import connect_trusted
from core.units import Seconds
from gateway.app import create_app
from gateway.http.server import HttpServer
from gateway.http.startup import StartupServer
from gateway.settings import Settings
from jetgate.login import login_to, rights_in
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.sockets import Socket, following
from tests.gateway.test_authenticator import _unreachable
from tests.gateway.web import Web, basic
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer
from tests.support.node import Node, add_stream, running_node

BOSS = User("boss", "b")
READER = basic("reader", "r")


def _reader(*subscribe: str, deny: tuple[str, ...] = ()) -> Users:
    rules = Permissions(Rule(()), Rule(subscribe, deny))
    return Users(users=(BOSS, User("reader", "r", rules)))


USERS = _reader("chat.>", deny=("chat.secret.>",))


class Guarded:
    """The façade of a node with users, on a port, in a thread of its own."""

    def __init__(self, dsn: str) -> None:
        self.web = Web(("127.0.0.1", 0))
        self._dsn = dsn
        self._node: Node | None = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with running_node(self._dsn, server=ServerOptions(port=0, users=USERS)) as node:
            self._node, hub = node, node.hub
            server = await connect(attach(partial(connect_trusted, hub)))
            app = create_app(
                SETTINGS,
                Client(attach(_unreachable), Options()),
                login=login_to(hub),
                rights=rights_in(hub),
                server=server,
            )
            hub.users_changed.subscribe(app.authenticator.users_changed)
            start = StartupServer(listen("127.0.0.1", 0, "HTTP"))
            await start.start()
            http = HttpServer(start)
            http.use(app)
            await add_stream(node, StreamConfig(name="CHAT", subjects=("chat.>", "orders.>")))
            self.web = Web(("127.0.0.1", http.port))
            self._ready.set()
            await self._done.wait()
            await http.stop()
            await app.authenticator.close()
            await server.close()

    def use(self, users: Users) -> None:
        """Let these be the users from now on, as a reload of the configuration does."""
        assert self._node is not None
        self._loop.call_soon_threadsafe(self._node.hub.use_users, users, None)

    def publish(self, *subjects: str) -> None:
        """Publish as somebody who may."""
        for subject in subjects:
            answer = self.web.publish(subject, b"x", Authorization=basic("boss", "b"))
            assert answer.status == 201, answer

    def metrics(self) -> str:
        answer = self.web.get("/metrics", Authorization=READER)
        assert answer.status == 200, answer
        return answer.body.decode()

    def __enter__(self) -> "Guarded":
        self._thread.start()
        assert self._ready.wait(60), "the façade did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)


@pytest.fixture
def guarded(database: str) -> Iterator[Guarded]:
    with Guarded(database) as guarded:
        yield guarded


@contextmanager
def _socket(guarded: Guarded) -> Iterator[Socket]:
    with Socket(guarded.web.address, headers={"Authorization": READER}) as ws:
        yield ws


def _subjects(messages: Iterable[dict[str, Any]]) -> list[str]:
    return [message["subject"] for message in messages]


def test_a_caller_that_may_only_subscribe_follows_by_events(guarded: Guarded) -> None:
    guarded.publish("chat.a", "orders.1", "chat.secret.b", "chat.c")
    address = guarded.web.address
    path = "/v1/tail/chat.%3E?from=all"
    with following(address, path, Authorization=READER) as events:
        assert (events.status, events.next()["data"]["stream"]) == (200, "CHAT")
        seen = [events.next() for _ in range(2)]
        assert _subjects(event["data"] for event in seen) == ["chat.a", "chat.c"]
        guarded.publish("orders.2", "chat.secret.c", "chat.d")
        assert events.next()["data"]["subject"] == "chat.d"
    path = "/v1/streams/CHAT/tail?filter=chat.*"
    last = seen[0]["id"]
    with following(address, path, Authorization=READER, Last_Event_ID=last) as events:
        assert events.next()["data"]["recovered"] is True
        assert [events.next()["data"]["subject"] for _ in range(2)] == ["chat.c", "chat.d"]


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/v1/tail/orders.%3E", "orders.>"),
        ("/v1/tail/%3E", ">"),
        ("/v1/tail/*.a", "*.a"),
        ("/v1/tail/chat.secret.x", "chat.secret.x"),
        ("/v1/streams/CHAT/tail", ">"),
        ("/v1/streams/NONE/tail", ">"),
        ("/v1/streams/NONE/tail?filter=orders.1", "orders.1"),
    ],
)
def test_a_subject_that_may_not_be_subscribed_to_is_refused_by_name(
    guarded: Guarded, path: str, subject: str
) -> None:
    answer = guarded.web.get(path, Authorization=READER)
    assert (answer.status, answer.kind) == (403, "not-permitted")
    assert answer.json()["detail"] == f"not permitted: subscribing to {subject}"


def test_a_caller_that_may_only_subscribe_follows_over_a_websocket_and_no_more(
    guarded: Guarded,
) -> None:
    guarded.publish("chat.a", "orders.1", "chat.secret.b", "chat.c")
    with _socket(guarded) as ws:
        begun = ws.ask("sub", sid=1, filter="chat.>", **{"from": "all"})
        assert (begun["type"], begun["stream"]) == ("subscribed", "CHAT")
        assert _subjects(ws.messages(1, 2)) == ["chat.a", "chat.c"]
        assert ws.ask("sub", sid=2, subject="chat.*")["type"] == "subscribed"
        for members in (
            {"filter": "orders.>"},
            {"stream": "CHAT"},
            {"stream": "NONE"},
            {"subject": "orders.>"},
        ):
            assert ws.refused("sub", sid=3, **members) == (403, "not-permitted")
        no = (403, "no-inbox")
        assert ws.refused("sub", sid=3, stream="CHAT", consumer="C") == no
        assert ws.refused("pub", subject="chat.a", text="x") == no
        assert ws.refused("req", subject="chat.a", text="x") == no
        assert ws.refused("get", stream="CHAT", seq=2) == no
        guarded.publish("chat.d")
        assert _subjects(ws.messages(1, 1)) == _subjects(ws.messages(2, 1)) == ["chat.d"]
    for path in ("/v1/streams/CHAT", "/v1/streams", "/v1/streams/CHAT/messages/1"):
        answer = guarded.web.get(path, Authorization=READER)
        assert (answer.status, answer.kind) == no


def test_other_permissions_end_feeds_and_are_those_of_the_next(guarded: Guarded) -> None:
    guarded.publish("chat.a", "chat.b.c", "orders.1")
    address, path = guarded.web.address, "/v1/tail/chat.%3E?from=all"
    with _socket(guarded) as ws, following(address, path, Authorization=READER) as events:
        assert ws.ask("sub", sid=1, filter="chat.>")["type"] == "subscribed"
        assert [events.next()["data"]["seq"] for _ in range(3)] == [0, 1, 2]
        # An answer that comes back says that these are in force.
        guarded.use(_reader("chat.*", "orders.>", "_INBOX.>"))
        assert ws.closed()[0] == 4003
        with pytest.raises(EOFError):
            events.next()
    # A subscription to `chat.>` is allowed by `chat.*`; what it has beyond is not to be read.
    answer = guarded.web.get(path, Authorization=READER)
    assert answer.json()["detail"] == "not permitted: subscribing to chat.>"
    path = "/v1/tail/orders.%3E?from=all"
    with following(address, path, Authorization=READER) as events:
        assert [events.next()["data"]["seq"] for _ in range(2)] == [0, 3]
        guarded.use(Users(users=(BOSS,)))
        with pytest.raises(EOFError):
            events.next()
    assert guarded.web.get(path, Authorization=READER).status == 401


def test_feeds_and_sockets_are_counted(guarded: Guarded) -> None:
    guarded.publish("chat.a", "chat.b")
    address, path = guarded.web.address, "/v1/tail/chat.%3E?from=all"
    with _socket(guarded) as ws, following(address, path, Authorization=READER) as events:
        ws.ask("sub", sid=1, filter="chat.>", **{"from": "all"})
        ws.messages(1, 2)
        ws.ask("sub", sid=2, subject="chat.>", credit={"msgs": 1})
        guarded.publish("chat.c", "chat.d")
        assert len(ws.messages(2, 1)) == 1
        assert ws.next("dropped", sid=2)["count"] == 1
        ws.messages(1, 2)
        assert [events.next()["data"]["seq"] for _ in range(5)] == [0, 1, 2, 3, 4]
        shown = guarded.metrics()
        for line in (
            "jetgate_http_sockets 1.0",
            'jetgate_http_feeds{kind="ordered"} 1.0',
            'jetgate_http_feeds{kind="core"} 1.0',
            'jetgate_http_feeds{kind="durable"} 0.0',
            'jetgate_http_feeds{kind="tail"} 1.0',
            'jetgate_http_feed_messages_total{kind="ordered"} 4.0',
            'jetgate_http_feed_messages_total{kind="core"} 1.0',
            'jetgate_http_feed_messages_total{kind="tail"} 4.0',
            'jetgate_http_feed_dropped_total{kind="core"} 1.0',
        ):
            assert line in shown.splitlines()
        ws.ask("unsub", sid=1)
        assert 'jetgate_http_feeds{kind="ordered"} 0.0' in guarded.metrics()

    def are_none() -> bool:
        lines = guarded.metrics().splitlines()
        gauges = ("jetgate_http_sockets ", "jetgate_http_feeds{")
        return all(line.endswith(" 0.0") for line in lines if line.startswith(gauges))

    eventually(are_none)


@contextmanager
def _denied(*subjects: str) -> Iterator[Web]:
    """The façade over nats-server, with a stream, and a reader who may not publish to subjects.

    nats-server cannot be asked beforehand: it says so in a message of its own, and never answers.
    """
    denied = ", ".join(f'"{subject}"' for subject in subjects)
    reader = f"{{user: reader, password: r, permissions: {{publish: {{deny: [{denied}]}}}}}}"
    users = f"{{ users: [{{user: boss, password: b}}, {reader}] }}"
    patient = Settings(ack_key=b"k" * 32, api_timeout=Seconds(600), publish_timeout=Seconds(600))
    with (
        NatsServer({"authorization": users}) as nats,
        GatewayServer(nats.address, patient, with_users=True) as server,
    ):
        web, boss = Web(server.http), basic("boss", "b")
        config = {"name": "CHAT", "subjects": ["chat.>"], "allow_direct": True}
        assert web.json("POST", "/v1/streams", config, Authorization=boss).status == 201
        path = "/v1/streams/CHAT/consumers/C"
        assert web.json("PUT", path, {}, Authorization=boss).status == 201
        assert web.publish("chat.a", b"x", Authorization=boss).status == 201
        yield web
        assert server.failures == []


@pytest.mark.parametrize(
    "denied",
    ["$JS.API.STREAM.INFO.>", "$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.CREATE.>"],
)
def test_a_tail_that_another_server_denies_is_refused_at_once(denied: str) -> None:
    with _denied(denied) as web:
        answer = web.get("/v1/tail/chat.%3E?from=all", Authorization=READER)
        assert (answer.status, answer.kind) == (403, "not-permitted")


def test_a_denial_of_another_server_is_an_error_at_once() -> None:
    with _denied("chat.no", "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.DIRECT.GET.>") as web:
        path = "/v1/tail/chat.%3E?from=all"
        with following(web.address, path, Authorization=READER) as events:
            assert events.next()["event"] == "position"
            ended = events.next()
            assert (ended["event"], ended["data"]["status"]) == ("end", 403)
        assert web.publish("chat.no", b"x", Authorization=READER).status == 403
        lines = web.lines(b'{"subject":"chat.no"}\n{"subject":"chat.b"}\n', Authorization=READER)
        assert [line.get("error", {}).get("status") for line in lines.lines()] == [403, None]
        fetch = "/v1/streams/CHAT/consumers/C:fetch"
        assert web.json("POST", fetch, {}, Authorization=READER).status == 403
        read = web.json("POST", "/v1/streams/CHAT/messages:read", {}, Authorization=READER)
        assert read.status == 403
