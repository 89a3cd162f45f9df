"""Listeners of protocols that are not served: bound, and everybody is told so and turned away."""

import asyncio
import logging
from functools import partial
from typing import cast

from core.config.addresses import listen
from core.config.nats_options import Door

log = logging.getLogger("jetgate")


class _TurnedAway(asyncio.Protocol):
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say why and close."""
        out = cast(asyncio.WriteTransport, transport)
        if self._kind != "mqtt":
            out.write(f"-ERR '{self._kind} is not served'\r\n".encode())
        out.close()


class Doors:
    """All such listeners. Life cycle: `open`, then `close`."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []

    async def open(self, doors: list[Door]) -> None:
        """Bind. Raises OperatorError."""
        loop = asyncio.get_running_loop()
        for door in doors:
            listening = listen(door.host, max(door.port, 0), door.kind)
            port = listening.getsockname()[1]
            server = await loop.create_server(partial(_TurnedAway, door.kind), sock=listening)
            self._servers.append(server)
            log.info("Listening for %s connections on %s:%d", door.kind, door.host, port)

    def close(self) -> None:
        """Bind no longer."""
        for server in self._servers:
            server.close()
        self._servers.clear()
