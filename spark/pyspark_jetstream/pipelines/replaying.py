"""Execution of a replay pipeline: publishes an archive or a range of a stream, in order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_jetstream.pipelines.context import Context
from pyspark_jetstream.pipelines.declaration import Lake, Replay
from pyspark_jetstream.pipelines.journal import Entry, Journal, Range
from pyspark_jetstream.pipelines.lake_reader import files_of, read_lake
from pyspark_jetstream.pipelines.pacing import Pace, Window
from pyspark_jetstream.pipelines.publishing import TRANSACTIONAL, publish, sink_options
from pyspark_jetstream.pipelines.rounds import first_of, reached
from pyspark_jetstream.pipelines.store import Store
from pyspark_jetstream.transport.errors import NotReachedYet
from pyspark_jetstream.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

READ = ("seq", "subject", "timestamp_ns", "header_block", "data")


@dataclass(frozen=True, slots=True)
class _Origin:
    """The messages that a replay publishes.

    Attributes:
        stream: Name of the source stream.
        whole: Range of all sequences to publish.
        rows: Returns the given columns of the messages between two sequences, inclusive.
    """

    stream: str
    whole: Range
    rows: "Callable[[int, int, tuple[str, ...]], DataFrame]"


def run_replay(replay: Replay, context: Context) -> None:
    """Publish the messages of the range that earlier runs have not published.

    Raises StoreError if the archive or the journal is unusable, NotReachedYet if the range begins
    after the end of the source.
    """
    origin = _lake(replay, context) if isinstance(replay.source, Lake) else _log(replay, context)
    journal = Journal(Store.at(replay.checkpoint), f"replay-{replay.name}")
    work = _Work(replay, context, origin, journal)
    if journal.begun is not None:
        context.report.notes.append(f"batch {journal.begun.batch} was under way and was finished")
        work.publish_begun()
    done = journal.through().get(origin.stream)
    first = max(origin.whole.first, done.seq + 1 if done else 0)
    note = journal.done.note if journal.done else {}
    begun = int(note.get("t0", 0))
    if first <= origin.whole.last:
        with context.working("reading the times of messages"):
            begun, windows = _windows(replay, origin, first, begun)
        work.publish_all(windows, begun, float(note.get("offset", 0)))
    through = journal.through().get(origin.stream)
    context.report.positions[origin.stream] = through.seq if through else first - 1


def _lake(replay: Replay, context: Context) -> _Origin:
    lake = replay.source
    assert isinstance(lake, Lake)
    files = files_of(lake)
    first = max(replay.first or 0, files[0].first)
    last = max(file.last for file in files)
    if first > last + 1:
        raise NotReachedYet(lake.stream, "first", first, last)
    whole = Range(files[0].incarnation, first, min(replay.last or last, last))
    return _Origin(
        lake.stream,
        whole,
        lambda a, b, columns: read_lake(context.spark, lake, files, a, b, columns),
    )


def _log(replay: Replay, context: Context) -> _Origin:
    assert not isinstance(replay.source, Lake)
    reader = context.reader(replay.source)
    (stream,) = replay.source.streams
    with reader.transport() as transport:
        head = transport.head(stream)
        first = replay.first or first_of(transport, head, reader.start)
        field = "first" if replay.first else "source.startingPosition"
        if (replay.first or reader.start.kind == "seq") and not replay.source.may_lose:
            wait_s = reader.options.connection.timeout
            head = reached(transport, head, first, field, wait_s)
    last = min(replay.last or head.last_seq, head.last_seq)
    whole = Range(head.incarnation, max(first, head.first_seq), last)

    def rows(first: int, last: int, columns: tuple[str, ...]) -> "DataFrame":
        ranges = {stream: Range(head.incarnation, first, last)}
        return reader.frame(ranges, columns=",".join(columns))

    return _Origin(stream, whole, rows)


def _windows(replay: Replay, origin: _Origin, first: int, begun: int) -> tuple[int, list[Window]]:
    """Return the time of the first message, and the windows that are still to publish.

    The time is in nanoseconds since the epoch. A window is a group of messages that are published
    together: those of `replay.window` seconds, or without a speed, a range of as many sequences as
    a batch has messages.

    Args:
        replay: The declaration.
        origin: The messages of the replay.
        first: The first sequence to publish.
        begun: The time of the first message if an earlier run recorded it; else 0.
    """
    from pyspark.sql import functions as f

    rows = origin.rows(first, origin.whole.last, ("seq", "timestamp_ns"))
    if not begun:
        begun = rows.agg(f.min("timestamp_ns")).first()[0] or 0  # type: ignore[index]
    size = int(replay.window * NANOS_PER_SECOND)
    column = f.col("timestamp_ns") - f.lit(begun)
    if replay.speed is None:
        size = replay.limits.messages
        column = f.col("seq") - f.lit(first)
    found = rows.groupBy(f.floor(column / f.lit(size)).alias("window"))
    counted = found.agg(f.max("seq").alias("last"), f.count("*").alias("rows")).collect()
    return begun, ascending(
        [(row["window"], row["last"], row["rows"]) for row in counted],
        replay.window if replay.speed is not None else 0.0,
    )


def ascending(counted: list[tuple[int, int, int]], length: float) -> list[Window]:
    """Return the windows of a replay in the order of their times, with ascending sequences.

    A window is a group of messages that are published together. If the last sequence of a window is
    not above that of an earlier one, because clocks went back, its messages count in the next
    window.

    Args:
        counted: For each window its index in order of time, from 0; its last sequence; its number
            of messages.
        length: Length of a window in seconds.
    """
    windows: list[Window] = []
    waiting = 0
    for number, last, rows in sorted(counted):
        if windows and last <= windows[-1].last:
            waiting += rows
            continue
        windows.append(Window((number + 1) * length, last, rows + waiting))
        waiting = 0
    return windows


class _Work:
    """Publication of a replay's batches; the journal records each batch before it is published.

    Args:
        replay: The declaration.
        context: Session and report of the run.
        origin: The messages to publish.
        journal: Record of the replay's batches.
    """

    def __init__(self, replay: Replay, context: Context, origin: _Origin, journal: Journal) -> None:
        self._replay, self._context = replay, context
        self._origin, self._journal = origin, journal
        target = replay.target
        self._options = sink_options(target.stream, target.options, target.delivery, replay.name)

    def publish_all(self, windows: list[Window], begun: int, offset: float) -> None:
        """Publish each window (a group of messages) when it is due.

        Args:
            windows: Windows still to publish.
            begun: Time of the first message of the replay, in nanoseconds since the epoch;
                recorded for the next run.
            offset: Seconds from that time to the end of the last published window.
        """
        replay, context = self._replay, self._context
        pace = Pace(windows, replay.speed, replay.limits.messages)
        start = offset / replay.speed if replay.speed else 0.0
        zero = context.progress.seconds
        done = 0
        while done < len(windows) and not context.stop.is_set():
            due = pace.due(done, start + context.progress.seconds - zero)
            if due.through == done:
                context.progress.write(f"the next window is due in {due.wait:.1f} s")
                context.stop.wait(min(due.wait, 1.0))
                continue
            last = windows[due.through - 1]
            note = {"t0": str(begun), "offset": str(last.offset)}
            rows = sum(window.rows for window in windows[done : due.through])
            self._publish(last.last, rows, note)
            done = due.through
            context.progress.write(f"through sequence {last.last}, {due.behind:.1f} s behind")

    def _publish(self, last: int, rows: int, note: Mapping[str, str]) -> None:
        before = self._journal.through().get(self._origin.stream)
        first = max(self._origin.whole.first, before.seq + 1 if before else 0)
        ranges = {self._origin.stream: Range(self._origin.whole.incarnation, first, last)}
        entry = replace(self._journal.next(ranges), rows=rows, note=dict(note))
        self._journal.begin(entry)
        self._context.at("begun")
        self.publish_begun()

    def publish_begun(self) -> None:
        """Publish the begun batch, and record its end in the journal."""
        entry = self._journal.begun
        assert entry is not None
        report = self._context.report
        with self._context.working(f"batch {entry.batch}"):
            publish(self._rows(entry), self._options, entry.batch)
        self._context.at("published")
        self._journal.finish()
        report.batches += 1
        report.read += entry.rows
        report.written += entry.rows
        self._context.progress.rows = report.read

    def _rows(self, entry: Entry) -> "DataFrame":
        from pyspark.sql import functions as f

        (one,) = entry.ranges.values()
        rows = self._origin.rows(one.first, one.last, READ)
        if self._replay.subject:
            rows = rows.withColumn("subject", f.expr(self._replay.subject))
        headers = rows["header_block"].alias("headers")
        return rows.select("subject", headers, "data", *self._ids())

    def _ids(self) -> "list[Column]":
        """Return the column of message ids, for messages without one; none if delivery is
        transactional.
        """
        from pyspark.sql import functions as f

        if self._replay.target.delivery == TRANSACTIONAL:
            return []
        prefix = f.lit(f"{self._replay.name}/{self._origin.whole.incarnation}/")
        has_one = f.contains(f.col("header_block"), f.lit(b"\r\nNats-Msg-Id:"))
        made = f.concat(prefix, f.col("seq").cast("string"))
        return [f.when(f.coalesce(has_one, f.lit(False)), None).otherwise(made).alias("msg_id")]
