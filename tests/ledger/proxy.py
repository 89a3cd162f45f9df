"""TCP proxies around a node that cut, hold and slow what passes: to PostgreSQL, and to its peers.

What a network drops comes later or never: a hold keeps the bytes of one direction, or of both,
until it ends; a cut ends every connection and lets nobody in. PostgreSQL listens on a Unix socket,
a node on a port for its peers, who are told apart by the process that a connection comes from.
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
    """What happens to the bytes of one direction: they pass when it is open, `delay` s late."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.delay = 0.0

    def set(self, *, is_held: bool, delay: float) -> None:
        self.delay = delay
        (self.open.clear if is_held else self.open.set)()


class _Line:
    """The connections of one caller, and what happens to them: `up` is what he says."""

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
    """Stands in front of a server, on a port of its own; each caller has a line.

    Attributes:
        port: where callers find it.
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
        """Who connects from a port; None: he is let in nowhere."""
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
        except OSError:  # it is killed, or starts
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
    """Between a node and its PostgreSQL.

    Args:
        socket: where PostgreSQL listens.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        super().__init__()

    def _caller(self, port: int) -> str:
        return ""

    async def _connect(self) -> Connected:
        return await asyncio.open_unix_connection(self._socket)

    def cut(self) -> None:
        """End every connection, and every new one at once."""
        self._set("", shut=True)

    def hold(self, *, to_database: bool, to_node: bool) -> None:
        """Pass nothing on in these directions; connections stay."""
        self._set("", up=to_database, down=to_node)

    def slow(self, seconds: float) -> None:
        """Pass everything on later."""
        self._set("", delay=seconds)

    def heal(self) -> None:
        """Pass on whatever comes, and what was held."""
        self._set("")


class RouteProxy(_Relay):
    """In front of the port of a node for its peers; what passes is told apart by the peer.

    Of two nodes either may have connected to the other: what is done to a link is done to the
    proxies of both, with `to_peer` and `from_peer` the other way round.

    Args:
        port: where the node listens.
        peer: Who connects from a port of this machine; None: nobody who may.
    """

    def __init__(self, port: int, peer: Callable[[int], str | None]) -> None:
        self._node_port, self._peer = port, peer
        super().__init__()

    def _caller(self, port: int) -> str | None:
        return self._peer(port)

    async def _connect(self) -> Connected:
        return await asyncio.open_connection("127.0.0.1", self._node_port)

    def cut(self, peer: str) -> None:
        """End every connection of a peer, and every new one at once."""
        self._set(peer, shut=True)

    def hold(self, peer: str, *, to_peer: bool, from_peer: bool) -> None:
        """Pass nothing on between the node and a peer in these directions; connections stay."""
        self._set(peer, up=from_peer, down=to_peer)

    def slow(self, peer: str, seconds: float) -> None:
        """Pass everything on later."""
        self._set(peer, delay=seconds)

    def heal(self, peer: str) -> None:
        """Pass on whatever comes, and what was held."""
        self._set(peer)
