"""Messages of batches on their way to a stream, with the connection that they are from.

A batch is open for as long as its publisher goes on with it, and whoever knows its id can do that
too (ADR-50). Where connections own their batches (`Hub.author_doors`), a server adds to each
message of one a header that no subscriber sees and nobody can guess: it goes to streams, here or
over a link to another node of the database, which take the header off. A stream keeps the batches
of two connections apart even if they have the same id.
"""

from core.protocol import headers as header_blocks
from core.pubsub.account import Account
from core.pubsub.route import Member, Route, Session

AUTHOR_LINE = b"\r\n" + header_blocks.BATCH_AUTHOR + b":"
FAST = b".$FI"
"""How the reply subjects of fast-ingest batches end."""


def with_author(headers: bytes, author: bytes) -> bytes:
    """Return a header block that names an author before whatever the message says of one."""
    first, _, rest = (headers or header_blocks.EMPTY).partition(b"\r\n")
    return b"%b\r\n%b: %b\r\n%b" % (first, header_blocks.BATCH_AUTHOR, author, rest)


def without_author(headers: bytes) -> bytes:
    """Return a header block as its message came from the client."""
    return header_blocks.remove(headers, header_blocks.BATCH_AUTHOR)


def deliver_authored(
    account: Account,
    route: Route,
    source: Session,
    message: tuple[bytes, bytes, bytes, bytes],
    authored: bytes,
) -> bool:
    """Deliver a message of a batch (subject, reply, headers, payload); False when nobody is there.

    Streams get the header block `authored`, everybody else that of the message.
    """
    subject, reply, headers, payload = message
    takers = [service for service in route.services if service.takes_authors]
    others: list[Member] = [*route.targets]
    others += (member for group in route.groups for member in group)
    others += (service for service in route.services if not service.takes_authors)
    rest = Route(others, None, route.onward)
    delivered = account.deliver(rest, source, subject, reply, headers, payload)
    for service in takers:
        service.call(source, subject, reply, authored, payload)
    return delivered or bool(takers)
