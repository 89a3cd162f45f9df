"""Roll-ups whose subject contains wildcards: they remove the messages of all matching subjects.

As in a purge by filter, and in nats-server: clients purge many keys with one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.subjects.subject import fixed_prefix, is_subset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class PurgedFilters:
    """The filters by which a batch of publishes has removed messages stored before it.

    A batch may repeat a filter; then its subjects need not be searched again.
    """

    __slots__ = ("_filters",)

    def __init__(self) -> None:
        self._filters: list[bytes] = []

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._filters)

    def add(self, pattern: bytes) -> bool:
        """Add a filter. Returns False if earlier filters cover all of it."""
        if self.have(pattern):
            return False
        self._filters.append(pattern)
        return True

    def have(self, subject: bytes) -> bool:
        """Return whether the stored messages of a subject, or of a whole filter, are removed."""
        return any(is_subset(subject, pattern) for pattern in self._filters)


def covered(names: Iterable[bytes], pattern: bytes) -> list[bytes]:
    """Return those of the subjects that a purge by filter `pattern` removes.

    A message may be stored on a subject that contains wildcards itself. Such a subject is removed
    if the filter covers all subjects that it matches.
    """
    prefix = fixed_prefix(pattern)
    return [name for name in names if name.startswith(prefix) and is_subset(name, pattern)]
