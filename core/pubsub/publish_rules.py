"""Subjects and reply subjects that no client may use in a publish, even with full permissions.

nats-server 2.15.1: behaviour observed. The rules apply to single messages
(`core.transport.publishing`), to traced messages (`core.transport.traced_publishing`) and to
batches of messages (`core.pubsub.batch`).
"""

from collections.abc import Iterable

RESERVED_REPLIES = (b"_R_.", b"$GR.", b"_GR_.", b"$JS.ACK.")
"""Prefixes of reply subjects that only servers use."""
RESERVED_REPLY_STARTS = frozenset(reply[:4] for reply in RESERVED_REPLIES)
"""The first four bytes of each reserved prefix: one set lookup excludes most reply subjects."""
_BEHIND_BLANK = tuple(b" " + reply for reply in RESERVED_REPLIES)


def is_system(subject: bytes) -> bool:
    """Return whether only servers may publish to a subject: `$NRG.` subjects of Raft groups."""
    return subject.startswith(b"$NRG.")


def is_reserved(reply: bytes) -> bool:
    """Return whether a reply subject has a prefix that only servers may use."""
    return reply.startswith(RESERVED_REPLIES)


def are_any_reserved(replies: Iterable[bytes]) -> bool:
    """Return whether one of the reply subjects has a prefix that only servers may use."""
    joined = b" " + b" ".join(replies)
    return any(reserved in joined for reserved in _BEHIND_BLANK)
