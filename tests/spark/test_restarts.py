"""A batch that is done again with other rows: Spark's plan, the checkpoint and the ledger."""

# Subject: Spark sink

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import spark as support

support.require()

from tests.spark.feeds import Feed  # noqa: E402
from tests.spark.readers import batch  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.wire import Wire  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def target(jetgate_server: JetgateServer) -> Iterator[Feed]:
    """A stream that is written by transactions."""
    with Feed(jetgate_server) as made:
        yield made
        with Wire(jetgate_server.address) as wire:
            wire.hello()
            wire.api(f"STREAM.DELETE.JG_STAGE_{made.name}")


class Query:
    """A streaming query that writes what a projection makes of a stream into another one."""

    def __init__(
        self, spark: "SparkSession", options: dict[str, str], target: Feed, url: str, place: Path
    ) -> None:
        self._spark, self._options, self._target, self._url = spark, options, target, url
        self.checkpoint = place / "checkpoint"

    def run(self, projection: str) -> None:
        """Write what is available now."""
        source = self._spark.readStream.format("jetstream").options(**self._options)
        rows = source.option("startingPosition", "earliest").load().selectExpr(projection)
        sink = {
            "servers": self._url,
            "stream": self._target.name,
            "subject": f"{self._target.name}.row",
            "delivery": "transactional",
            "txnAppId": self._target.name,
            "checkpointLocation": str(self.checkpoint),
        }
        query = rows.writeStream.format("jetstream").options(**sink).trigger(availableNow=True)
        assert query.start().awaitTermination(120)

    def forget_commit(self) -> None:
        """As after a kill between the sink's commit and Spark's: the last batch counts as open."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)

    def written(self) -> list[bytes]:
        """The payloads in the target."""
        found: list[bytes] = batch({**self._options, "stream": self._target.name}, "data")[
            "data"
        ].to_pylist()
        return found


def staged(server: JetgateServer, target: Feed) -> int:
    """How many blocks were ever staged for a stream."""
    with Wire(server.address) as wire:
        wire.hello()
        return int(wire.api(f"STREAM.INFO.JG_STAGE_{target.name}")["state"]["last_seq"])


def test_the_first_manifest_of_a_batch_wins_over_the_rows_of_a_restarted_query(
    jetgate_server: JetgateServer,
    spark: "SparkSession",
    feed: Feed,
    options: dict[str, str],
    target: Feed,
    tmp_path: Path,
) -> None:
    url = "nats://{}:{}".format(*jetgate_server.address)
    query = Query(spark, options, target, url, tmp_path)
    feed.put(*"abc")
    query.run("concat('first ', substring_index(subject, '.', -1)) as data")
    first = query.written()
    assert sorted(first) == [b"first a", b"first b", b"first c"]
    before = staged(jetgate_server, target)

    query.forget_commit()
    feed.put("d")
    query.run("explode(array('second', uuid())) as data")

    # The batch that Spark did again staged six other rows; only what came since was stored.
    assert staged(jetgate_server, target) > before
    assert query.written()[:3] == first
    rest = query.written()[3:]
    assert len(rest) == 2
    assert rest.count(b"second") == 1
