"""Reduction of rows in ascending order to the newest row of each subject (no I/O)."""

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.transport.base import RAW_SCHEMA

_WAITING_MAX = 262_144
"""Number of added rows after which older rows of the same subjects are removed from memory."""


class Newest:
    """Collector of the newest row of each subject; `add` rows in order, then get `rows`.

    Memory is limited to the newest row of each subject and 262,144 rows more.
    """

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._waiting = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; their sequences must be higher than those of all earlier rows."""
        self._parts.append(rows)
        self._waiting += rows.num_rows
        if self._waiting > _WAITING_MAX:
            self._parts = self.rows().to_batches()
            self._waiting = 0

    def rows(self) -> pa.Table:
        """Return the newest row of each subject, by ascending sequence."""
        table = pa.Table.from_batches(self._parts, RAW_SCHEMA)
        last = table.group_by("subject").aggregate([("seq", "max")])["seq_max"]
        return table.filter(pc.is_in(table["seq"], value_set=last.combine_chunks()))
