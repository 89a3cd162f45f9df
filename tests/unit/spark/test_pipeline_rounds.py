"""Which sequences the next batch of a pipeline reads, publishes or purges."""

# Subject: Spark rows, Spark pipelines

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.pipelines.declaration import Purge, Source
from pyspark_jetstream.pipelines.journal import Range, Through
from pyspark_jetstream.pipelines.lake_reader import grouped
from pyspark_jetstream.pipelines.names import LakeFile
from pyspark_jetstream.pipelines.purging import bound
from pyspark_jetstream.pipelines.replaying import ascending
from pyspark_jetstream.pipelines.rounds import Round, next_round
from pyspark_jetstream.positions import Place
from pyspark_jetstream.transport.base import Consumer, Head, Transport
from pyspark_jetstream.transport.errors import DataLoss, NotReachedYet, StreamRecreated


@dataclass
class Streams:
    """Stands for a transport: streams with their first and last sequence, all created at 1."""

    held: dict[str, tuple[int, int]]
    incarnation: int = 1
    asked: list[str] = field(default_factory=list)

    def head(self, stream: str) -> Head:
        first, last = self.held[stream]
        return Head(stream, self.incarnation, first, last, last - first + 1, 0, 0)

    def may_lag(self) -> bool:
        return False

    def bound(self, stream: str, after: int, last: int, filters: Any, rows: int, size: Any) -> int:
        return min(last, after + rows)

    def seq_at(self, stream: str, ts: int) -> int:
        return ts // 10


def following(streams: Streams, through: dict[str, int], most: int = 100, **source: Any) -> Round:
    """The next round of streams that are done through some sequences."""
    done = {stream: Through(1, 1, seq) for stream, seq in through.items()}
    declared = Source(tuple(streams.held), **source)
    transport = cast("Transport", streams)
    return next_round(transport, declared, done, Place("earliest"), (), most)


def test_a_batch_begins_behind_the_one_before() -> None:
    one = following(Streams({"A": (1, 50), "B": (3, 7)}), {"A": 20})
    assert one == Round({"A": Range(1, 21, 50), "B": Range(1, 3, 7)}, 0)


def test_streams_without_news_are_left_out() -> None:
    assert following(Streams({"A": (1, 50), "B": (8, 7)}), {"A": 50}) == Round({}, 0)


def test_a_batch_is_shared_in_proportion_to_what_waits() -> None:
    one = following(Streams({"A": (1, 900), "B": (1, 100)}), {}, most=100)
    assert one == Round({"A": Range(1, 1, 90), "B": Range(1, 1, 10)}, 900)


def beginning(streams: Streams, at: int, **source: Any) -> Round:
    declared = Source(tuple(streams.held), start=f"seq:{at}", **source)
    transport = cast("Transport", streams)
    return next_round(transport, declared, {}, Place("seq", at), (), 100, 5.0)


def test_a_start_behind_the_end_is_not_reached_yet() -> None:
    told = "stream 'A': source.startingPosition is sequence 52, which is not reached yet: .* 50$"
    with pytest.raises(NotReachedYet, match=told):
        beginning(Streams({"A": (1, 50)}), 52)
    assert beginning(Streams({"A": (1, 50)}), 51) == Round({}, 0)
    assert following(Streams({"A": (1, 50)}), {"A": 70}) == Round({}, 0)


def test_a_start_behind_the_end_of_a_standby_is_waited_for() -> None:
    class Standby(Streams):
        def may_lag(self) -> bool:
            self.held["A"] = (1, 60)
            return True

    assert beginning(Standby({"A": (1, 50)}), 60).ranges == {"A": Range(1, 60, 60)}


def test_removed_messages_fail_the_run_or_are_counted() -> None:
    streams = Streams({"A": (31, 50)})
    with pytest.raises(DataLoss, match="10 sequences of stream 'A' behind 20"):
        following(streams, {"A": 20})
    one = following(streams, {"A": 20}, options={"failOnDataLoss": "false"})
    assert one == Round({"A": Range(1, 31, 50)}, 0, {"A": 10})


def test_a_stream_that_was_created_again_fails_or_begins_anew() -> None:
    streams = Streams({"A": (1, 5)}, incarnation=2)
    with pytest.raises(StreamRecreated):
        following(streams, {"A": 20})
    assert following(streams, {"A": 20}, recreated="restart") == Round({"A": Range(2, 1, 5)}, 0)


@pytest.mark.parametrize(
    ("place", "first"),
    [(Place("earliest"), 3), (Place("latest"), None), (Place("seq", 8), 8), (Place("time", 90), 9)],
)
def test_where_a_stream_begins_that_was_never_read(place: Place, first: int | None) -> None:
    transport = cast("Transport", Streams({"A": (3, 10)}))
    one = next_round(transport, Source(("A",)), {}, place, (), 100)
    assert one.ranges == ({"A": Range(1, first, 10)} if first else {})


@pytest.mark.parametrize(
    ("purge", "floors", "last"),
    [
        (Purge(), [], 100),
        (Purge(keep=30), [], 70),
        (Purge(), [40, 60], 40),
        (Purge(wait_for_consumers=False), [40], 100),
        (Purge(), [0], 0),
    ],
)
def test_how_far_a_stream_may_be_purged(purge: Purge, floors: list[int], last: int) -> None:
    consumers = [Consumer("C", 120, 110, floor, 0, 0, None) for floor in floors]
    assert bound(Through(1, 1, 100), purge, consumers) == last


def test_files_that_overlap_are_read_by_one_task() -> None:
    spans = [(1, 10), (11, 30), (15, 18), (30, 40), (41, 50)]
    files = [LakeFile("2026-11-22", "S", 1, first, last) for first, last in spans]
    assert [len(group) for group in grouped(files)] == [1, 3, 1]


def test_windows_ascend_though_times_went_back() -> None:
    windows = ascending([(2, 30, 5), (0, 10, 10), (1, 40, 12), (3, 50, 1)], 1.0)
    assert [(w.offset, w.last, w.rows) for w in windows] == [
        (1.0, 10, 10),
        (2.0, 40, 12),
        (4.0, 50, 6),
    ]
