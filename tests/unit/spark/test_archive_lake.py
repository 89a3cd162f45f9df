"""The lake of an archive: each message once, whatever dies between which two steps."""

# Subject: Spark rows, Spark pipelines

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark_jetstream.pipelines.archive import ParquetLake
from pyspark_jetstream.pipelines.declaration import Archive, Source
from pyspark_jetstream.pipelines.journal import Journal, Range, Superseded
from pyspark_jetstream.pipelines.names import parsed
from pyspark_jetstream.pipelines.rounds import Round
from pyspark_jetstream.pipelines.staging import Plan
from pyspark_jetstream.pipelines.store import Store, StoreError

from tests.support.kill_points import Killed, dying

CREATED = 1763830348183912345
NOON = 1763812800 * 10**9
HOUR = 3600 * 10**9
BLOCK = b"NATS/1.0\r\nb: 1\r\nA:2\r\nb:  3\r\n\r\n"


def source_rows(stream: str, seqs: Iterable[int]) -> pa.RecordBatch:
    """Rows as the source gives them: one message an hour, every third with headers."""
    seqs = list(seqs)
    return pa.RecordBatch.from_pydict(
        {
            "stream": [stream] * len(seqs),
            "subject": [f"s.{seq % 5}" for seq in seqs],
            "seq": pa.array(seqs, pa.int64()),
            "timestamp_ns": pa.array([NOON + seq * HOUR + 7 for seq in seqs], pa.int64()),
            "header_block": pa.array(
                [BLOCK if seq % 3 == 0 else None for seq in seqs], pa.binary()
            ),
            "data": pa.array([b"\x00%d" % seq for seq in seqs], pa.binary()),
            "size": pa.array([1 + len(str(seq)) for seq in seqs], pa.int64()),
        }
    )


@dataclass
class Frame:
    """Stands for a DataFrame: its partitions, each a list of batches."""

    partitions: list[list[pa.RecordBatch]]

    def mapInArrow(self, function: Plan, schema: str) -> "Frame":
        """Run the function on each partition."""
        return Frame([list(function(iter(batches))) for batches in self.partitions])

    def collect(self) -> list[Any]:
        """The rows, with their columns as attributes."""
        return [
            type("Row", (), row)
            for batches in self.partitions
            for batch in batches
            for row in batch.to_pylist()
        ]


def frame(seqs: Iterable[int], size: int = 10, stream: str = "S") -> Any:
    """A DataFrame of one stream with partitions of at most `size` rows."""
    seqs = list(seqs)
    parts = [seqs[at : at + size] for at in range(0, len(seqs), size)]
    return Frame([[source_rows(stream, part)] for part in parts])


def archive(path: Path) -> Archive:
    return Archive("lake", Source(("S",)), str(path))


def round_of(first: int, last: int, stream: str = "S") -> Round:
    return Round({stream: Range(CREATED, first, last)}, 0)


def archived(path: Path) -> list[int]:
    """The sequences that any reader sees, sorted."""
    return sorted(
        ds.dataset(path, partitioning="hive", format="parquet").to_table()["seq"].to_pylist()
    )


def test_files_are_sorted_by_day_and_stream_and_named_by_sequences(tmp_path: Path) -> None:
    entry = ParquetLake.open(archive(tmp_path)).write(frame(range(1, 41), 40), round_of(1, 40))
    found = [parsed(path) for path, _ in Store.at(str(tmp_path)).walk() if path.startswith("day=")]
    assert [(f.day, f.stream, f.incarnation, f.first, f.last) for f in found if f] == [
        ("2025-11-22", "S", CREATED, 1, 11),
        ("2025-11-23", "S", CREATED, 12, 35),
        ("2025-11-24", "S", CREATED, 36, 40),
    ]
    assert (entry.batch, entry.rows, len(entry.pieces)) == (1, 40, 3)


def test_a_row_keeps_every_byte(tmp_path: Path) -> None:
    ParquetLake.open(archive(tmp_path)).write(frame([3, 4]), round_of(3, 4))
    (file,) = tmp_path.glob("day=*/stream=S/*.parquet")
    first, second = pq.ParquetFile(file).read().to_pylist()
    assert first["header_block"] == BLOCK
    assert first["headers"] == [("b", ["1", "3"]), ("A", ["2"])]
    assert (first["data"], first["seq"], first["subject"]) == (b"\x003", 3, "s.3")
    assert (first["timestamp_ns"], first["incarnation"]) == (NOON + 3 * HOUR + 7, CREATED)
    assert second["headers"] is None
    assert second["header_block"] is None


def test_days_that_alternate_leave_no_row_out(tmp_path: Path) -> None:
    rows = source_rows("S", range(1, 200))
    shuffled = rows.set_column(
        3, "timestamp_ns", pa.array([NOON + (seq % 7) * 24 * HOUR for seq in range(1, 200)])
    )
    frames = cast("Any", Frame([[shuffled.slice(at, 13) for at in range(0, 199, 13)]]))
    ParquetLake.open(archive(tmp_path)).write(frames, round_of(1, 199))
    assert archived(tmp_path) == list(range(1, 200))


@pytest.mark.parametrize(
    ("point", "times"),
    [("staged", 1), ("begun", 1), ("moved", 1), ("moved", 3), ("moved", 6), ("visible", 1)],
)
def test_each_row_is_there_once_after_a_death_and_a_restart(
    tmp_path: Path, point: str, times: int
) -> None:
    ParquetLake.open(archive(tmp_path)).write(frame(range(1, 21)), round_of(1, 20))
    with pytest.raises(Killed):
        ParquetLake.open(archive(tmp_path), dying(point, times)).write(
            frame(range(21, 81)), round_of(21, 80)
        )
    again = ParquetLake.open(archive(tmp_path))
    done = again.journal.through()["S"].seq
    assert done == (20 if point == "staged" else 80)
    # The splits are others now, and the next batch is larger.
    again.write(frame(range(done + 1, 101), 7), round_of(done + 1, 100))
    assert archived(tmp_path) == list(range(1, 101))
    assert list(tmp_path.rglob("*.staged")) == []


def test_the_first_record_wins_over_later_removals(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        ParquetLake.open(archive(tmp_path), dying("begun")).write(
            frame(range(1, 31)), round_of(1, 30)
        )
    lake = ParquetLake.open(archive(tmp_path))  # meanwhile 1 to 30 were purged from the stream
    assert archived(tmp_path) == list(range(1, 31))
    assert lake.journal.through()["S"].seq == 30


def test_a_run_that_was_superseded_cannot_commit(tmp_path: Path) -> None:
    old = ParquetLake.open(archive(tmp_path))
    new = ParquetLake.open(archive(tmp_path))
    with pytest.raises(Superseded, match="another run of this pipeline took over"):
        old.write(frame(range(1, 11)), round_of(1, 10))
    new.write(frame(range(1, 11)), round_of(1, 10))
    assert archived(tmp_path) == list(range(1, 11))


def test_a_deleted_staged_file_stops_the_archive(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        ParquetLake.open(archive(tmp_path), dying("begun")).write(
            frame(range(1, 31)), round_of(1, 30)
        )
    next(tmp_path.rglob("*.staged")).unlink()
    with pytest.raises(StoreError, match="batch 1 of archive 'lake' cannot be finished"):
        ParquetLake.open(archive(tmp_path))


def test_attempts_that_do_not_count_leave_nothing(tmp_path: Path) -> None:
    lake = ParquetLake.open(archive(tmp_path))

    class Speculative(Frame):
        def mapInArrow(self, function: Plan, schema: str) -> Frame:
            for batches in self.partitions:  # a second attempt of each task, one of them half done
                list(function(iter(batches)))

            def broken() -> Iterator[pa.RecordBatch]:
                yield self.partitions[0][0]
                raise Killed

            with pytest.raises(Killed):
                list(function(broken()))
            return super().mapInArrow(function, schema)

    lake.write(cast("Any", Speculative(frame(range(1, 31)).partitions)), round_of(1, 30))
    assert archived(tmp_path) == list(range(1, 31))
    assert list(tmp_path.rglob("*.staged")) == []


def test_a_stream_that_was_created_again_has_files_of_its_own(tmp_path: Path) -> None:
    lake = ParquetLake.open(archive(tmp_path))
    lake.write(frame(range(1, 6)), round_of(1, 5))
    lake.write(frame(range(1, 6)), Round({"S": Range(CREATED + 1, 1, 5)}, 0))
    assert archived(tmp_path) == sorted([*range(1, 6), *range(1, 6)])
    assert lake.journal.through()["S"].began == 1


def test_a_batch_without_rows_moves_the_position(tmp_path: Path) -> None:
    ParquetLake.open(archive(tmp_path)).write(frame([]), round_of(1, 9))
    assert Journal(Store.at(str(tmp_path)), "_jetstream/lake").through()["S"].seq == 9


def test_only_the_last_entries_are_kept(tmp_path: Path) -> None:
    lake = ParquetLake.open(archive(tmp_path))
    for batch in range(60):
        lake.write(frame([batch + 1]), round_of(batch + 1, batch + 1))
    names = Store.at(str(tmp_path)).names("_jetstream/lake")
    assert (names[0], names[-2:], len(names)) == (
        "000000000011.json",
        ["000000000060.json", "owner"],
        51,
    )


def test_an_entry_of_another_release_is_refused(tmp_path: Path) -> None:
    ParquetLake.open(archive(tmp_path)).write(frame([1]), round_of(1, 1))
    Store.at(str(tmp_path)).write("_jetstream/lake/000000000002.json", b'{"v": 9}')
    with pytest.raises(StoreError, match=r"000000000002\.json is no entry of a batch"):
        ParquetLake.open(archive(tmp_path))
