"""Listeners of protocols that are not served, such as MQTT: connections get an error and close."""

import asyncio
import logging
from functools import partial
from typing import cast

from core.config.addresses import listen
from dropin.config.options import UnservedListener
from dropin.ports_file import join

log = logging.getLogger(__name__)

_SHOWN = {"leafnodes": "leafnode"}


class _TurnedAway(asyncio.Protocol):
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection, after an error to the client unless the protocol is MQTT."""
        out = cast(asyncio.WriteTransport, transport)
        if self._kind != "mqtt":
            out.write(f"-ERR '{self._kind} is not served'\r\n".encode())
        out.close()


class UnservedListeners:
    """All listeners of protocols that are not served. Life cycle: `open`, then `close`.

    Attributes:
        addresses: Host and port of each open listener, by protocol.
    """

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self._servers: list[asyncio.Server] = []

    async def open(self, listeners: list[UnservedListener]) -> None:
        """Open the listeners. Raises OperatorError if a port cannot be opened."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            listening = listen(listener.host, max(listener.port, 0), listener.kind)
            port = listening.getsockname()[1]
            server = await loop.create_server(partial(_TurnedAway, listener.kind), sock=listening)
            self._servers.append(server)
            self.addresses[listener.kind] = (listener.host, port)
            kind = _SHOWN.get(listener.kind, listener.kind)
            log.info("Listening for %s connections on %s", kind, join(listener.host, port))

    def close(self) -> None:
        """Close the listeners that `open` opened."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self.addresses.clear()
