"""Domain and limits of the server: a node and the reference, configured alike, answer alike."""

# Subject: limits

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from core.node.runtime import RuntimeOptions
from core.node.server import ServerOptions
from tests.support.natsserver import NatsServer
from tests.support.node import running_node
from tests.support.pg import PostgresServer
from tests.support.wire import Wire

Scenario = Callable[[Wire], list[Any]]
CONSUMER = {"stream_name": "F", "config": {"durable_name": "C", "ack_policy": "explicit"}}


def _both(scenario: Scenario, dsn: str, **limits: Any) -> tuple[list[Any], list[Any]]:
    """Play a scenario on a node and on the reference server; return what each answered."""

    def play(address: tuple[str, int]) -> list[Any]:
        with Wire(address) as wire:
            return scenario(wire)

    async def on_node() -> list[Any]:
        server = ServerOptions(port=0, domain=limits.get("domain", ""))
        options = RuntimeOptions(
            max_memory=limits.get("max_memory_store", 0),
            max_file=limits.get("max_file_store", 0),
        )
        async with running_node(dsn, options=options, server=server) as node:
            return await asyncio.to_thread(play, (node.hub.host, node.hub.port))

    mine = asyncio.run(on_node())
    with NatsServer(jetstream=limits) as server:
        return mine, play(server.address)


def _brief(answer: Any) -> Any:
    """What of an answer both servers must agree on."""
    if "error" in answer:
        return answer["error"]
    text = re.sub(r'"20[^"]*Z"', '"<time>"', json.dumps(answer))
    return {name: value for name, value in json.loads(text).items() if name != "api"}


def _resources(wire: Wire) -> list[Any]:
    wire.hello()
    found: list[Any] = []

    def api(subject: str, body: Any = None) -> None:
        found.append((subject, _brief(wire.api(subject, body))))

    def publish(subject: str, size: int, count: int = 1) -> None:
        found.extend(wire.request(subject, b"x" * size).json() for _ in range(count))

    api("STREAM.CREATE.F", {"name": "F", "subjects": ["f.>"]})
    publish("f.a", 90_000, 4)
    api("INFO")
    api("STREAM.PURGE.F")
    publish("f.a", 10)
    api("STREAM.CREATE.G", {"name": "G", "subjects": ["g.>"], "max_bytes": 300_000})
    api("STREAM.CREATE.G", {"name": "G", "subjects": ["g.>"], "max_bytes": 150_000})
    api("STREAM.CREATE.H", {"name": "H", "subjects": ["h.>"], "max_bytes": 100_000})
    api("INFO")
    publish("g.a", 60_000, 3)
    publish("f.a", 60_000, 3)
    api("STREAM.UPDATE.G", {"name": "G", "subjects": ["g.>"], "max_bytes": 250_000})
    api("STREAM.UPDATE.G", {"name": "G", "subjects": ["g.>"], "max_bytes": 199_000})
    api("STREAM.DELETE.G")
    publish("f.a", 10)
    large = {"name": "N", "subjects": ["n.>"], "storage": "memory", "max_bytes": 200_000}
    api("STREAM.CREATE.N", large)
    return found


def test_resources_of_the_server_are_limited(postgres: PostgresServer, database: str) -> None:
    mine, theirs = _both(_resources, database, max_memory_store=100_000, max_file_store=200_000)
    assert json.dumps(mine, indent=1) == json.dumps(theirs, indent=1)


def test_a_batch_stops_where_the_resources_end(postgres: PostgresServer, database: str) -> None:
    """Messages that arrive together are judged one by one."""

    def scenario(wire: Wire) -> list[Any]:
        wire.hello()
        wire.api("STREAM.CREATE.F", {"name": "F", "subjects": ["f.>"]})
        wire.send(b"SUB in 1\r\n")
        wire.send(b"".join(b"PUB f.a in 1000\r\n%b\r\n" % (b"x" * 1000) for _ in range(30)))
        return [wire.frame().json() for _ in range(30)]

    mine, theirs = _both(scenario, database, max_file_store=10_000)
    assert mine == theirs
    assert sum("error" in answer for answer in mine) > 10


def _domain(wire: Wire) -> list[Any]:
    info = wire.hello()
    found: list[Any] = [info["domain"]]

    def ask(subject: str, body: Any = None) -> None:
        frame = wire.request(subject, b"" if body is None else json.dumps(body).encode())
        answer = _brief(json.loads(frame.payload)) if frame.payload else ""
        if isinstance(answer, dict):
            answer.pop("cluster", None)
        found.append((subject, frame.headers.decode(), answer))

    ask("$JS.hub.API.STREAM.CREATE.F", {"name": "F", "subjects": ["f.>"]})
    ask("f.a", {"x": 1})
    ask("$JS.API.STREAM.INFO.NONE")
    ask("$JS.hub.API.INFO")
    ask("$JS.API.INFO")
    ask("$JS.hub.API.DIRECT.GET.F", {"seq": 1})
    ask("$JS.other.API.INFO")
    ask("$JS.hub.API.CONSUMER.CREATE.F.C", CONSUMER)
    wire.send(b"SUB in 9\r\nPUB $JS.hub.API.CONSUMER.MSG.NEXT.F.C in 0\r\n\r\n")
    found.append(wire.frame().payload.decode())
    wire.send(b"SUB $JS.EVENT.> 10\r\nPUB $JS.hub.API.STREAM.NAMES 0\r\n\r\n")
    while not (audit := wire.frame().json()).get("subject", "").endswith("STREAM.NAMES"):
        pass  # what the requests above led to may come late
    found.append((audit["subject"], audit["domain"], list(audit)[-1]))
    return found


def test_the_api_answers_under_the_name_of_its_domain(
    postgres: PostgresServer, database: str
) -> None:
    mine, theirs = _both(_domain, database, domain="hub")
    assert json.dumps(mine, indent=1) == json.dumps(theirs, indent=1)
