"""What the roll-ups of a batch remove whose subjects hold wildcards: all that these match.

As in a purge by filter, and in the reference server: clients purge many keys with one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.subjects.subject import fixed_prefix, is_subset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class PurgedFilters:
    """The filters by which a batch has removed what was stored before it.

    A batch may repeat them: what one has removed, the next need not look for.
    """

    __slots__ = ("_filters",)

    def __init__(self) -> None:
        self._filters: list[bytes] = []

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._filters)

    def add(self, pattern: bytes) -> bool:
        """Take a filter; False when those before it have removed all of it already."""
        if self.have(pattern):
            return False
        self._filters.append(pattern)
        return True

    def have(self, subject: bytes) -> bool:
        """Whether what was stored on a subject, or on all of a filter, is removed."""
        return any(is_subset(subject, pattern) for pattern in self._filters)


def covered(names: Iterable[bytes], pattern: bytes) -> list[bytes]:
    """Return which subjects go with a purge of a filter.

    Messages may be on subjects that hold wildcards themselves: these go when the filter has all
    that they match.
    """
    prefix = fixed_prefix(pattern)
    return [name for name in names if name.startswith(prefix) and is_subset(name, pattern)]
