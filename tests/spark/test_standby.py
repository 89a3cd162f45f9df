"""A standby of the database as the source: it may lag behind, and nothing is skipped."""

# Subject: Spark over SQL

import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.support import spark

spark.require()

from pyspark_jetstream.options import connection_options  # noqa: E402
from pyspark_jetstream.transport.base import Wanted  # noqa: E402
from pyspark_jetstream.transport.errors import (  # noqa: E402
    JetStreamError,
    NotReachable,
    NotReachedYet,
)
from pyspark_jetstream.transport.sql import SqlTransport  # noqa: E402
from pyspark_jetstream.values import Values  # noqa: E402

from tests.spark.feeds import Feed, dsn_of  # noqa: E402
from tests.spark.readers import Begin, batch, seqs  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.standby import Standby  # noqa: E402


@pytest.fixture(scope="module")
def standby(jetgate_server: JetgateServer) -> Iterator[Standby]:
    """A standby of the server's database."""
    with Feed(jetgate_server):
        pass  # whoever can make a stream has a database that runs
    with Standby(dsn_of(jetgate_server), jetgate_server.data / "pg") as made:
        yield made


@pytest.fixture
def lagging(standby: Standby, feed: Feed) -> Iterator[Standby]:
    """The standby knows the stream with two messages, and learns of no more until it resumes."""
    feed.put("a", "b")
    eventually(lambda: _has_followed(standby, feed))
    standby.pause()
    yield standby
    standby.resume()


def _has_followed(standby: Standby, feed: Feed) -> bool:
    """Whether the standby knows the stream, and both of its messages."""
    with suppress(JetStreamError):
        return seqs(batch({"dsn": standby.dsn, "stream": feed.name, "timeout": "1s"})) == [1, 2]
    return False


def connected(standby: Standby, timeout: str) -> SqlTransport:
    return SqlTransport(connection_options(Values({"dsn": standby.dsn, "timeout": timeout})))


def test_a_page_behind_the_standby_is_waited_for_and_never_skipped(
    lagging: Standby, feed: Feed
) -> None:
    feed.put("c", "d")
    found: list[int] = []
    with closing(connected(lagging, "60s")) as transport:
        for page in transport.pages(feed.name, 1, 4, (), Wanted()):
            found += page.rows.column("seq").to_pylist()
            if page.through == 2:
                threading.Thread(target=lagging.resume).start()

    assert found == [1, 2, 3, 4]


def test_a_standby_that_stays_behind_is_reported(lagging: Standby, feed: Feed) -> None:
    feed.put("c")
    with (
        closing(connected(lagging, "200ms")) as transport,
        pytest.raises(NotReachable, match="is at sequence 2 here, the read goes to 3"),
    ):
        list(transport.pages(feed.name, 1, 3, (), Wanted()))


def test_an_end_that_an_option_names_is_waited_for_on_a_standby(
    lagging: Standby, feed: Feed
) -> None:
    """What is not reached yet on a primary may only be late here."""
    feed.put("c", "d")
    options = {"dsn": lagging.dsn, "stream": feed.name, "endingPosition": "seq:4"}
    with pytest.raises(NotReachedYet, match="endingPosition is sequence 4, which is not reached"):
        batch({**options, "timeout": "100ms"})

    timer = threading.Timer(0.3, lagging.resume)
    timer.start()
    assert seqs(batch({**options, "timeout": "60s"})) == [1, 2, 3, 4]
    timer.join()


def test_a_checkpoint_from_the_primary_is_waited_for(
    lagging: Standby, feed: Feed, dsn: str, begin: Begin
) -> None:
    there = {"dsn": lagging.dsn, "stream": feed.name}
    feed.put("c", "d")
    ahead = begin({**there, "dsn": dsn, "startingPosition": "earliest"})
    ahead.next()

    timer = threading.Timer(0.3, lagging.resume)
    timer.start()
    behind = begin(there, checkpoint=ahead.offset)

    assert behind.next() is None  # nothing new, and no loss
    timer.join()
    rows = behind.between(*ahead.log[0])
    assert seqs(rows) == [1, 2, 3, 4]
