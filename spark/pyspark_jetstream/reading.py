"""The read of one partition of `mode=log` in a Spark task, for batch and streaming queries."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyspark_jetstream.losses import LossPolicy
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.rows import RowShaper
from pyspark_jetstream.snapshots import Latest, read_latest
from pyspark_jetstream.transport import open_transport
from pyspark_jetstream.transport.base import Transport
from pyspark_jetstream.transport.errors import StreamNotFound
from pyspark_jetstream.transport.waiting import head_when_there


@dataclass(frozen=True, slots=True)
class RangeSplit:
    """A partition: the messages of one stream in a range of sequences.

    Attributes:
        stream: Name of the stream.
        incarnation: Creation time of the stream when the driver planned the partition, in
            nanoseconds since the epoch.
        first, last: Range of sequences, inclusive.
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

    Attributes:
        stream: Name of the stream.
        incarnation: Creation time of the stream when the driver planned the partition, in
            nanoseconds since the epoch.
        latest: Sequences and subjects of the messages.
        kind: `current`: a message that is no longer stored is replaced by the newest of its
            subject, and deleted keys are left out. `exact`: the same without replacement. `found`:
            all messages that are still stored, with deleted keys.
        up_to: The last sequence of the state that the query reads; messages that replace others
            may have higher ones.
    """

    stream: str
    incarnation: int
    latest: Latest
    kind: str
    up_to: int


Split = RangeSplit | LatestSplit


def read_split(
    options: ReadOptions, schema: pa.Schema, split: Split | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition as Arrow batches of `schema`; no rows if `split` is None.

    Raises DataLoss or StreamRecreated if messages are no longer stored, unless `failOnDataLoss` is
    false.
    """
    if split is None:  # Spark plans a partition of None if there is nothing to read
        return
    transport = open_transport(options.connection)
    shaper = RowShaper(split.stream, schema, options.payload, options.json)
    policy = LossPolicy(options.fail_on_loss)
    wait_s = options.connection.timeout if policy.goes_on else 0.0
    try:
        if isinstance(split, RangeSplit):
            # Over NATS, a read beyond the end of the stream waits, even if the stream was
            # recreated.
            is_checked = policy.goes_on or options.connection.transport == "nats"
            yield from _read_range(transport, policy, shaper, split, wait_s, is_checked)
        else:
            head = head_when_there(transport, split.stream, wait_s)
            if policy.recreated(head, split.incarnation):
                return
            for rows in read_latest(
                transport, split.stream, split.latest, shaper.wanted, split.kind
            ):
                yield shaper.shape(rows, split.up_to)
    finally:
        transport.close()


def _read_range(
    transport: Transport,
    policy: LossPolicy,
    shaper: RowShaper,
    split: RangeSplit,
    wait_s: float,
    is_checked: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of sequences.

    Args:
        transport: Connection that reads the stream.
        policy: Reaction to losses.
        shaper: Converts messages to rows.
        split: The range.
        wait_s: Seconds to wait for a deleted stream to be created again.
        is_checked: True to check, before the first read, that the stream was not recreated.
    """
    after, missing = split.first - 1, 0
    if is_checked and policy.recreated(
        head_when_there(transport, split.stream, wait_s), split.incarnation
    ):
        return
    while after < split.last:
        try:
            for page in transport.pages(
                split.stream, after + 1, split.last, split.filters, shaper.wanted
            ):
                if policy.recreated(page.head, split.incarnation):
                    return
                trimmed = policy.trimmed(page.head, after, page.through)
                missing += page.through - after - trimmed - page.rows.num_rows
                after = page.through
                if page.rows.num_rows:
                    yield shaper.shape(page.rows)
            break
        except StreamNotFound:
            if not policy.goes_on:
                raise
            head = head_when_there(transport, split.stream, wait_s)
            if policy.recreated(head, split.incarnation):
                return
    if not split.filters:  # with filters, a missing sequence may simply not match
        policy.removed(split.stream, split.first, split.last, missing)
