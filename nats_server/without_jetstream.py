"""What `jetgate-nats-server` serves without JetStream, and what both ways of serving share."""

from typing import TYPE_CHECKING, Any

from core.auth.users import Users
from core.runtime.clock import Clock
from core.transport.front import Front
from nats_server.config.advertise import advertised
from nats_server.config.options import Options
from nats_server.config.websocket import websocket_of, websocket_users

if TYPE_CHECKING:
    from core.remote.settings import Remote


class CoreServing:
    """Publish and subscribe, nothing stored."""

    node: Any = None

    def __init__(self, options: Options, users: Users | None, clock: Clock) -> None:
        self._options = options
        self._front = Front(
            clock, limits=options.limits(), server_name=options.server_name, users=users
        )
        self.hub = self._front.hub
        self.hub.advertised = advertised(options.client_advertise)
        self.hub.use_mappings(self.hub.default_account(), options.mappings or ())
        self._clock = clock
        self._remotes: Any = None
        self._websocket = websocket_of(options.websocket)
        self._websocket_users = websocket_users(options)
        self.ws_port: int | None = None

    async def start(self, host: str, port: int) -> None:
        """Accept clients. Raises OSError."""
        await self._front.start(host, port)
        listener = self._websocket
        if listener is not None:
            self.ws_port = await self._front.start_websocket(
                listener.host, listener.port, listener.options, self._websocket_users
            )
        self.attach(self._options.remotes)

    def admit_only(self, users: Users | None, over_websocket: Users | None) -> None:
        """Let others in from now on, and those out that may no longer be here."""
        self.hub.use_users(users, over_websocket)

    def advertise(self, text: str) -> None:
        """Tell clients another address from now on. Raises OperatorError."""
        self.hub.advertised = advertised(text)

    def limit(self, limits: dict[str, int]) -> None:
        """Nothing here has a configuration that limits could hold."""

    def attach(self, remotes: "tuple[Remote, ...]") -> None:
        """Offer the JetStream of these systems, and of no others, from now on."""
        if self._remotes is None and remotes:
            from core.remote.keeper import Remotes  # a start without does not wait for it

            self._remotes = Remotes(self.hub.default_account(), self._clock)
        if self._remotes is not None:
            self._remotes.configure(remotes)

    async def retire(self) -> None:
        """Accept nobody any more."""
        self._front.close_door()
        if self._remotes is not None:
            await self._remotes.stop()

    async def stop(self) -> None:
        """Close every connection."""
        if self._remotes is not None:
            await self._remotes.stop()
        await self._front.stop()
