"""Reader of the Parquet files of an archive, by sequence; the file names contain the sequences."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_jetstream.pipelines.declaration import Lake
from pyspark_jetstream.pipelines.names import LakeFile, parsed
from pyspark_jetstream.pipelines.store import Store, StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "seq": "bigint",
    "subject": "string",
    "timestamp_ns": "bigint",
    "header_block": "binary",
    "data": "binary",
}
"""Columns of an archive that a replay reads, with their types as DDL."""

_ROWS = 8192


def files_of(lake: Lake) -> list[LakeFile]:
    """Return the archived files of one stream, in the order of sequences.

    Raises StoreError if there are none, or if the archive has several streams of this name and
    `lake.incarnation` is 0.
    """
    store = Store.at(lake.path)
    found = [
        file
        for path, _ in store.walk()
        if (file := parsed(path)) is not None and file.stream == lake.stream
    ]
    created = sorted({file.incarnation for file in found})
    if lake.incarnation:
        found = [file for file in found if file.incarnation == lake.incarnation]
    elif len(created) > 1:
        raise StoreError(
            f"{lake.path} holds {len(created)} streams named {lake.stream!r}, created at "
            f"{', '.join(map(str, created))}: choose one with source.incarnation"
        )
    if not found:
        raise StoreError(f"{lake.path} holds no messages of a stream {lake.stream!r}")
    return sorted(found, key=lambda file: (file.first, file.last))


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """Reader of archived files in Spark tasks, for `DataFrame.mapInArrow`.

    The rows that Spark passes to a task contain numbers of groups of files to read. If clocks went
    back, files of consecutive days may overlap in sequences. Overlapping files are in one group,
    and the task sorts their rows.

    Attributes:
        lake: Directory or address of the archive.
        groups: Paths of the files of each group.
        first, last: Range of sequences to read, inclusive.
        columns: Columns to read.
    """

    lake: str
    groups: tuple[tuple[str, ...], ...]
    first: int
    last: int
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages in the groups of files with the given numbers, in the order of
        sequences.
        """
        store = Store.at(self.lake)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._group(store, self.groups[number])

    def _group(self, store: Store, paths: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        if len(paths) > 1:
            tables = [pa.Table.from_batches(self._file(store, path)) for path in paths]
            table = pa.concat_tables(tables).sort_by("seq")
            yield from table.to_batches(max_chunksize=_ROWS)
            return
        yield from self._file(store, paths[0])

    def _file(self, store: Store, path: str) -> Iterator[pa.RecordBatch]:
        with store.files.open_input_file(store.full(path)) as source:
            file = pq.ParquetFile(source)
            for rows in file.iter_batches(batch_size=_ROWS, columns=list(self.columns)):
                seq = rows.column("seq")
                inside = pc.and_(pc.greater_equal(seq, self.first), pc.less_equal(seq, self.last))
                yield rows.filter(inside).select(list(self.columns))


def grouped(files: Iterable[LakeFile]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of files in groups, one for each task, in the order of sequences.

    Files with overlapping sequences are in one group.
    """
    groups: list[list[str]] = []
    last = -1
    for file in files:
        if not groups or file.first > last:
            groups.append([])
        groups[-1].append(file.path)
        last = max(last, file.last)
    return tuple(tuple(group) for group in groups)


def read_lake(
    spark: "SparkSession",
    lake: Lake,
    files: Iterable[LakeFile],
    first: int,
    last: int,
    columns: tuple[str, ...] = tuple(COLUMNS),
) -> "DataFrame":
    """Return the archived messages of a range as a DataFrame, in the order of sequences.

    Args:
        spark: The Spark session.
        lake: The archive.
        files: Files of the stream, from `files_of`.
        first, last: Range of sequences, inclusive.
        columns: Columns to read, of `COLUMNS`.
    """
    store = Store.at(lake.path)
    root = store.root if store.local else lake.path
    groups = grouped(f for f in files if f.last >= first and f.first <= last)
    reading = ReadFiles(root, groups, first, last, columns)
    ddl = ", ".join(f"{name} {COLUMNS[name]}" for name in columns)
    numbers = spark.range(0, len(groups), 1, max(1, len(groups)))
    return numbers.mapInArrow(reading, ddl)
