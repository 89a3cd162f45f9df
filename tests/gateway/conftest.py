"""The two ways the façade is tested: over nats-server, and as part of `jetgate dev`."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from tests.gateway.serving import GatewayServer
from tests.gateway.web import Web
from tests.support.natsserver import NatsServer

_numbers = count(1)


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
