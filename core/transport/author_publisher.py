"""Publishes whose headers require permissions of their own.

The checks apply only to the types of connections in `Hub.author_connection_types`. Most messages
have no such header, which one search shows. A refusal is answered like any publish without
permission. A message of a batch is delivered with the connection that published it
(`core.pubsub.authored`).
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
    """The publisher that checks headers, and adds the author to messages of batches.

    Args:
        client: The publishing connection.
        wrapped: The next publisher.
        authored: Publishes a message of a batch, given the header block for streams.
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
        """Publish a message if its author has the permissions that its headers require."""
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
        """Publish several messages; they have no headers."""
        self._next.on_run(subject, payloads)

    def on_batch(self, batch: MessageColumns) -> bool:
        """Publish several messages, together if none of them needs a check."""
        is_plain = not batch.has_headers or not ASKED.search(b"".join(batch.headers))
        if is_plain and FAST not in b" ".join(batch.replies):
            return self._next.on_batch(batch)
        for message in batch.messages():
            self.on_pub(*message)
        return False


def asks_author(client: Connection) -> bool:
    """Return True if the headers of a client's messages require permissions."""
    return client.connection_type in client.account.hub.author_connection_types


def missing_permission(
    client: Connection, subject: bytes, headers: bytes
) -> MissingPermission | None:
    """Return a permission that a message requires and its author lacks; None: none is missing."""
    guard = client.guard
    if guard is None or not headers:
        return None
    return lacking(guard.grant, subject, headers, client.account.scopes(subject))


def violation(missing: MissingPermission) -> str:
    """Return the text of nats-server for a missing permission."""
    doing = "Subscription" if missing.reads else "Publish"
    return f"{doing} to {quoted(missing.subject)}"


def authored_block(client: Connection, reply: bytes, headers: bytes) -> bytes:
    """Return the header block that streams get of a batch message; empty for other messages."""
    if reply[-4:] == FAST or header_blocks.find(headers, header_blocks.BATCH_ID):
        return with_author(headers, author_of(client))
    return b""


def author_of(client: Connection) -> bytes:
    """Return a text that identifies a connection among those of all nodes.

    No client can guess it.
    """
    key = client.account.hub.author_key
    return blake2b(b"%d" % client.client_id, key=key, digest_size=16).hexdigest().encode()
