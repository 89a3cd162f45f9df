"""A node in the test's process with the stream `S`, for tests of the transactions API."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.aio.client import Client

from core.model.stream import StreamConfig
from tests.support.node import Node, add_stream, running_node
from tests.support.transactions import App, Row


class Place:
    """A node in the event loop of the test, and a nats-py client of it."""

    def __init__(self, node: Node, client: Client) -> None:
        self.node = node
        self.client = client
        self.js = client.jetstream(timeout=30)

    def app(self, name: str = "app", run: str = "run", stream: str = "S") -> App:
        """Return an `App` (a client of the transactions API) that writes to a stream.

        Args:
            name: Name of the app.
            run: Id of the run of the app.
            stream: Name of the stream.
        """
        return App(self.client, stream, name, run)

    async def stored(self, stream: str = "S") -> list[tuple[str, bytes]]:
        """Return subject and payload of every message of a stream, in order of sequence."""
        log = self.node.registry.streams[stream].log
        rows: list[tuple[str, bytes]] = []
        seq = 0
        while (page := await log.read(seq, 2000)) is not None:
            rows += [(s.decode(), p) for s, p in zip(page.subjects, page.payloads, strict=True)]
            seq = page.last + 1
        return rows


@asynccontextmanager
async def place(dsn: str) -> AsyncIterator[Place]:
    """Run a node over a database and yield it with a client; stop both at the end of the block.

    The database may contain streams of a previous node.
    """
    async with running_node(dsn) as node:
        client = await nats.connect(f"nats://{node.hub.host}:{node.hub.port}")
        try:
            yield Place(node, client)
        finally:
            await client.close()


def scenario(dsn: str, step: Callable[[Place], Awaitable[None]], **config: Any) -> None:
    """Run an async test step with a node on which the stream `S` (subjects `s.>`) is created.

    `config` contains further settings of the stream.
    """

    async def run() -> None:
        async with place(dsn) as at:
            await add_stream(at.node, StreamConfig(name="S", subjects=("s.>",), **config))
            await step(at)

    asyncio.run(run())


def rows(first: int, last: int, **headers: str) -> list[Row]:
    """Return rows to stage: subject `s.<n>` and payload `<n>`, for n from `first` to `last`.

    Underscores in the names of `headers` become hyphens.
    """
    if headers:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return [(f"s.{n}", b"%d" % n, named) for n in range(first, last + 1)]
    return [(f"s.{n}", b"%d" % n) for n in range(first, last + 1)]


def plain(first: int, last: int) -> list[tuple[str, bytes]]:
    """Return subject and payload of `rows(first, last)` in the form of `Place.stored`."""
    return [(f"s.{n}", b"%d" % n) for n in range(first, last + 1)]
