"""Connections of the HTTP gateway to the NATS server of its process, as the user of a request."""

from functools import partial

from core.auth.author import ASKED
from core.auth.grant import Grant
from core.auth.users import Permissions, Rule
from core.client import Client, NotPermitted, Options, attach
from core.pubsub.server import Connection, Hub
from core.subjects.subject import is_valid_literal
from core.transport.author_publisher import asks_author, missing_permission
from core.transport.loopback import connect_loopback
from gateway.auth.principals import Login
from gateway.auth.rights import MayRead, RightsOf

_INBOX = b"_INBOX."
_NO_QUEUE = b""
_NOTHING = Grant(Permissions(Rule(()), Rule(())))


def login_to(hub: Hub) -> Login:
    """Return the function that opens a connection to the server of `hub` as a user.

    Its arguments are user, password and token of the request, and the caller's address. `hub`
    (`core.pubsub.server`) has the connections and accounts of the NATS server.
    """

    async def login(user: str, password: str, token: str, address: str) -> Client:
        def allowed(subject: bytes) -> bool:
            session = hub.sessions.get(client.info.client_id)
            return session is None or _may_publish(session, subject)

        def lacking(subject: bytes, headers: bytes) -> NotPermitted | None:
            session = hub.sessions.get(client.info.client_id)
            return None if session is None else _lacking(session, subject, headers)

        def inbox() -> bytes:
            session = hub.sessions.get(client.info.client_id)
            own = _inbox_of(user)
            return own if own and session is not None and _may_read(session, own) else _INBOX

        options = Options(
            user=user,
            password=password,
            token=token,
            may_publish=allowed,
            lacking=lacking,
            inbox=inbox,
        )
        link = attach(partial(connect_loopback, hub, caller=address))
        client = Client(link, options)
        await client.open()
        return client

    return login


def rights_in(hub: Hub) -> RightsOf:
    """Return the function that creates the `SessionRights` of a client of the NATS server.

    `hub` (`core.pubsub.server`) has the connections and accounts of that server.
    """
    return partial(SessionRights, hub)


class SessionRights:
    """The current permissions of a client's connection to the server of this process.

    After the server has closed the connection, the client has no permission at all.
    """

    def __init__(self, hub: Hub, client: Client) -> None:
        self._hub = hub
        self._client = client

    @property
    def is_connected(self) -> bool:
        """True until the server closes the client's connection."""
        return self._grant is not _NOTHING

    @property
    def permissions(self) -> Permissions | None:
        """The permissions of the user; None if there are no restrictions."""
        grant = self._grant
        return None if grant is None else grant.permissions

    def may_read(self, subject: bytes) -> bool:
        """Return True if the user may subscribe to at least some subjects of a filter."""
        grant = self._grant
        return grant is None or grant.may_read(subject)

    def reader(self, subject: bytes) -> MayRead | None:
        """Return a function that decides for each subject whether the user may read the message.

        Returns None if the user may read every message that the filter matches.
        """
        grant = self._grant
        if grant is None or not grant.may_deny(subject, _NO_QUEUE):
            return None
        return lambda message: not grant.denies(message, _NO_QUEUE)

    @property
    def _grant(self) -> Grant | None:
        session = self._hub.sessions.get(self._client.info.client_id)
        if session is None:
            return _NOTHING
        return None if session.guard is None else session.guard.grant


def _may_publish(session: Connection, subject: bytes) -> bool:
    """Return True if the server would accept a publish to the subject, after subject mappings."""
    return session.guard is None or session.guard.grant.may_publish(_mapped(session, subject))


def _lacking(session: Connection, subject: bytes, headers: bytes) -> NotPermitted | None:
    """Return the error for a permission that the headers of a publish need and the user lacks.

    Returns None if no permission is missing.
    """
    if session.guard is None or not asks_author(session) or not ASKED.search(headers):
        return None
    missing = missing_permission(session, _mapped(session, subject), headers)
    if missing is None:
        return None
    doing = "subscribing" if missing.reads else "publishing"
    return NotPermitted(missing.subject, doing, "which a header asks for")


def _inbox_of(user: str) -> bytes:
    """Return the prefix of a user's own inboxes; empty if the name is not a subject token."""
    token = user.encode("utf-8", "surrogateescape")
    if b"." in token or not is_valid_literal(token):
        return b""
    return b"%b%b." % (_INBOX, token)


def _may_read(session: Connection, inbox: bytes) -> bool:
    return session.guard is None or session.guard.grant.may_read(inbox + b">")


def _mapped(session: Connection, subject: bytes) -> bytes:
    mappings = session.account.mappings
    return subject if mappings is None else mappings.of(subject)
