"""Requests on their way, as another system gets them."""

# Subject: remotes

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from core.client import Client, Options
from core.pubsub.server import Hub
from core.remote.bridge import Bridge
from core.remote.request_side import AccountSide
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from tests.unit.client.scripted import ScriptedServer


class Bench:
    """A bridge from an account to a scripted server."""

    def __init__(self, server: ScriptedServer, client: Client) -> None:
        self.server = server
        self.client = client
        self.account = Hub(LoopTick(), SystemClock()).default_account()
        self.bridge = Bridge(AccountSide(self.account), client, "hub", SystemClock.monotonic)
        self.bridge.open()
        self.heard: list[tuple[bytes, bytes, bytes]] = []

    def listen(self, subject: bytes) -> None:
        def take(
            session: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> None:
            self.heard.append((subject, headers, payload))

        self.account.subscribe(subject, take)

    async def ask(self, verb: str, payload: bytes = b"") -> bytes:
        """Ask with the reply subject `back`; what the other system gets."""
        before = len(self.server.written)
        self.account.publish(b"$JS.hub.API." + verb.encode(), b"back", b"", payload)
        await asyncio.sleep(0)
        return self.server.written[before:]


def on_a_bench(work: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ScriptedServer()
        client = Client(server.connector, Options())
        await client.open()
        bench = Bench(server, client)
        await asyncio.sleep(0)
        await work(bench)
        await client.close()

    asyncio.run(run())


def test_an_answer_finds_the_asker_by_its_subject() -> None:
    async def work(bench: Bench) -> None:
        bench.listen(b"back")
        line = (await bench.ask("STREAM.INFO.S")).split()
        sid = next(
            each.split()[-1] for each in bench.server.written.split(b"\r\n") if b".R.>" in each
        )
        bench.server.link.receive(b"MSG %b %b 2\r\nok\r\n" % (line[2], sid))

        assert line[:2] == [b"PUB", b"$JS.API.STREAM.INFO.S"]
        assert line[2].endswith(b".R.back")
        assert bench.heard == [(b"back", b"", b"ok")]

    on_a_bench(work)


def test_the_deliver_subject_of_a_consumer_is_exchanged() -> None:
    async def work(bench: Bench) -> None:
        config = {"deliver_subject": "to", "ack_policy": "none", "name": "C", "x": [1, None]}
        asked = await bench.ask(
            "CONSUMER.CREATE.S.C", json.dumps({"stream_name": "S", "config": config}).encode()
        )
        sent = json.loads(asked.split(b"\r\n")[1])

        assert sent["config"] != config
        assert {**sent["config"], "deliver_subject": "to"} == config, "the rest stays as it is"
        assert sent["config"]["deliver_subject"].startswith("_INBOX.")

    on_a_bench(work)


@pytest.mark.parametrize(
    "config",
    [
        {"deliver_subject": "a b"},
        {"deliver_subject": "to\r\nPUB x 0\r\n"},
        {"deliver_subject": "to.*"},
        {"deliver_subject": "to", "deliver_group": "g 1\r\nPUB x 0\r\n"},
        {"durable_name": "D"},
    ],
)
def test_invalid_subjects_reach_no_line_of_the_protocol(config: dict[str, str]) -> None:
    async def work(bench: Bench) -> None:
        payload = json.dumps({"stream_name": "S", "config": config}).encode()

        asked = await bench.ask("CONSUMER.CREATE.S", payload)

        head, _, rest = asked.partition(b"\r\n")
        assert head.startswith(b"PUB $JS.API.CONSUMER.CREATE.S ")
        assert rest == payload + b"\r\n", "it goes as it came, to be refused there"

    on_a_bench(work)


def test_messages_too_large_for_the_remote_are_not_sent() -> None:
    async def work(bench: Bench) -> None:
        assert await bench.ask("STREAM.INFO.S", b"x" * 1025) == b""
        assert await bench.ask("STREAM.INFO.S", b"x" * 1024) != b""

    on_a_bench(work)


def test_a_closed_bridge_serves_nothing() -> None:
    async def work(bench: Bench) -> None:
        bench.bridge.end()

        assert not bench.account.has_interest(b"$JS.hub.API.INFO")
        assert not bench.account.has_interest(b"$JS.hub.FC.S.C.x")

    on_a_bench(work)
