"""Publishes that no client may send, even with full permissions (nats-server 2.15.1: observed).

Single messages (`core.transport.publishing`), traced ones (`core.transport.traced_publishing`) and
messages in columns (`core.pubsub.batch`) follow the same rules.
"""

from collections.abc import Iterable

RESERVED_REPLIES = (b"_R_.", b"$GR.", b"_GR_.", b"$JS.ACK.")
"""Prefixes of reply subjects that only servers use."""
RESERVED_REPLY_STARTS = frozenset(reply[:4] for reply in RESERVED_REPLIES)
"""The first four bytes of each: one set lookup excludes most replies."""
_BEHIND_BLANK = tuple(b" " + reply for reply in RESERVED_REPLIES)


def is_system(subject: bytes) -> bool:
    """Return True if only servers publish to a subject: those of the Raft groups of a cluster."""
    return subject.startswith(b"$NRG.")


def is_reserved(reply: bytes) -> bool:
    """Return True if only servers use a reply subject."""
    return reply.startswith(RESERVED_REPLIES)


def are_any_reserved(replies: Iterable[bytes]) -> bool:
    """Return True if one of the reply subjects is reserved."""
    joined = b" " + b" ".join(replies)
    return any(reserved in joined for reserved in _BEHIND_BLANK)
