"""Delivers messages of batches together with the id of the connection that published them.

An atomic batch (ADR-50) is open as long as messages with its id arrive, and any client that knows
the id could continue it. For the connection types in `Hub.author_connection_types`, the server
therefore adds a header with a secret id of the connection to each message of a batch. Only streams
get the header, on this server or over a link to another node of the database, and they remove it. A
stream keeps the batches of two connections apart even if both use the same batch id.
"""

from core.protocol import headers as header_blocks
from core.pubsub.account import Account
from core.pubsub.receivers import Member, Receivers, Session

AUTHOR_LINE = b"\r\n" + header_blocks.BATCH_AUTHOR + b":"
FAST = b".$FI"
"""End of the reply subjects of fast-ingest batches."""


def with_author(headers: bytes, author: bytes) -> bytes:
    """Return a header block with one more header, in front: the id of the publishing connection.

    `author` is that id (`core.transport.author_publisher.author_of`). Empty `headers`: a new block.
    """
    first, _, rest = (headers or header_blocks.EMPTY).partition(b"\r\n")
    return b"%b\r\n%b: %b\r\n%b" % (first, header_blocks.BATCH_AUTHOR, author, rest)


def without_author(headers: bytes) -> bytes:
    """Return a header block without the header that `with_author` added, as the client sent it."""
    return header_blocks.remove(headers, header_blocks.BATCH_AUTHOR)


def deliver_authored(
    account: Account,
    receivers: Receivers,
    source: Session,
    message: tuple[bytes, bytes, bytes, bytes],
    authored: bytes,
) -> bool:
    """Deliver a message of a batch. Return False if it has no receiver.

    Args:
        account: Account of the publisher.
        receivers: The receivers of the subject.
        source: The session of the publisher.
        message: Subject, reply, headers and payload.
        authored: The header block with the author, for receivers with `takes_authors` (streams).
            All other receivers get the headers of `message`.
    """
    subject, reply, headers, payload = message
    handlers = [service for service in receivers.services if service.takes_authors]
    others: list[Member] = [*receivers.targets]
    others += (member for group in receivers.groups for member in group)
    others += (service for service in receivers.services if not service.takes_authors)
    rest = Receivers(others, None, receivers.forwarder)
    delivered = account.deliver(rest, source, subject, reply, headers, payload)
    for service in handlers:
        service.call(source, subject, reply, authored, payload)
    return delivered or bool(handlers)
