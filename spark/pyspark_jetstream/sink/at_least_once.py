"""Publication of rows with `delivery=at-least-once`: one message for each row, acknowledged.

Message ids let the stream remove duplicates within its deduplication window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add

import pyarrow as pa

from pyspark_jetstream.nats.errors import NatsError
from pyspark_jetstream.nats.publishing import Messages, NotStored, Publisher
from pyspark_jetstream.sink.ids import with_ids
from pyspark_jetstream.sink.options import SinkOptions
from pyspark_jetstream.sink.rows import RowEncoder, RowError, blocks
from pyspark_jetstream.sink.tasks import Task
from pyspark_jetstream.transport.errors import NotReachable

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a Spark task that published rows.

    Attributes:
        rows: Number of published rows.
        duplicates: Number of these rows that the stream had stored before.
    """

    rows: int
    duplicates: int


def publish(
    options: SinkOptions, task: Task, run: str, batches: Iterator[pa.RecordBatch]
) -> Published:
    """Publish the rows of a partition in order, and wait until the stream has stored all.

    Args:
        options: Options of the writer.
        task: Identity of the Spark task.
        run: Identity of the run, for the message ids of a batch write without `txnVersion`.
        batches: The rows.

    Raises:
        RowError: A row is not a valid message, or the stream refused it; earlier rows are stored.
        NotReachable: The server was unavailable for longer than the option `timeout`.
    """
    encoder = RowEncoder(options.shape, task.partition)
    prefix = id_prefix(options, task, run)
    rows = duplicates = 0

    def stored(acks: list[bytes]) -> None:
        nonlocal duplicates
        duplicates += b"".join(acks).count(b'"duplicate":')

    publisher = Publisher(
        options.settings,
        options.in_flight,
        options.bytes_in_flight,
        stored,
        options.shape.stream,
    )
    try:
        for batch in batches:
            for piece in pieces(batch, options.in_flight // 4):
                subjects, lines, payloads = encoder.encode(piece)
                made = (
                    with_ids(prefix, rows, subjects, lines, payloads)
                    if options.ids
                    else blocks(lines)
                )
                chunk = Messages(subjects, made, payloads)
                check_sizes(chunk, publisher.max_payload, rows, task.partition)
                publisher.send(chunk)
                rows += len(chunk)
        publisher.finish()
    except NotStored as error:
        raise RowError(
            f"row {error.place} of partition {task.partition} was not stored: "
            f"subject {error.subject!r}: {error.error}"
        ) from error
    except NatsError as error:
        raise NotReachable(f"writing partition {task.partition}: {error}") from error
    finally:
        publisher.close()
    return Published(rows, duplicates)


def id_prefix(options: SinkOptions, task: Task, run: str) -> str:
    """Return the start of the message ids of a task: application, batch and partition.

    It is equal when Spark writes the same batch again. A batch write without `txnVersion` has the
    identity of its run instead of a number. Retries of its tasks then have the same ids, but
    another run has others.
    """
    if task.query:
        return f"{options.app or task.query}/{task.batch}/{task.partition}"
    if options.version is not None:
        return f"{options.app}/{options.version}/{task.partition}"
    return f"{options.app or 'batch'}/{run.rpartition(':')[2]}/{task.partition}"


def pieces(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of at most `rows` rows and about 1 MiB."""
    if not batch.num_rows:
        return
    mean = max(1, batch.nbytes // batch.num_rows)
    step = max(1, min(rows, _CHUNK_BYTES // mean))
    for begin in range(0, batch.num_rows, step):
        yield batch.slice(begin, step)


def check_sizes(chunk: Messages, most: int, first: int, partition: int) -> None:
    """Check that no message exceeds the server's max_payload, because the server would disconnect.

    Args:
        chunk: The messages of consecutive rows.
        most: Largest size of headers and payload together, in bytes.
        first: Index of the first row in the partition, from 0.
        partition: Number of the partition, for the error.

    Raises:
        RowError: A message is larger; the text names the first such row.
    """
    blocks, payloads = chunk.blocks, chunk.payloads
    if max(map(len, blocks), default=0) + max(map(len, payloads), default=0) <= most:
        return
    for place, size in enumerate(map(add, map(len, blocks), map(len, payloads))):
        if size > most:
            raise RowError(
                f"row {first + place} of partition {partition}: {size} bytes to "
                f"{chunk.subjects[place].decode()!r} are more than the server's max_payload, {most}"
            )
