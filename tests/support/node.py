"""A node in the event loop of the test, so that tests read its state and inject failures."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from core.cluster.directory_follower import DirectoryFollower
from core.model.stream import StreamConfig
from core.node.campaign import campaign
from core.node.runtime import JetStreamRuntime, RuntimeOptions, load
from core.node.server import Server, ServerOptions
from core.rules.stream.config.validation import check_create
from core.runtime.clock import SystemClock
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector


class Node:
    """A server that accepts clients, its JetStream runtime, and the parts of both for tests."""

    def __init__(self, server: Server, runtime: JetStreamRuntime) -> None:
        self.server = server
        self.runtime = runtime
        self.hub = server.hub
        self.nats_address = server.nats_address
        self.registry = runtime.registry
        self.directory_store = runtime.directory_store
        self.writer = runtime.writer
        self.committer = runtime.committer
        self.states = runtime.states
        self.janitor = runtime.janitor
        self.remotes = runtime.remotes
        self.deposed = runtime.deposed

    async def stop(self) -> None:
        """Stop in the order of `core.node.lifecycle`: runtime, connections, leases."""
        self.server.close_ports()
        await self.runtime.retire()
        await self.server.close()
        await self.runtime.stop()


async def lead(
    server: Server,
    connector: Connector,
    options: RuntimeOptions | None = None,
    *,
    name: str = "node",
    clock: SystemClock | None = None,
    known: DirectoryFollower | None = None,
) -> JetStreamRuntime:
    """Acquire lease groups for a server, load their streams, and return the runtime of them.

    Args:
        server: The server of the node.
        connector: Opens connections to the database.
        options: Options of the runtime.
        name: Name of the node.
        clock: Replaces the clock of the database.
        known: The stream directory, if the node has already read it.
    """
    leases = await campaign(
        connector, server.clock, server.ownership, row=NodeRow(name), database_clock=clock
    )
    try:
        return await load(server, connector, leases, options or RuntimeOptions(), known)
    except BaseException:
        await leases.release()
        raise


@asynccontextmanager
async def running_node(
    dsn: str,
    name: str = "node",
    options: RuntimeOptions | None = None,
    *,
    server: ServerOptions | None = None,
    clock: SystemClock | None = None,
) -> AsyncIterator[Node]:
    """Run a node over a migrated database, on a free port; stop it at the end of the block.

    `clock` replaces the clock of the database.
    """
    made = Server(server or ServerOptions(port=0), SystemClock())
    runtime = await lead(made, Connector(dsn), options, name=name, clock=clock)
    await made.listen()
    runtime.remotes.start()
    node = Node(made, runtime)
    try:
        yield node
    finally:
        await node.stop()


async def add_stream(node: Node, config: StreamConfig) -> None:
    """Check the configuration of a stream as the JetStream API does, and create the stream."""
    checked, _ = check_create(config, node.registry.configs(), name=config.name)
    await node.registry.create_stream(checked)


class Wire:
    """A raw NATS connection to a node, for use in the event loop of the node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, node: Node, subject: str = "") -> "Wire":
        """Connect, send CONNECT, subscribe to a subject if one is given, and wait for PONG."""
        reader, writer = await asyncio.open_connection(node.hub.host, node.hub.port)
        wire = cls(reader, writer)
        wire.writer.write(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
        )
        if subject:
            wire.writer.write(b"SUB %b 1\r\n" % subject.encode())
        await wire.flush()
        return wire

    async def flush(self) -> bytes:
        """Send PING and return all bytes up to and including its PONG."""
        self.writer.write(b"PING\r\n")
        return await self.until(b"PONG\r\n")

    async def until(self, end: bytes) -> bytes:
        """Return the bytes up to and including `end`, without the server's PINGs.

        Raises TimeoutError after 30 seconds.
        """
        data = b""
        async with asyncio.timeout(30):
            while not data:
                data = (await self.reader.readuntil(end)).replace(b"PING\r\n", b"")
        return data

    async def answer(self) -> dict[str, Any]:
        """Return the decoded JSON payload of the next message.

        Raises AssertionError if the next line is not a `MSG` line.
        """
        line = await self.until(b"\r\n")
        assert line.startswith(b"MSG "), line
        return dict(json.loads(await self.reader.readexactly(int(line.split()[-1]) + 2)))

    async def count(self, text: bytes, wanted: int) -> int:
        """Read until `text` has arrived at least `wanted` times; return the number of times.

        Raises TimeoutError after 30 seconds.
        """
        found, rest = 0, b""
        async with asyncio.timeout(30):
            while found < wanted:
                data = rest + await self.reader.read(1 << 18)
                found += data.count(text)
                cut = data.rfind(text)
                keep = len(text) - 1
                rest = data[max(cut + len(text) if cut >= 0 else 0, len(data) - keep) :]
        return found

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()
