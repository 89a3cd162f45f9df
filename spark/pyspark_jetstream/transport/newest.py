"""The newest row of each subject among rows in ascending order (pure)."""

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.transport.base import RAW_SCHEMA

_WAITING_MAX = 262_144
"""Limit of rows that wait for reduction besides the newest ones."""


class Newest:
    """A row for each subject, and few more."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._waiting = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows whose sequences are higher than all earlier ones."""
        self._parts.append(rows)
        self._waiting += rows.num_rows
        if self._waiting > _WAITING_MAX:
            self._parts = self.rows().to_batches()
            self._waiting = 0

    def rows(self) -> pa.Table:
        """Return the newest row of each subject, by sequence."""
        table = pa.Table.from_batches(self._parts, RAW_SCHEMA)
        last = table.group_by("subject").aggregate([("seq", "max")])["seq_max"]
        return table.filter(pc.is_in(table["seq"], value_set=last.combine_chunks()))
