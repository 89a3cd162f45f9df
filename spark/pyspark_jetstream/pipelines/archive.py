"""Archive of streams as Parquet files: each message exactly once, after a crash at any point.

Tasks write the files of a batch under temporary names. Then a journal beside the files
(`pipelines.journal`) records the final names (`begun`), the driver renames the files, and the
journal records the end (`done`). Before `begun` no file is visible, and the next run deletes the
temporary files. After `begun` the next run renames the remaining files of the recorded list. So
every run ends with the same files, even if messages were removed in between.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_jetstream.pipelines.declaration import Archive, Lake
from pyspark_jetstream.pipelines.journal import Entry, Journal, Piece, Range
from pyspark_jetstream.pipelines.lake_reader import files_of, read_lake
from pyspark_jetstream.pipelines.rounds import Round
from pyspark_jetstream.pipelines.staging import READ, RESULT, Plan
from pyspark_jetstream.pipelines.store import Store, StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "_jetstream"
"""Directory of the archive's own files; readers of Parquet ignore it because of the `_`."""


def nothing(_point: str) -> None:
    """Do nothing. Tests replace this function to crash a run at a named point between two steps."""


@dataclass(frozen=True, slots=True)
class ParquetLake:
    """A directory of Parquet files that an archive writes.

    Life cycle: `open`, then `write` for each batch.

    Attributes:
        archive: The declaration of the archive.
        store: The directory.
        journal: Record of the archive's batches.
        at: Called with the name of each point between two steps, for tests.
    """

    archive: Archive
    store: Store
    journal: Journal
    at: Callable[[str], None] = nothing

    @classmethod
    def open(cls, archive: Archive, at: Callable[[str], None] = nothing) -> "ParquetLake":
        """Open the directory: complete the batch of an earlier run, and delete its temporary files.

        Raises StoreError if a file of that batch was deleted.
        """
        store = Store.at(archive.path)
        lake = cls(archive, store, Journal(store, f"{OURS}/{archive.name}"), at)
        lake._complete()
        store.remove_all(lake._staging)
        return lake

    @property
    def _staging(self) -> str:
        return f"{OURS}/{self.archive.name}.staging"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a DataFrame that an archive needs, such as "seq"."""
        return READ

    def write(
        self, rows: "DataFrame", one: Round, check: Callable[[], None] = lambda: None
    ) -> Entry:
        """Archive a batch; return its entry in the journal, with files and number of rows.

        Args:
            rows: The messages of the batch, with the columns `staging.READ`.
            one: The sequences of the batch, by stream.
            check: Called before the files become visible; raises if the rows must not be archived.
        """
        entry = self.journal.next(one.ranges)
        plan = Plan(
            self.archive.path if not self.store.local else self.store.root,
            f"{self._staging}/{entry.batch:012}",
            {stream: r.incarnation for stream, r in one.ranges.items()},
            self.archive.compression,
        )
        files = rows.mapInArrow(plan, RESULT).collect()
        pieces = sorted(
            (Piece(f.staged, f.path, f.rows, f.bytes) for f in files), key=lambda p: p.path
        )
        self.at("staged")
        check()
        entry = replace(entry, pieces=tuple(pieces), rows=sum(piece.rows for piece in pieces))
        self.journal.begin(entry)
        self.at("begun")
        done = self._complete()
        self.store.remove_all(plan.staging)
        assert done is not None
        return done

    def sequences(self, spark: "SparkSession", stream: str, span: Range) -> "DataFrame":
        """Return the archived sequences in a range of a stream, in the column `seq`."""
        path = self.archive.path
        files = files_of(Lake(path, stream, span.incarnation))
        return read_lake(spark, Lake(path, stream), files, span.first, span.last, ("seq",))

    def _complete(self) -> Entry | None:
        """Move the files of the begun batch to their final names.

        Returns the entry of the batch, or None if none is begun. Raises StoreError if a file exists
        neither under its temporary nor under its final name.
        """
        entry = self.journal.begun
        if entry is None:
            return None
        for piece in entry.pieces:
            if self.store.exists(piece.staged):
                self.store.move(piece.staged, piece.path)
                self.at("moved")
            elif not self.store.exists(piece.path):
                raise StoreError(
                    f"batch {entry.batch} of archive {self.archive.name!r} cannot be finished: "
                    f"neither {self.store.full(piece.staged)} nor {self.store.full(piece.path)} "
                    "is there. It was deleted; restore it, or archive under another name"
                )
        self.at("visible")
        return self.journal.finish()
