"""What an older PySpark, or Spark Connect, does with the format.

`python smoke.py HOW DSN STREAM SERVERS TARGET`: HOW is a master, or `remote` for Spark Connect.
Prints JSON: for each thing that was tried how many rows there were, or why there were none. It
needs nothing of this repository.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import pyspark
from pyspark.sql import SparkSession


class Tried:
    """Tries one thing after the other.

    Args:
        spark: The session.
        source: Options to read the stream.
        sink: Options to write the target.
    """

    def __init__(self, spark: SparkSession, source: dict[str, str], sink: dict[str, str]) -> None:
        self._spark, self._source, self._sink = spark, source, sink

    def batch(self, **options: str) -> int:
        """Read in batch."""
        return (
            self._spark.read.format("jetstream").options(**self._source, **options).load().count()
        )

    def streaming(self, **options: str) -> int:
        """Copy into Parquet what is available now."""
        with tempfile.TemporaryDirectory() as place:
            writer = self._stream(**options).writeStream.format("parquet")
            writer = writer.option("path", f"{place}/out")
            writer = writer.option("checkpointLocation", f"{place}/checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()
            return self._spark.read.parquet(f"{place}/out").count()

    def pushdown(self) -> int:
        """Read in batch with a condition at the source, which two rows fulfil."""
        self._spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        reader = self._spark.read.format("jetstream").options(**self._source, pushdown="true")
        return reader.load().where("seq > 1").count()

    def write(self, name: str, **options: str) -> int:
        """Write in batch, twice under one number; how many rows the target has then."""
        rows = self._spark.read.format("jetstream").options(**self._source).load().select("data")
        for _ in range(2):
            writer = rows.write.format("jetstream").options(**self._to(name, txnVersion="1"))
            writer.options(**options).mode("append").save()
        return self._written(name)

    def write_stream(self, name: str, **options: str) -> int:
        """Write in streaming; how many rows the target has then."""
        with tempfile.TemporaryDirectory() as place:
            writer = self._stream().select("data").writeStream.format("jetstream")
            writer = writer.options(**self._to(name), **options)
            writer = writer.option("checkpointLocation", f"{place}/checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()
        return self._written(name)

    def _stream(self, **options: str) -> Any:
        begin = {"startingPosition": "earliest", **options}
        return self._spark.readStream.format("jetstream").options(**self._source, **begin).load()

    def _to(self, name: str, **options: str) -> dict[str, str]:
        subject = f"{self._sink['stream']}.{name}"
        return {**self._sink, "subject": subject, "txnAppId": name, **options}

    def _written(self, name: str) -> int:
        stream = self._sink["stream"]
        options = {**self._source, "stream": stream, "filterSubjects": f"{stream}.{name}"}
        return self._spark.read.format("jetstream").options(**options).load().count()


def main(how: str, dsn: str, stream: str, servers: str, target: str) -> None:
    """Read and write in batch and streaming; try what may not be there."""
    if how == "remote":
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        spark = SparkSession.builder.master(how).config("spark.ui.enabled", "false").getOrCreate()
    tried = Tried(spark, {"dsn": dsn, "stream": stream}, {"servers": servers, "stream": target})
    exactly = {"delivery": "transactional"}
    found: dict[str, Any] = {"version": pyspark.__version__}
    attempts: dict[str, Callable[[], int]] = {
        "batch": tried.batch,
        "batch over NATS": lambda: tried.batch(servers=servers, transport="nats"),
        "streaming": tried.streaming,
        "maxMessagesPerTrigger": lambda: tried.streaming(maxMessagesPerTrigger="1"),
        "lastPerSubject": lambda: tried.streaming(startingPosition="lastPerSubject"),
        "pushdown": tried.pushdown,
        "write at-least-once": lambda: tried.write("a"),
        "write transactional": lambda: tried.write("b", **exactly),
        "writeStream at-least-once": lambda: tried.write_stream("c"),
        "writeStream transactional": lambda: tried.write_stream("d", **exactly),
        "consumer": lambda: _consumer(tried, servers),
    }
    for name, attempt in attempts.items():
        try:
            found[name] = attempt()
        except Exception as error:
            found[name] = _told(error)
    print(json.dumps(found, indent=2))
    spark.stop()


def _consumer(tried: Tried, servers: str) -> int:
    # A consumer has its own place, so that of the other reads is taken away.
    options = {"servers": servers, "mode": "consumer", "consumer": "smoke", "startingPosition": ""}
    return tried.streaming(**options)


def _told(error: Exception) -> str:
    """The line of an error that says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("SQLSTATE: ")] or lines
    for line in reversed(lines):
        if ", expected " in line or line.startswith("pyspark_jetstream."):
            return line
    return lines[-1]


if __name__ == "__main__":
    main(*sys.argv[1:])
