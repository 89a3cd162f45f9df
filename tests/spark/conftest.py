"""One server, one Spark session and one cluster for the suite."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.feeds import DSN, SECRET, TOKEN, Feed, dsn_of
from tests.support import spark as support
from tests.support.jetgate import JetgateServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.readers import Begin


@pytest.fixture(scope="session")
def dsn(jetgate_server: JetgateServer) -> str:
    """The connection string of the server's database."""
    return dsn_of(jetgate_server)


@pytest.fixture
def feed(jetgate_server: JetgateServer) -> Iterator[Feed]:
    """An empty stream."""
    with Feed(jetgate_server) as made:
        yield made


@pytest.fixture
def options(dsn: str, feed: Feed) -> dict[str, str]:
    """What it takes to read that stream."""
    return {"dsn": dsn, "stream": feed.name}


@pytest.fixture(params=["sql", "nats"])
def any_way(
    request: pytest.FixtureRequest, dsn: str, feed: Feed, jetgate_server: JetgateServer
) -> dict[str, str]:
    """The same by SQL and over NATS, one after the other."""
    if request.param == "sql":
        return {"dsn": dsn, "stream": feed.name}
    return {"servers": "nats://{}:{}".format(*jetgate_server.address), "stream": feed.name}


@pytest.fixture
def begin() -> "Iterator[Begin]":
    """Begins streaming queries without Spark."""
    from tests.spark.readers import Query

    begun: list[Query] = []

    def make(options: dict[str, str], checkpoint: dict[str, Any] | None = None) -> Query:
        begun.append(Query(options, checkpoint))
        return begun[-1]

    yield make
    for query in begun:
        query.stop()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed is tried again sooner than users would have it."""
    from pyspark_jetstream.nats import tries

    monkeypatch.setattr(tries, "_FIRST", 0.01)


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session writes its events."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log: Path, dsn: str) -> "Iterator[SparkSession]":
    """The one Spark session."""
    # Tasks have the environment of the moment at which Spark is started.
    os.environ |= {DSN: f"{dsn}&password={SECRET}", TOKEN: SECRET}
    started = support.session(
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": event_log.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.sql.python.filterPushdown.enabled": "true",
        }
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[support.Cluster]:
    """A standalone cluster of one master and two workers."""
    with support.Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started
