"""A way between a client and a server that a test can cut and open again."""

import asyncio
from typing import Self, cast

from tests.support.ports import held_port


class Relay:
    """Passes bytes on, both ways; `cut` ends every connection, `shut` takes no new ones.

    While it `is_held`, what comes is dropped.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.sides: set[_Side] = set()
        self._server: asyncio.Server | None = None
        self._place = held_port()
        self.port: int = self._place.getsockname()[1]
        self.is_held = False

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Take connections, on the same port as before."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Listener(self), "127.0.0.1", self.port, reuse_address=True
        )

    async def disconnect_all(self) -> None:
        """End every connection at once."""
        sides = list(self.sides)
        for side in sides:
            side.transport.abort()
        await asyncio.gather(*(side.lost.wait() for side in sides))

    async def shut(self) -> None:
        """Take no new connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()
        await self.disconnect_all()
        self._place.close()


class _Side(asyncio.Protocol):
    """One of the two connections; what comes here goes out there."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.lost = asyncio.Event()
        self.other: _Side | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.relay.sides.add(self)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and not self.relay.is_held:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.relay.sides.discard(self)
        self.lost.set()
        if self.other is not None:
            self.other.transport.close()


class _Listener(_Side):
    """The side of the client: opens the other one and reads nothing before that is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        _, back = await loop.create_connection(lambda: _Side(self.relay), *self.relay.target)
        self.other, back.other = back, self
        self.transport.resume_reading()
