"""Where a purge leaves a consumer: which consumers it concerns, and where they go on."""

from collections.abc import Sequence

from core.subjects.subject import is_subset


def start_after(filters: Sequence[bytes], pattern: bytes, left: int, first: int) -> int | None:
    """Return the sequence below which a consumer has nothing to do after a purge or a roll-up.

    Args:
        filters: Those of the consumer.
        pattern: What was purged (empty: whatever the subject).
        left: The first sequence that still has such a subject, or the next to be assigned.
        first: First sequence of the stream after the purge.

    Returns:
        None where the consumer is not concerned: neither is what it wants within what was
        purged, nor the other way round.
    """
    if not pattern or not filters:
        return first
    inside = [is_subset(wanted, pattern) for wanted in filters]
    if all(inside):
        return left
    if any(inside) or any(is_subset(pattern, wanted) for wanted in filters):
        return first
    return None
