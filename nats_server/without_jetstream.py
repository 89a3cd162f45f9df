"""What `jetgate-nats-server` serves without JetStream, and what both ways of serving share."""

from typing import TYPE_CHECKING, Any

from core.auth.gate import Gate
from core.auth.users import Users
from core.errors import AuthError
from core.protocol import encoder
from core.pubsub.server import Hub
from core.runtime.clock import Clock
from core.transport.front import Front
from core.transport.session import ClientSession
from nats_server.config.advertise import advertised
from nats_server.config.options import Options
from nats_server.config.websocket import websocket_of, websocket_users

if TYPE_CHECKING:
    from core.pubsub.mappings import Mapping
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
        self.hub.default_account().use_mappings(options.mappings or ())
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
        admit_only(self.hub, users, over_websocket)

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


def map_subjects(hub: Hub, mappings: "tuple[Mapping, ...]") -> None:
    """Exchange the mappings of what clients publish."""
    hub.default_account().use_mappings(mappings)
    for session in hub.sessions.values():
        if isinstance(session, ClientSession):
            session.choose_publish()


def admit_only(hub: Hub, users: Users | None, over_websocket: Users | None) -> None:
    """Exchange who may connect; clients that would not get in now are closed, others take on
    their new permissions and lose the subscriptions that these do not allow."""
    hub.gate = Gate(users) if users is not None else None
    hub.admit_by("WEBSOCKET", over_websocket)
    for session in list(hub.sessions.values()):
        if not isinstance(session, ClientSession):
            continue
        try:
            identity = hub.authenticate(session.connect, session.connection_type)
        except AuthError:
            session.close("Authentication Failure", "Authorization Violation")
            continue
        session.enter_as(identity)
        if session.guard is not None:
            _drop_forbidden(session)
    hub.turn.arm()


def _drop_forbidden(session: ClientSession) -> None:
    assert session.guard is not None
    for subscription in list(session.subscriptions.values()):
        subject, queue = subscription.subject, subscription.queue
        if session.guard.grant.may_subscribe(subject, queue):
            continue
        session.account.remove(subscription)
        session.forget(subscription)
        using = f' using queue "{queue.decode()}"' if queue else ""
        text = (
            f'Permissions Violation for Subscription to "{subject.decode()}"{using}'
            f' (sid "{subscription.sid.decode()}")'
        )
        if not session.out:
            session.hub.turn.dirty.append(session)
        session.out.append(encoder.error(text))
