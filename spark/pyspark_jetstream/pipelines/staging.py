"""The Spark task of an archive: writes the messages of a batch to Parquet files.

A task writes to a new directory for each attempt, under temporary names that readers of the archive
ignore. It returns one row for each file. Only the files that Spark's accepted attempts return get
their final names.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_jetstream import headers
from pyspark_jetstream.pipelines.names import LakeFile, day_of
from pyspark_jetstream.pipelines.store import Store
from pyspark_jetstream.units import NANOS_PER_SECOND

READ = ("stream", "subject", "seq", "timestamp_ns", "header_block", "data", "size")
"""Columns of the stream that an archive reads."""

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))

SCHEMA = pa.schema(
    [
        ("incarnation", pa.int64()),  # creation time of the stream, nanoseconds since 1970
        ("seq", pa.int64()),
        ("subject", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ns", pa.int64()),
        ("headers", HEADERS),
        ("header_block", pa.binary()),  # as published, byte for byte; null for none
        ("data", pa.binary()),
        ("size", pa.int64()),
    ]
)
"""The columns of an archived file; its path contains `day` and `stream`."""

RESULT = "staged string, path string, stream string, rows bigint, bytes bigint"
"""Schema of the rows that a task returns for its files, as DDL."""

GROUP_ROWS = 131_072
GROUP_BYTES = 64 << 20
OPEN_FILES = 4
_DAY = 86400 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Plan:
    """The Spark task of an archive with its parameters, for `DataFrame.mapInArrow`.

    Attributes:
        lake: Directory or address of the archive.
        staging: Directory of the batch's temporary files, relative to the archive.
        incarnations: Creation time of each stream, in nanoseconds since the epoch.
        compression: Codec of Parquet.
    """

    lake: str
    staging: str
    incarnations: Mapping[str, int]
    compression: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the messages of one task; yield a row for each file, with the columns `RESULT`."""
        files = list(stage(batches, self))
        names = ("staged", "path", "stream", "rows", "bytes")
        yield pa.RecordBatch.from_pydict(
            {name: [one[place] for one in files] for place, name in enumerate(names)},
            schema=pa.schema(
                [(n, pa.int64() if n in ("rows", "bytes") else pa.string()) for n in names]
            ),
        )


@dataclass(slots=True)
class _Writing:
    """An open Parquet file, with the rows of its next row group."""

    path: str
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    first: int
    last: int = 0
    rows: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows; write them as a row group when there are enough."""
        self.waiting.append(rows)
        self.waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        self.rows += rows.num_rows
        self.last = rows.column(1)[-1].as_py()
        if self.waiting_rows >= GROUP_ROWS or self.waiting_bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the pending rows as one row group."""
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting, SCHEMA))
            self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0


def stage(
    batches: Iterable[pa.RecordBatch], plan: Plan
) -> Iterator[tuple[str, str, str, int, int]]:
    """Write the messages of one task to Parquet files, one for each stream and day.

    Yields:
        For each file: temporary path, final path, stream, number of rows, and size in bytes.
    """
    store = Store.at(plan.lake)
    attempt = f"{plan.staging}/{uuid.uuid4().hex}"
    writing: dict[tuple[str, str], _Writing] = {}
    made = 0
    for batch in batches:
        for stream, day, rows in _parts(batch, plan):
            key = (stream, day)
            if key not in writing:
                if len(writing) == OPEN_FILES:
                    oldest = next(iter(writing))
                    yield _close(oldest, writing.pop(oldest), store, plan)
                made += 1
                writing[key] = _open(store, f"{attempt}/{made}.staged", rows, plan)
            writing[key].add(rows)
    for key, one in writing.items():
        yield _close(key, one, store, plan)


def _open(store: Store, path: str, rows: pa.RecordBatch, plan: Plan) -> _Writing:
    sink = store.create(path)
    writer = pq.ParquetWriter(
        sink,
        SCHEMA,
        compression=plan.compression,
        use_dictionary=["subject"],
        write_statistics=["seq", "timestamp", "timestamp_ns", "subject"],
        write_page_checksum=True,
    )
    return _Writing(path, sink, writer, rows.column(1)[0].as_py())


def _close(
    key: tuple[str, str], one: _Writing, store: Store, plan: Plan
) -> tuple[str, str, str, int, int]:
    stream, day = key
    one.flush()
    one.writer.close()
    one.sink.close()
    size = store.seal(one.path)
    name = LakeFile(day, stream, plan.incarnations[stream], one.first, one.last)
    return one.path, name.path, stream, one.rows, size


def _parts(batch: pa.RecordBatch, plan: Plan) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yield the rows of each stream and day in a batch, in order, with the columns of a file."""
    if not batch.num_rows:
        return
    streams = batch.column("stream")
    days = pc.divide(batch.column("timestamp_ns"), _DAY)
    for stream in pc.unique(streams).to_pylist():
        inside = pc.equal(streams, stream)
        for day in pc.unique(days.filter(inside)).to_pylist():
            mask = pc.and_(inside, pc.equal(days, day))
            rows = batch if pc.all(mask).as_py() else batch.filter(mask)
            yield stream, day_of(day * _DAY), _as_file(rows, plan.incarnations[stream])


def _as_file(rows: pa.RecordBatch, incarnation: int) -> pa.RecordBatch:
    ns = rows.column("timestamp_ns")
    blocks = rows.column("header_block")
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(incarnation, pa.int64()), rows.num_rows),
            rows.column("seq"),
            rows.column("subject"),
            pc.divide(ns, 1000).cast(pa.timestamp("us", "UTC")),
            ns,
            headers.as_maps(blocks, HEADERS),
            blocks,
            rows.column("data"),
            rows.column("size"),
        ],
        schema=SCHEMA,
    )
