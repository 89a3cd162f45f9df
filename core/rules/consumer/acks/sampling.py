"""Sampling of acknowledgements for the ack latency metric (`sample_freq`)."""

from collections.abc import Iterable
from itertools import repeat

from core.goinput import parse_int
from core.units import Seq

_WAITING_MAX = 100_000


class Sampler:
    """Decides which acks are measured, and stores delivery times to measure them.

    Args:
        percent: Share of the acknowledgements that are measured, 1 to 100.
    """

    __slots__ = ("_delivered_at", "_percent")

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._delivered_at: dict[int, int] = {}

    def delivered(self, sseqs: Iterable[int], now: int) -> None:
        """Record the delivery of messages at `now`, in monotonic nanoseconds."""
        self._delivered_at.update(zip(sseqs, repeat(now)))
        while len(self._delivered_at) > _WAITING_MAX:
            del self._delivered_at[next(iter(self._delivered_at))]

    def wants(self, drawn: int) -> bool:
        """Return whether to measure an acknowledgement; `drawn` is a random number from 0 to 99."""
        return drawn < self._percent

    def waited(self, sseq: Seq, now: int) -> int:
        """Return the nanoseconds from the delivery of a message to `now`.

        0 if the time of the delivery is unknown, for example after a restart.
        """
        return now - self._delivered_at.pop(sseq, now)


def make_sampler(frequency: str) -> Sampler | None:
    """Return the sampler for a valid `sample_freq` (`25` or `25%`); None if it is zero or empty."""
    percent = parse_int(frequency.removesuffix("%"))
    return Sampler(percent) if percent and percent > 0 else None
