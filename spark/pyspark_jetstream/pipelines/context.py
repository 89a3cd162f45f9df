"""The parts that one pipeline run uses: Spark session, progress, report, readers of streams."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark_jetstream.options import batch_options
from pyspark_jetstream.pipelines.declaration import Source
from pyspark_jetstream.pipelines.journal import Range
from pyspark_jetstream.pipelines.progress import Progress
from pyspark_jetstream.pipelines.queries import log_query
from pyspark_jetstream.pipelines.report import Report
from pyspark_jetstream.pipelines.rounds import range_options
from pyspark_jetstream.positions import Place, place_of, starts
from pyspark_jetstream.transport import open_transport
from pyspark_jetstream.transport.base import Transport
from pyspark_jetstream.transport.errors import StreamRecreated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def nothing(_point: str) -> None:
    """Do nothing. Tests replace this function to crash a run at a named point between two steps."""


@dataclass(frozen=True, slots=True)
class Context:
    """Spark session, progress, report and stop flag of one pipeline run.

    Attributes:
        spark: The Spark session.
        progress: Prints the progress of the run.
        report: Report of the run, which the pipeline fills.
        stop: Set to end the run after the current batch.
        at: Called with the name of each point between two steps, for tests.
    """

    spark: "SparkSession"
    progress: Progress
    report: Report
    stop: threading.Event = field(default_factory=threading.Event)
    at: Callable[[str], None] = nothing

    def reader(self, source: Source) -> "Reader":
        """Return a reader of a source's streams. Raises InvalidOption if an option is invalid."""
        return Reader(self.spark, source)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Print progress every two seconds during the `with` block.

        A line has the text, and the number of finished tasks of Spark.
        """
        with self.progress.during(
            lambda: text + tasks_of(self.spark), partial(hang_up, self.spark)
        ):
            yield

    def again(self, every: float | None) -> bool:
        """Wait `every` seconds before the next read of the streams; return False to end the run.

        Returns False at once if `every` is None, and as soon as the run is stopped.
        """
        return every is not None and not self.stop.wait(every)


class Reader:
    """Reader of the streams that a pipeline declares as its source.

    Args:
        spark: The Spark session.
        source: Names of the streams, and options of the connection.
    """

    def __init__(self, spark: "SparkSession", source: Source) -> None:
        self._spark, self.source = spark, source
        self.options = batch_options(log_query(source).options)
        place = starts("startingPosition", source.start, "earliest")
        self.start: Place = place_of(place, "", "earliest")

    @contextmanager
    def transport(self) -> Iterator[Transport]:
        """Connect to the streams from the driver, for the `with` block."""
        transport = open_transport(self.options.connection)
        try:
            yield transport
        finally:
            transport.close()

    def frame(self, ranges: Mapping[str, Range], **options: str) -> "DataFrame":
        """Return the messages in a range of sequences of each stream, as a DataFrame.

        Args:
            ranges: The ranges, by stream.
            options: Further options of `format("jetstream")`.
        """
        reader = self._spark.read.format("jetstream").options(**self.source.options)
        return reader.options(**range_options(ranges)).options(**options).load()

    def as_of(self, seq: int, **options: str) -> "DataFrame":
        """Return the last message of each subject as of a sequence, as a DataFrame.

        The source must have one stream.
        """
        reader = self._spark.read.format("jetstream").options(**self.source.options)
        named = {"stream": self.source.streams[0], "asOf": f"seq:{seq}"}
        return reader.options(**named).options(**options).load()

    def count_parquet(self, path: str) -> int:
        """Return the number of rows in the Parquet files below a path."""
        return self._spark.read.parquet(path).count()

    def check_same(self, transport: Transport, ranges: Mapping[str, Range]) -> None:
        """Check that no stream was recreated since its range was planned.

        Raises StreamRecreated if the creation time of one differs.
        """
        for stream, one in ranges.items():
            found = transport.head(stream).incarnation
            if found != one.incarnation:
                raise StreamRecreated(stream, one.incarnation, found)


def hang_up(spark: Any) -> None:
    """Close this thread's connection to Spark's JVM; call it before the thread ends."""
    with suppress(Exception):  # Spark Connect has no such connection
        client = spark.sparkContext._gateway._gateway_client
        connection = client.get_thread_connection()
        client.deque.remove(connection)
        connection.close()


def tasks_of(spark: Any) -> str:
    """Return the number of finished tasks of the active stages, as text for a progress line.

    Returns "" if Spark does not report them.
    """
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # Spark Connect has no context, and a closing session no tracker
        return ""
    known = [stage for stage in stages if stage is not None]
    done = sum(stage.numCompletedTasks for stage in known)
    total = sum(stage.numTasks for stage in known)
    return f", {done} of {total} tasks done" if total else ""
