"""TCP proxies that cut, hold and delay the data of a node: to PostgreSQL, and with its peers.

A hold keeps the bytes of one or both directions and forwards them when it ends. A cut closes every
connection, and new ones at once, until it ends. The process that opened a connection to the port
for peers identifies the peer.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from typing import Self

from tests.support.pg import LoopThread

_CHUNK = 65536

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Way:
    """One direction of a connection: forwards bytes while `open` is set, `delay` seconds late."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.delay = 0.0

    def set(self, *, is_held: bool, delay: float) -> None:
        self.delay = delay
        (self.open.clear if is_held else self.open.set)()


class _Line:
    """The connections of one caller; `up` is the direction from caller to server."""

    def __init__(self) -> None:
        self.up, self.down = _Way(), _Way()
        self.is_shut = False
        self.writers: set[asyncio.StreamWriter] = set()

    def set(self, *, shut: bool, up: bool, down: bool, delay: float) -> None:
        self.is_shut = shut
        self.up.set(is_held=up, delay=delay)
        self.down.set(is_held=down, delay=delay)
        if shut:
            for writer in self.writers:
                writer.transport.abort()


class _Relay:
    """A TCP proxy on a port of its own, with one `_Line` for each caller.

    Attributes:
        port: Port of the proxy on 127.0.0.1.
    """

    def __init__(self) -> None:
        self._thread = LoopThread()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self._thread.run(self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._stop())
        self._thread.close()

    def _caller(self, port: int) -> str | None:
        """Return the name of the caller with this local port; None closes its connection."""
        raise NotImplementedError

    async def _connect(self) -> Connected:
        raise NotImplementedError

    def _set(
        self,
        caller: str,
        *,
        shut: bool = False,
        up: bool = False,
        down: bool = False,
        delay: float = 0.0,
    ) -> None:
        async def change() -> None:
            self._lines[caller].set(shut=shut, up=up, down=down, delay=delay)

        self._thread.run(change())

    async def _start(self) -> None:
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            caller = self._caller(writer.get_extra_info("peername")[1])
            if caller is not None and not self._lines[caller].is_shut:
                await self._join(self._lines[caller], reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _join(
        self, line: _Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line.writers.add(writer)
        try:
            server, to_server = await self._connect()
        except OSError:  # the server has been killed, or is starting
            line.writers.discard(writer)
            return
        line.writers.add(to_server)
        ways = [
            asyncio.ensure_future(_pass(reader, to_server, line.up)),
            asyncio.ensure_future(_pass(server, writer, line.down)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            line.writers -= {writer, to_server}
            to_server.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _stop(self) -> None:
        self._server.close()
        for line in self._lines.values():
            line.set(shut=True, up=False, down=False, delay=0.0)
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            if way.delay:
                await asyncio.sleep(way.delay)
            await way.open.wait()
            writer.write(data)
            await writer.drain()


class Proxy(_Relay):
    """A proxy between a node and its PostgreSQL.

    Args:
        socket: Path of PostgreSQL's Unix socket.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        super().__init__()

    def _caller(self, port: int) -> str:
        return ""

    async def _connect(self) -> Connected:
        return await asyncio.open_unix_connection(self._socket)

    def disconnect(self) -> None:
        """Close every connection, and new ones at once, until `heal`."""
        self._set("", shut=True)

    def hold(self, *, to_database: bool, to_node: bool) -> None:
        """Hold data in these directions until `heal`; connections stay open."""
        self._set("", up=to_database, down=to_node)

    def slow(self, seconds: float) -> None:
        """Delay all data by some seconds until `heal`."""
        self._set("", delay=seconds)

    def heal(self) -> None:
        """End every disturbance; forward held data first."""
        self._set("")


class RouteProxy(_Relay):
    """A proxy in front of a node's port for peers; it disturbs the connections of single peers.

    Either of two nodes may have opened the connection between them. So a caller disturbs a link in
    the proxies of both nodes, with `to_peer` and `from_peer` exchanged.

    Args:
        port: The node's port for peers.
        peer: Returns the name of the peer that connects from a local port; None if unknown.
    """

    def __init__(self, port: int, peer: Callable[[int], str | None]) -> None:
        self._node_port, self._peer = port, peer
        super().__init__()

    def _caller(self, port: int) -> str | None:
        return self._peer(port)

    async def _connect(self) -> Connected:
        return await asyncio.open_connection("127.0.0.1", self._node_port)

    def disconnect(self, peer: str) -> None:
        """Close every connection of a peer, and new ones at once, until `heal`."""
        self._set(peer, shut=True)

    def hold(self, peer: str, *, to_peer: bool, from_peer: bool) -> None:
        """Hold data between the node and a peer until `heal`; connections stay open."""
        self._set(peer, up=from_peer, down=to_peer)

    def slow(self, peer: str, seconds: float) -> None:
        """Delay all data of a peer by some seconds until `heal`."""
        self._set(peer, delay=seconds)

    def heal(self, peer: str) -> None:
        """End every disturbance of a peer; forward held data first."""
        self._set(peer)
