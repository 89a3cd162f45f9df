"""Sampling of acknowledgements: which of them are measured, and how long they took."""

from collections.abc import Iterable
from itertools import repeat

_KEPT_MAX = 100_000


class Sampler:
    """Knows when messages were delivered last.

    Args:
        percent: How many of a hundred acknowledgements are measured, 1 to 100.
    """

    __slots__ = ("_delivered_at", "_percent")

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._delivered_at: dict[int, int] = {}

    def delivered(self, sseqs: Iterable[int], now: int) -> None:
        """Note deliveries at a monotonic time."""
        self._delivered_at.update(zip(sseqs, repeat(now)))  # one side is endless
        while len(self._delivered_at) > _KEPT_MAX:
            del self._delivered_at[next(iter(self._delivered_at))]

    def wants(self, drawn: int) -> bool:
        """Whether an acknowledgement that drew a number of 0 to 99 is one of those to measure."""
        return drawn < self._percent

    def waited(self, sseq: int, now: int) -> int:
        """Nanoseconds since the delivery; 0 when it happened before a restart."""
        return now - self._delivered_at.pop(sseq, now)


def make_sampler(frequency: str) -> Sampler | None:
    """The sampler of a valid `sample_freq` (`25` or `25%`); None when nothing is sampled."""
    percent = int(frequency.removesuffix("%")) if frequency else 0
    return Sampler(percent) if percent > 0 else None
