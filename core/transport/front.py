"""The NATS port alone: publish, subscribe, request, and no JetStream.

It needs no storage, and importing it imports none, so that it starts in a fraction of a second.
Requests to `$JS.API.` find nobody who listens.
"""

from core.auth.users import Users
from core.protocol.upgrade import WebSocketOptions
from core.pubsub.limits import Limits
from core.pubsub.server import Hub
from core.runtime.clock import Clock
from core.runtime.turn import Turn
from core.transport.listener import Listener


class Front:
    """A hub and its listener. Life cycle: `start`, then `stop`."""

    def __init__(
        self,
        clock: Clock,
        *,
        limits: Limits | None = None,
        server_name: str = "",
        users: Users | None = None,
    ) -> None:
        self.turn = Turn()
        self.hub = Hub(
            self.turn, clock, limits=limits, server_name=server_name, users=users, jetstream=False
        )
        self.listener = Listener(self.hub)

    async def start(self, host: str, port: int) -> None:
        """Accept clients; port 0 takes any free one. Raises OSError."""
        await self.listener.start(host, port)

    async def start_websocket(
        self, host: str, port: int, options: WebSocketOptions, users: Users | None = None
    ) -> int:
        """Accept WebSocket clients too, these users if given; the port. Raises OSError."""
        return (await self.listener.start_websocket(host, port, options, users))[1]

    def close_door(self) -> None:
        """Accept nobody any more; who is here stays."""
        self.listener.close_door()

    async def stop(self) -> None:
        """Write what gathered and close every connection."""
        self.turn.run()
        await self.listener.stop()
