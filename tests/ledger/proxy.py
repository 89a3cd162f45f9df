"""A TCP proxy between a node and its PostgreSQL that cuts, holds and slows what passes.

What a network drops comes later or never: a hold keeps the bytes of one direction, or of both,
until it ends; a cut ends every connection and lets nobody in. PostgreSQL listens on a Unix socket.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Self

from tests.support.pg import LoopThread

_CHUNK = 65536


@dataclass(slots=True)
class Way:
    """What happens to the bytes of one direction: they pass when `open` is set, `delay` s late."""

    open: asyncio.Event
    delay: float = 0.0


class Proxy:
    """Stands in front of a Unix socket, on a port of its own.

    Args:
        socket: where PostgreSQL listens.

    Attributes:
        port: where the node finds it.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._thread = LoopThread()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._shut = False
        self.port = 0
        self._thread.run(self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._stop())
        self._thread.close()

    def cut(self) -> None:
        """End every connection, and every new one at once."""
        self._thread.run(self._set(shut=True))

    def hold(self, *, to_database: bool, to_node: bool) -> None:
        """Pass nothing on in these directions; connections stay."""
        self._thread.run(self._set(to_database=to_database, to_node=to_node))

    def slow(self, seconds: float) -> None:
        """Pass everything on later."""
        self._thread.run(self._set(delay=seconds))

    def heal(self) -> None:
        """Pass on whatever comes, and what was held."""
        self._thread.run(self._set())

    async def _start(self) -> None:
        self._up, self._down = Way(asyncio.Event()), Way(asyncio.Event())
        await self._set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _set(
        self,
        *,
        shut: bool = False,
        to_database: bool = False,
        to_node: bool = False,
        delay: float = 0.0,
    ) -> None:
        self._shut = shut
        for way, is_held in ((self._up, to_database), (self._down, to_node)):
            way.delay = delay
            (way.open.clear if is_held else way.open.set)()
        if shut:
            self._drop()

    def _drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self._shut:
                await self._join(reader, writer)
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            database, to_database = await asyncio.open_unix_connection(self._socket)
        except OSError:  # it is killed, or starts
            return
        self._writers.add(to_database)
        ways = [
            asyncio.ensure_future(_pass(reader, to_database, self._up)),
            asyncio.ensure_future(_pass(database, writer, self._down)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            self._writers.discard(to_database)
            to_database.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _stop(self) -> None:
        self._server.close()
        await self._set(shut=True)
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            if way.delay:
                await asyncio.sleep(way.delay)
            await way.open.wait()
            writer.write(data)
            await writer.drain()
