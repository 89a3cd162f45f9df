"""What a feed of events does with a caller who does not read."""

# Subject: HTTP

import asyncio
from typing import Any

from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from core.units import Seconds
from gateway.app import create_app
from gateway.settings import Settings
from jetgate.login import login_to
from tests.support.eventually import observed

SETTINGS = Settings(ack_key=b"k" * 32, events_unread_bytes_max=4096, event_pause=Seconds(0.01))


class Reader:
    """A caller that takes a piece only when told, and then goes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.may_read = asyncio.Event()
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.pieces.append(message.get("body", b""))
        if len(self.pieces) > 2:  # the beginning, and that it listens
            await self.may_read.wait()


def test_a_slow_reader_learns_how_many_messages_it_misses() -> None:
    async def run() -> bytes:
        hub = Hub(LoopTick(), SystemClock(), jetstream=False)
        login = login_to(hub)
        client = await login("", "", "", "")
        app = create_app(SETTINGS, client)
        reader = Reader()
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/advisories",
            "raw_path": b"/v1/advisories",
            "query_string": b"filter=A",
            "headers": [],
        }
        feed = asyncio.create_task(app(scope, reader.receive, reader.send))
        await observed(lambda: len(reader.pieces) > 2)
        for _ in range(100):
            client.publish(b"$JS.EVENT.A", b'{"type":"a.b"}')
        await client.flush()
        reader.may_read.set()
        await observed(lambda: b"event: dropped" in b"".join(reader.pieces))
        reader.gone.set()
        await feed
        await client.close()
        return b"".join(reader.pieces)

    told = asyncio.run(run())

    kept = told.count(b"event: b\n")
    assert 0 < kept < 100
    assert b'event: dropped\ndata: {"count":%d}\n' % (100 - kept) in told
