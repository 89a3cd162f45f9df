"""Accepts NATS connections over TCP and WebSocket, and runs the timer that checks them."""

import asyncio
import contextlib

from core.auth.users import Users
from core.protocol.upgrade import WebSocketOptions
from core.pubsub.server import Hub
from core.runtime.listening import listening_socket
from core.transport.liveness import SessionLiveness
from core.transport.session import ClientSession
from core.transport.websocket import WebSocketConnection

_TICK_SECONDS = 0.25
_BACKLOG = 4096
_GRACE_SECONDS = 1.0


class Listener:
    """Accepts NATS clients on a TCP address, and on another address for WebSocket.

    Life cycle: `start`, optionally `start_websocket`, then `stop`; it is not started again.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.liveness = SessionLiveness(hub)
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._websocket: asyncio.Server | None = None
        self._open: set[ClientSession | WebSocketConnection] = set()
        self._all_gone = asyncio.Event()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Accept clients on a TCP address; return host and port. Port 0: any free port.

        Raises OSError if the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._new_session, sock=listening_socket(host, port, _BACKLOG), backlog=_BACKLOG
        )
        self.hub.host, self.hub.port = host, self._server.sockets[0].getsockname()[1]
        self._timer = loop.call_later(_TICK_SECONDS, self._tick)
        return self.hub.host, self.hub.port

    async def start_websocket(
        self,
        host: str,
        port: int,
        options: WebSocketOptions | None = None,
        users: Users | None = None,
    ) -> tuple[str, int]:
        """Accept clients over WebSocket on another address, after `start`; return host and port.

        `users`: the users that may connect over WebSocket; None: those of TCP. Raises OSError if
        the address cannot be bound.
        """
        settings = options or WebSocketOptions()
        self.hub.use_users_over("WEBSOCKET", users)

        def connect() -> WebSocketConnection:
            connection = WebSocketConnection(self.hub, settings, self.liveness.watch, self._gone)
            self._open.add(connection)
            return connection

        self._websocket = await asyncio.get_running_loop().create_server(
            connect, sock=listening_socket(host, port, _BACKLOG), backlog=_BACKLOG
        )
        return host, self._websocket.sockets[0].getsockname()[1]

    def _new_session(self) -> ClientSession:
        session = ClientSession(self.hub, self._gone)
        self._open.add(session)
        self.liveness.watch(session)
        return session

    def _gone(self, session: ClientSession | WebSocketConnection) -> None:
        self._open.discard(session)
        if not self._open:
            self._all_gone.set()

    def _tick(self) -> None:
        self.liveness.tick()
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def stop_accepting(self) -> None:
        """Stop accepting connections; open connections stay."""
        for server in (self._server, self._websocket):
            if server is not None:
                server.close()

    def close_clients(self, reason: str) -> None:
        """Close every connection after its pending output is written, with a reason for /connz.

        New connections are still accepted.
        """
        loop = asyncio.get_running_loop()
        for connection in list(self._open):
            if connection.has_socket:
                connection.close(reason)
            else:  # `connection_made` runs before the scheduled call.
                loop.call_soon(connection.close, reason)

    async def stop(self) -> None:
        """Stop accepting, write pending output, close every connection, in about 1 s."""
        self.stop_accepting()
        if self._timer is not None:
            self._timer.cancel()
        self._all_gone.clear()
        self.close_clients("Server Shutdown")
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._all_gone.wait()
        for session in list(self._open):
            session.abort()
