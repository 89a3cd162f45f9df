"""Tasks that wait where a test wants them, until it lets them go on."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tests.support.eventually import eventually


class Gates:
    """Gates that tasks come to, one after the other; each opens once for all of them.

    It is pickled to the tasks: what both sides see are files.

    Args:
        directory: An empty directory.
        places: Rows of its partition after which a task waits.
    """

    def __init__(self, directory: Path, *places: int) -> None:
        self._directory = directory
        self._places = places

    def waiting(self, place: int) -> int:
        """How many tasks have come to a gate."""
        return len(list(self._directory.glob(f"{place}.task*")))

    def open(self, place: int) -> None:
        """Let tasks pass a gate."""
        (self._directory / f"{place}.open").touch()

    def pass_all(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; runs in a task."""
        context = TaskContext.get()
        assert context is not None, "called in a task"
        rows, places = 0, list(self._places)
        for batch in batches:
            yield batch
            rows += batch.num_rows
            while places and rows >= places[0]:
                place = places.pop(0)
                (self._directory / f"{place}.task{context.taskAttemptId()}").touch()
                eventually((self._directory / f"{place}.open").exists, within=120)


def checksums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`seq` and `data` as `seq` and the CRC-32 of `data`; runs in a task."""
    for batch in batches:
        crcs = [zlib.crc32(data) for data in batch.column("data").to_pylist()]
        columns = [batch.column("seq"), pa.array(crcs, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, ["seq", "crc"])
