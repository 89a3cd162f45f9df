"""Reading one partition, in a task: what `read` of every reader of `mode=log` does."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyspark_jetstream.losses import LossPolicy
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.rows import RowShaper
from pyspark_jetstream.snapshots import Latest, read_latest
from pyspark_jetstream.transport import open_transport
from pyspark_jetstream.transport.base import Transport


@dataclass(frozen=True, slots=True)
class RangeSplit:
    """A partition: the messages of one stream in a range of sequences.

    Args:
        stream: Its name.
        incarnation: When the stream that was planned was created, in nanoseconds since the epoch.
        first, last: The range, both included.
        filters: Subjects to read; empty for all.
    """

    stream: str
    incarnation: int
    first: int
    last: int
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LatestSplit:
    """A partition: the last messages of some subjects of one stream.

    Args:
        stream: Its name.
        incarnation: When the stream that was planned was created, in nanoseconds since the epoch.
        latest: Their sequences and subjects.
        current: A message that is not there any more is replaced by the one that replaced it, and
            subjects that were deleted are left out; else it is left out itself.
    """

    stream: str
    incarnation: int
    latest: Latest
    current: bool


Split = RangeSplit | LatestSplit


def read_split(
    options: ReadOptions, schema: pa.Schema, split: Split | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in batches of `schema`; none of no partition."""
    if split is None:  # what Spark plans where there is nothing to read
        return
    transport = open_transport(options.connection)
    shaper = RowShaper(split.stream, schema, options.payload, options.json)
    policy = LossPolicy(options.fail_on_loss)
    try:
        if isinstance(split, RangeSplit):
            yield from _read_range(transport, policy, shaper, split)
        else:
            head = transport.head(split.stream)
            if policy.recreated(head, split.incarnation):
                return
            for rows in read_latest(
                transport, split.stream, split.latest, shaper.wanted, current=split.current
            ):
                yield shaper.shape(rows)
    finally:
        transport.close()


def _read_range(
    transport: Transport, policy: LossPolicy, shaper: RowShaper, split: RangeSplit
) -> Iterator[pa.RecordBatch]:
    after, missing = split.first - 1, 0
    for page in transport.pages(
        split.stream, split.first, split.last, split.filters, shaper.wanted
    ):
        if policy.recreated(page.head, split.incarnation):
            return
        trimmed = policy.trimmed(page.head, after, page.through)
        missing += page.through - after - trimmed - page.rows.num_rows
        after = page.through
        if page.rows.num_rows:
            yield shaper.shape(page.rows)
    if not split.filters:  # else what is missing may just not match
        policy.removed(split.stream, split.first, split.last, missing)
