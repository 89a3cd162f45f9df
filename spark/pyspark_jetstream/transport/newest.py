"""The newest row of each subject among rows that come in ascending order (pure)."""

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.transport.base import RAW_SCHEMA

_KEPT = 262_144
"""Rows that may wait besides the newest ones."""


class Newest:
    """Keeps a row for each subject, and not many more than that."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._waiting = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows whose sequences are higher than those before."""
        self._parts.append(rows)
        self._waiting += rows.num_rows
        if self._waiting > _KEPT:
            self._parts = self.rows().to_batches()
            self._waiting = 0

    def rows(self) -> pa.Table:
        """The newest row of each subject, by sequence."""
        table = pa.Table.from_batches(self._parts, RAW_SCHEMA)
        last = table.group_by("subject").aggregate([("seq", "max")])["seq_max"]
        return table.filter(pc.is_in(table["seq"], value_set=last.combine_chunks()))
