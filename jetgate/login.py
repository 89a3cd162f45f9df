"""How the façade connects to a server in its own process, as the user whom a request names."""

from collections.abc import Callable
from functools import partial

from core.client import Client, Options, attach, connect
from core.pubsub.server import Connection, Hub
from core.transport.loopback import connect_loopback
from gateway.identities import Login


def login_to(hub: Hub) -> Login:
    """Return how the façade connects to a hub as somebody."""
    link = attach(partial(connect_loopback, hub))

    async def login(user: str, password: str, token: str) -> Client:
        may_publish: list[Callable[[bytes], bool]] = []

        def allowed(subject: bytes) -> bool:
            return all(may(subject) for may in may_publish)

        options = Options(user=user, password=password, token=token, may_publish=allowed)
        client = await connect(link, options)
        session = hub.sessions[client.info.client_id]
        if session.guard is not None:
            may_publish.append(partial(_may_publish, session))
        return client

    return login


def _may_publish(session: Connection, subject: bytes) -> bool:
    """Whether the server would take a publish, by what mappings make of its subject."""
    mappings = session.account.mappings
    to = subject if mappings is None else mappings.of(subject)
    return session.guard is None or session.guard.grant.may_publish(to)
