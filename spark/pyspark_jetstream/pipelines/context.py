"""The environment of a pipeline run: the session, progress and report, and access to streams."""

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
    """Do nothing at a named point between two steps; tests replace this function."""


@dataclass(frozen=True, slots=True)
class Context:
    """The environment of one pipeline run.

    Attributes:
        spark: The session.
        progress: Prints the progress of the run.
        report: Report of the run, which the pipeline fills.
        stop: Set to end the run after the current batch.
        at: Called with the name of each point between two steps.
    """

    spark: "SparkSession"
    progress: Progress
    report: Report
    stop: threading.Event = field(default_factory=threading.Event)
    at: Callable[[str], None] = nothing

    def reader(self, source: Source) -> "Reader":
        """Return a reader of streams with this session. Raises InvalidOption."""
        return Reader(self.spark, source)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Print every two seconds that a step runs, with the number of its finished tasks."""
        with self.progress.during(
            lambda: text + tasks_of(self.spark), partial(hang_up, self.spark)
        ):
            yield

    def again(self, every: float | None) -> bool:
        """Wait for the next poll of a stream; return False if there is none.

        Args:
            every: Seconds to wait; None: no further poll.
        """
        return every is not None and not self.stop.wait(every)


class Reader:
    """Reader of the streams of a source.

    Args:
        spark: The session.
        source: The streams, and the options to reach them.
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
        """Return the messages of these ranges."""
        reader = self._spark.read.format("jetstream").options(**self.source.options)
        return reader.options(**range_options(ranges)).options(**options).load()

    def as_of(self, seq: int, **options: str) -> "DataFrame":
        """Return the last message of each subject of the one stream, as of a sequence."""
        reader = self._spark.read.format("jetstream").options(**self.source.options)
        named = {"stream": self.source.streams[0], "asOf": f"seq:{seq}"}
        return reader.options(**named).options(**options).load()

    def count_parquet(self, path: str) -> int:
        """Return the number of rows in Parquet files."""
        return self._spark.read.parquet(path).count()

    def check_same(self, transport: Transport, ranges: Mapping[str, Range]) -> None:
        """Check that the streams are still the planned ones. Raises StreamRecreated."""
        for stream, one in ranges.items():
            found = transport.head(stream).incarnation
            if found != one.incarnation:
                raise StreamRecreated(stream, one.incarnation, found)


def hang_up(spark: Any) -> None:
    """Close the connection to the JVM that PySpark keeps for this thread, which is about to end."""
    with suppress(Exception):  # Spark Connect has no such connection
        client = spark.sparkContext._gateway._gateway_client
        connection = client.get_thread_connection()
        client.deque.remove(connection)
        connection.close()


def tasks_of(spark: Any) -> str:
    """Return the finished tasks of the active stages as text; "" if Spark does not report them."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # Spark Connect has no context, and a closing session no tracker
        return ""
    known = [stage for stage in stages if stage is not None]
    done = sum(stage.numCompletedTasks for stage in known)
    total = sum(stage.numTasks for stage in known)
    return f", {done} of {total} tasks done" if total else ""
