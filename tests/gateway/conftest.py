"""The two ways the façade is tested: over nats-server, and as part of `jetgate dev`."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from urllib.parse import quote

import bcrypt
import pytest

from core.client import Options
from tests.gateway.serving import GatewayServer
from tests.gateway.web import Answer, Web, names
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Wire

_numbers = count(1)
_ME = Options(user="me", password="secret")
_HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@pytest.fixture(scope="session")
def gateway_over_nats(nats_server: NatsServer) -> Iterator[GatewayServer]:
    """The façade in this process over nats-server."""
    with GatewayServer(nats_server.address) as server:
        yield server


@pytest.fixture(params=["nats-server", "jetgate"])
def web(request: pytest.FixtureRequest) -> Iterator[Web]:
    """An HTTP client of the façade over nats-server, then of `jetgate dev`."""
    if request.param == "jetgate":
        yield Web(request.getfixturevalue("jetgate_server").http)
        return
    server: GatewayServer = request.getfixturevalue("gateway_over_nats")
    before = len(server.failures)
    yield Web(server.http)
    assert server.failures[before:] == []


@pytest.fixture
def wire(request: pytest.FixtureRequest, web: Web) -> Iterator[Wire]:
    """A NATS connection to the server that `web` is over."""
    assert web
    which = request.node.callspec.params["web"]
    server = request.getfixturevalue("jetgate_server" if which == "jetgate" else "nats_server")
    with Wire(server.address) as wire:
        wire.hello()
        yield wire


@dataclass(frozen=True)
class Stream:
    """A stream of one test: `prefix` is the first token of all its subjects."""

    web: Web
    name: str
    prefix: str

    @property
    def path(self) -> str:
        return f"/v1/streams/{self.name}"

    def subject(self, rest: str) -> str:
        return f"{self.prefix}.{rest}"

    def publish(self, rest: str, body: bytes = b"x", **headers: str) -> int:
        answer = self.web.publish(self.subject(rest), body, **headers)
        assert answer.status == 201, answer
        return int(answer.json()["seq"])

    def consumer(self, name: str = "C", **config: object) -> str:
        path = f"{self.path}/consumers/{name}"
        answer = self.web.json("PUT", path, {"ack_policy": "explicit"} | config)
        assert answer.status == 201, answer
        return path


@pytest.fixture
def stream(web: Web) -> Iterator[Stream]:
    """A stream that allows Direct Get, deleted afterwards."""
    number = next(_numbers)
    made = Stream(web, f"S{number}", f"s{number}")
    config = {"name": made.name, "subjects": [f"{made.prefix}.>"], "allow_direct": True}
    answer = web.json("POST", "/v1/streams", config)
    assert answer.status == 201, answer
    yield made
    web.delete(made.path)


@dataclass(frozen=True)
class Store:
    """A key-value bucket or object store of one test, and the server that has it."""

    web: Web
    nats: tuple[str, int]
    name: str
    path: str

    def at(self, name: str, verb: str = "") -> str:
        """The path of a key or object."""
        return f"{self.path}/{quote(name, safe='')}{verb}"

    def put(self, name: str, body: bytes = b"x", **headers: str) -> Answer:
        return self.web.send("PUT", self.at(name), body, names(headers))

    def revision(self, name: str, body: bytes = b"x", **headers: str) -> int:
        """Store something that is taken; return its revision."""
        answer = self.put(name, body, **headers)
        assert answer.status in (200, 201), answer
        return int(answer.json()["revision"])

    def get(self, name: str, query: str = "", **headers: str) -> Answer:
        return self.web.get(self.at(name) + query, **headers)

    @property
    def url(self) -> str:
        """The NATS address."""
        return "nats://{}:{}".format(*self.nats)

    @property
    def info(self) -> str:
        """The path of the stream behind it."""
        prefix = "KV" if self.path.startswith("/v1/kv/") else "OBJ"
        return f"/v1/streams/{prefix}_{self.name}"


@pytest.fixture(params=["nats-server", "jetgate"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Web, tuple[str, int]]]:
    """An HTTP client, and the NATS address of what it leads to."""
    if request.param == "jetgate":
        jetgate: JetgateServer = request.getfixturevalue("jetgate_server")
        yield Web(jetgate.http), jetgate.address
        return
    server: GatewayServer = request.getfixturevalue("gateway_over_nats")
    before = len(server.failures)
    yield Web(server.http), server.nats
    assert server.failures[before:] == []


def _store(served: tuple[Web, tuple[str, int]], route: str) -> Iterator[Store]:
    web, nats = served
    name = f"b{next(_numbers)}"
    store = Store(web, nats, name, f"/v1/{route}/{name}")
    history = {"history": 5, "limit_marker_ttl": "1s"} if route == "kv" else {}
    answer = web.json("PUT", store.path, history)
    assert answer.status == 201, answer
    yield store
    web.delete(store.path)


@pytest.fixture
def bucket(served: tuple[Web, tuple[str, int]]) -> Iterator[Store]:
    """A key-value bucket of history 5 with limit markers, deleted afterwards."""
    yield from _store(served, "kv")


@pytest.fixture
def objects(served: tuple[Web, tuple[str, int]]) -> Iterator[Store]:
    """An object store, deleted afterwards."""
    yield from _store(served, "objects")


@pytest.fixture(scope="session", params=["nats-server", "jetgate"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Web]:
    """The façade over nats-server, then `jetgate dev`, with a user `me` of password `secret`."""
    if request.param == "jetgate":
        with JetgateServer("--user", "me", "--pass", _HASH, in_memory=True) as server:
            with Wire(server.address) as wire:
                assert b'"auth_required":true' in wire.frame().line
                wire.send(b"PING\r\n")
                assert wire.frame().line == b"-ERR 'Authorization Violation'"
                with pytest.raises(Closed):
                    wire.frame()
            yield Web(server.http)
        return
    users = f'{{ users: [{{user: me, password: "{_HASH}"}}] }}'
    with (
        NatsServer({"authorization": users}) as nats,
        GatewayServer(nats.address, with_users=True, own=_ME) as server,
    ):
        yield Web(server.http)
