"""Division of a range of sequences into partitions, by number and estimated size of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark_jetstream.options import SplitOptions
from pyspark_jetstream.transport.base import Head


@dataclass(frozen=True, slots=True)
class Span:
    """A range of sequences from `first` to `last`, inclusive; empty if `last < first`."""

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)


def estimate(head: Head, span: Span) -> tuple[int, int]:
    """Estimate the number and the bytes of the messages in a range of sequences.

    The estimate assumes that messages are distributed evenly over the sequences of the stream.
    """
    there = Span(head.first_seq, head.last_seq)
    inside = len(Span(max(span.first, there.first), min(span.last, there.last)))
    if not inside or not len(there):
        return 0, 0
    return -(-head.messages * inside // len(there)), -(-head.bytes * inside // len(there))


def split_span(span: Span, messages: int, size: int, options: SplitOptions) -> list[Span]:
    """Cut a range of sequences into ranges of nearly equal length, one for each partition.

    Args:
        span: The range; an empty one gives no partition.
        messages: Estimated number of messages in it.
        size: Estimated bytes of these messages.
        options: The limits of a partition.
    """
    if not len(span):
        return []
    parts = max(options.min_partitions, -(-size // options.max_bytes))
    if options.max_messages is not None:
        parts = max(parts, -(-messages // options.max_messages))
    return [Span(span.first + a, span.first + b - 1) for a, b in even(len(span), parts)]


def even(length: int, parts: int) -> list[tuple[int, int]]:
    """Cut `length` items into at most `parts` non-empty slices of nearly equal length.

    Returns the indexes (begin, end) of each slice; `end` is exclusive.
    """
    parts = max(1, min(parts, length))
    edges = [length * place // parts for place in range(parts + 1)]
    return list(pairwise(edges)) if length else []


def shares(total: int, waiting: Sequence[int]) -> list[int]:
    """Divide the limit `total` of a micro-batch among streams, in proportion to unread messages.

    The shares add up to `total`. If `total` is less than the number of streams, the streams with
    the most unread messages get one each. No share exceeds a stream's unread messages if `total` is
    at most their sum.

    Args:
        total: The limit, in messages or bytes.
        waiting: Number of unread messages of each stream.
    """
    everything = sum(waiting)
    if not everything:
        return [0] * len(waiting)
    given = [total * one // everything for one in waiting]
    rest = sorted(range(len(waiting)), key=lambda place: -(total * waiting[place] % everything))
    for place in rest[: total - sum(given)]:
        given[place] += 1
    return given
