"""How the façade connects to a server in its own process, as the user whom a request names."""

from functools import partial

from core.auth.author import ASKED
from core.auth.grant import Grant
from core.auth.users import Permissions, Rule
from core.client import Client, NotPermitted, Options, attach
from core.pubsub.server import Connection, Hub
from core.subjects.subject import is_valid_literal
from core.transport.authoring import asks_author, missing_permission
from core.transport.loopback import connect_loopback
from gateway.identities import Login
from gateway.signin.rights import MayRead, RightsOf

_INBOX = b"_INBOX."
_NO_QUEUE = b""
_NOTHING = Grant(Permissions(Rule(()), Rule(())))


def login_to(hub: Hub) -> Login:
    """Return how the façade connects to a hub as somebody."""

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
    """Return how the façade asks a hub what one of its clients may do."""
    return partial(SessionRights, hub)


class SessionRights:
    """The permissions of a connection in this process, as its session has them now.

    Where it has no session, because the server has ended it, it has no rights until there is one.
    """

    def __init__(self, hub: Hub, client: Client) -> None:
        self._hub = hub
        self._client = client

    @property
    def is_connected(self) -> bool:
        """Whether there is a session."""
        return self._grant is not _NOTHING

    @property
    def permissions(self) -> Permissions | None:
        """The permissions as a value; None: no restrictions."""
        grant = self._grant
        return None if grant is None else grant.permissions

    def may_read(self, subject: bytes) -> bool:
        """Whether all that a filter matches might be subscribed to."""
        grant = self._grant
        return grant is None or grant.may_read(subject)

    def reader(self, subject: bytes) -> MayRead | None:
        """What judges each message of a permitted filter; None: all of them may be read."""
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
    """Whether the server would take a publish, by what mappings make of its subject."""
    return session.guard is None or session.guard.grant.may_publish(_mapped(session, subject))


def _lacking(session: Connection, subject: bytes, headers: bytes) -> NotPermitted | None:
    """What the server would refuse a publish for, beside its subject."""
    if session.guard is None or not asks_author(session) or not ASKED.search(headers):
        return None
    missing = missing_permission(session, _mapped(session, subject), headers)
    if missing is None:
        return None
    doing = "subscribing" if missing.reads else "publishing"
    return NotPermitted(missing.subject, doing, "which a header asks for")


def _inbox_of(user: str) -> bytes:
    """Return how the inboxes begin that are a user's own; empty: the name is no token."""
    token = user.encode("utf-8", "surrogateescape")
    if b"." in token or not is_valid_literal(token):
        return b""
    return b"%b%b." % (_INBOX, token)


def _may_read(session: Connection, inbox: bytes) -> bool:
    return session.guard is None or session.guard.grant.may_read(inbox + b">")


def _mapped(session: Connection, subject: bytes) -> bytes:
    mappings = session.account.mappings
    return subject if mappings is None else mappings.of(subject)
