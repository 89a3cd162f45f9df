"""Checks publishes whose headers require permissions of their own.

The checks apply only to the connection types in `Hub.author_connection_types`. Most messages have
no such header, which one search shows. A message without the permission is refused like any other
publish without permission. A message of a batch is delivered together with the connection that
published it (`core.pubsub.authored`).
"""

from collections.abc import Callable
from hashlib import blake2b

from core.auth.author import ASKED, MissingPermission, lacking
from core.protocol import headers as header_blocks
from core.protocol.messages import Message, MessageColumns
from core.protocol.server_parser import Publisher
from core.pubsub.authored import FAST, with_author
from core.pubsub.server import Connection
from core.transport.error_texts import permissions_violation, quoted


class AuthorPublisher:
    """Publishes a client's messages if it has the permissions that their headers require.

    It also adds the author header to messages of batches.

    Args:
        client: The publishing connection.
        wrapped: The publisher that is called for permitted messages.
        authored: Publishes a message of a batch; its last argument is the header block that only
            streams get, which has the id of the connection.
    """

    __slots__ = ("_authored", "_client", "_next", "_publish")

    def __init__(
        self, client: Connection, wrapped: Publisher, authored: Callable[[Message, bytes], None]
    ) -> None:
        self._client = client
        self._authored = authored
        self._next = wrapped
        self._publish = wrapped.on_pub

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message if the client may send its headers; else send -ERR."""
        is_fast = reply[-4:] == FAST
        if not is_fast and not (headers and ASKED.search(headers)):
            self._publish(subject, reply, headers, payload)
            return
        client = self._client
        if (missing := missing_permission(client, subject, headers)) is not None:
            client.write_line(permissions_violation(violation(missing)))
            return
        if authored := authored_block(client, reply, headers):
            self._authored((subject, reply, headers, payload), authored)
        else:
            self._publish(subject, reply, headers, payload)

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish several messages with one subject and size.

        They have no headers, so none is checked.
        """
        self._next.on_run(subject, payloads)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages.

        Return False if they were published one by one, since one needs a check.
        """
        is_plain = not batch.has_headers or not ASKED.search(b"".join(batch.headers))
        if is_plain and FAST not in b" ".join(batch.replies):
            return self._next.on_batch(batch)
        for message in batch.messages():
            self.on_pub(*message)
        return False


def asks_author(client: Connection) -> bool:
    """Return whether headers of this client's messages require permissions."""
    return client.connection_type in client.account.hub.author_connection_types


def missing_permission(
    client: Connection, subject: bytes, headers: bytes
) -> MissingPermission | None:
    """Return a permission that the headers of a message require and the client lacks.

    None: the client may send the message.
    """
    guard = client.guard
    if guard is None or not headers:
        return None
    return lacking(guard.grant, subject, headers, client.account.scopes(subject))


def violation(missing: MissingPermission) -> str:
    """Return the text of an -ERR for a missing permission, as in nats-server."""
    doing = "Subscription" if missing.reads else "Publish"
    return f"{doing} to {quoted(missing.subject)}"


def authored_block(client: Connection, reply: bytes, headers: bytes) -> bytes:
    """Return the header block that streams get of a message: with the id of its connection.

    Empty if the message belongs to no atomic or fast-ingest batch; streams then get `headers`.
    """
    if reply[-4:] == FAST or header_blocks.find(headers, header_blocks.BATCH_ID):
        return with_author(headers, author_of(client))
    return b""


def author_of(client: Connection) -> bytes:
    """Return an id of a connection that is unique among all nodes and that no client can guess."""
    key = client.account.hub.author_key
    return blake2b(b"%d" % client.client_id, key=key, digest_size=16).hexdigest().encode()
