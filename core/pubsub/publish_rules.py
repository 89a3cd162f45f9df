"""What no client may publish, whatever its permissions (nats-server 2.15.1: behaviour observed).

Single messages (`core.transport.publishing`), traced ones (`core.transport.traced_publishing`) and
messages in columns (`core.pubsub.batch`) follow the same rules.
"""

from collections.abc import Iterable

RESERVED_REPLIES = (b"_R_.", b"$GR.", b"_GR_.", b"$JS.ACK.")
"""How reply subjects begin that only servers use."""
RESERVED_REPLY_STARTS = frozenset(reply[:4] for reply in RESERVED_REPLIES)
"""Their first four bytes: one look into a set tells most replies apart."""
_BEHIND_BLANK = tuple(b" " + reply for reply in RESERVED_REPLIES)


def is_system(subject: bytes) -> bool:
    """Return whether only servers publish to a subject: those of the Raft groups of a cluster."""
    return subject.startswith(b"$NRG.")


def is_reserved(reply: bytes) -> bool:
    """Return whether only servers use a reply subject."""
    return reply.startswith(RESERVED_REPLIES)


def are_any_reserved(replies: Iterable[bytes]) -> bool:
    """Return whether one of the reply subjects is reserved."""
    joined = b" " + b" ".join(replies)
    return any(reserved in joined for reserved in _BEHIND_BLANK)
