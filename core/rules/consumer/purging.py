"""The position at which a consumer continues after a purge of its stream."""

from collections.abc import Sequence

from core.subjects.subject import is_subset


def start_after(filters: Sequence[bytes], pattern: bytes, left: int, first: int) -> int | None:
    """Return the sequence at which a consumer continues after a purge or a roll-up.

    Args:
        filters: Filters of the consumer.
        pattern: The purged subjects (empty: all).
        left: Sequence of the first message that remains on the purged subjects; if there is none,
            the next sequence to be assigned.
        first: First sequence of the stream after the purge.

    Returns:
        The sequence. None if the purge does not affect the consumer: `pattern` covers none of its
        filters, and none of its filters covers `pattern`.
    """
    if not pattern or not filters:
        return first
    inside = [is_subset(wanted, pattern) for wanted in filters]
    if all(inside):
        return left
    if any(inside) or any(is_subset(pattern, wanted) for wanted in filters):
        return first
    return None
