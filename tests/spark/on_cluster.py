"""A driver for the standalone cluster: `python on_cluster.py MASTER OPTIONS`, these as JSON.

It reads a stream whose connection string only the executors' environment and its own hold, in batch
while an executor is killed, and in streaming; and it writes into streams, while executors are
killed and while two attempts of a task run. It prints what it found as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "500m",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.executor.memory": "500m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
}
ROWS = 2000
"""Of each of the two partitions that are written: of a kilobyte each, so several blocks."""
HALF = ROWS // 2

Batches = Iterator[pa.RecordBatch]


def main(master: str, given: str) -> None:
    """Read twice, write three times."""
    builder = SparkSession.builder.master(master).appName("on_cluster")
    secret = {"spark.executorEnv.READER_DSN": os.environ["READER_DSN"]}
    for name, value in {**SETTINGS, **secret}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    job = Job(spark, json.loads(given))
    found = {
        **job.read(),
        **job.stream(),
        "transaction": job.write_transaction("killed", Killed),
        "published": job.publish(),
        "speculated": job.write_transaction("slow", Slow),
    }
    print(json.dumps(found))
    spark.stop()


class Job:
    """What is run.

    Args:
        given: `stream` to read, `killed` and `slow` to write by transactions, `wide` and `narrow`
            to publish into, the `address` of NATS, and a `directory`.
    """

    def __init__(self, spark: SparkSession, given: dict[str, Any]) -> None:
        self._spark = spark
        self._given = given
        self._directory = Path(given["directory"])
        self._source = {"dsn": "env:READER_DSN", "stream": given["stream"], "minPartitions": "4"}

    def read(self) -> dict[str, Any]:
        """Read in batch; an executor is killed at its first rows."""
        killed = self._directory / "read"

        def kill_once(batches: Batches) -> Batches:
            import pyarrow

            for batch in batches:
                if _is_first(killed):
                    _kill_executor()
                place = pyarrow.array([_executor()] * batch.num_rows, pyarrow.int64())
                columns = [batch.column("seq"), place]
                yield pyarrow.RecordBatch.from_arrays(columns, ["seq", "executor"])

        frame = self._spark.read.format("jetstream").options(**self._source).load()
        rows = frame.mapInArrow(kill_once, "seq bigint, executor bigint").collect()
        return {
            "killed": killed.exists(),
            "batch": sorted(row.seq for row in rows),
            "executors": len({row.executor for row in rows}),
        }

    def stream(self) -> dict[str, Any]:
        """Read in streaming."""
        out = str(self._directory / "out")
        source = self._spark.readStream.format("jetstream").options(**self._source)
        limited = source.options(startingPosition="earliest", maxMessagesPerTrigger="600").load()
        writer = limited.writeStream.format("parquet").option("path", out)
        writer = writer.option("checkpointLocation", f"{self._directory}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        stored = self._spark.read.parquet(out).select("seq").collect()
        return {"streaming": sorted(row.seq for row in stored)}

    def write_transaction(self, name: str, what: "type[Killed] | type[Slow]") -> bool:
        """Write by a transaction; whether what was to happen has."""
        stream = self._given[name]
        happening = what(self._directory / name, self._address, [f"JG_STAGE_{stream}"])
        sink = {"stream": stream, "subject": f"{stream}.row", "delivery": "transactional"}
        self._write(
            self._rows("data").mapInArrow(happening.pass_on, "data string"),
            {**sink, "txnAppId": "app", "txnVersion": "1"},
        )
        return happening.has_happened()

    def publish(self) -> bool:
        """Publish into two streams in turn; an executor is killed in the middle."""
        wide, narrow = self._given["wide"], self._given["narrow"]
        killed = Killed(self._directory / "published", self._address, [wide, narrow])
        subject = f"if(id % 2 = 0, '{wide}.row', '{narrow}.row') as subject"
        self._write(
            self._rows(subject, "data").mapInArrow(killed.pass_on, "subject string, data string")
        )
        return killed.has_happened()

    @property
    def _address(self) -> tuple[str, int]:
        host, port = self._given["address"]
        return host, port

    def _rows(self, *columns: str) -> DataFrame:
        numbers = self._spark.range(0, 2 * ROWS, 1, 2)
        return numbers.selectExpr("id", "rpad(string(id), 1000, '.') as data").selectExpr(*columns)

    def _write(self, rows: DataFrame, options: dict[str, str] | None = None) -> None:
        servers = f"nats://{self._address[0]}:{self._address[1]}"
        writer = rows.write.format("jetstream").mode("append").option("servers", servers)
        writer.options(**(options or {})).save()


class Killed:
    """Rows on their way to be written; the executor of the first partition is killed, once.

    Args:
        marker: A file that says that this has happened.
        address: Of NATS.
        streams: Which have something of the first partition by then.
    """

    def __init__(self, marker: Path, address: tuple[str, int], streams: list[str]) -> None:
        self._marker = marker
        self._address = address
        self._streams = streams

    def has_happened(self) -> bool:
        return self._marker.exists()

    def pass_on(self, batches: Batches) -> Batches:
        from tests.support.eventually import eventually

        is_first = _partition() == 0
        rows = 0
        if not is_first:  # what is stored until then is of the first partition
            eventually(self._marker.exists, within=120)
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if is_first and rows == HALF and not self._marker.exists():
                eventually(self._is_stored, within=60)
                self._marker.touch()
                _kill_executor()

    def _is_stored(self) -> bool:
        return all(_state(self._address, stream)["messages"] for stream in self._streams)


class Slow(Killed):
    """Rows on their way to be written; the first attempt at the second partition is slow.

    It waits until another attempt has had all rows.
    """

    def has_happened(self) -> bool:
        return self._marker.with_suffix(".again").exists()

    def pass_on(self, batches: Batches) -> Batches:
        from tests.support.eventually import eventually

        again = self._marker.with_suffix(".again")
        is_second = _partition() == 1
        is_slow = is_second and _is_first(self._marker)
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if is_slow and rows == HALF:
                eventually(again.exists, within=120)
        if is_second and not is_slow:
            again.touch()


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "called in a task"
    return context.partitionId()


def _state(address: tuple[str, int], stream: str) -> Any:
    from tests.support.wire import Wire

    with Wire(address) as wire:
        wire.hello()
        return wire.api(f"STREAM.INFO.{stream}")["state"]


def _is_first(marker: Path) -> bool:
    """Whether no other task has made the marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _kill_executor() -> None:
    os.kill(_executor(), signal.SIGKILL)


def _executor() -> int:
    """The process of the executor: the first java above this worker."""
    pid = os.getpid()
    while "java" not in os.readlink(f"/proc/{pid}/exe"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


if __name__ == "__main__":
    main(*sys.argv[1:])
