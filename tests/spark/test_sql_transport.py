"""The transport `sql`: pages, interruptions, checksums, and that filters mean what they mean."""

# Subject: Spark over SQL

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.support import spark

spark.require()

import pyarrow as pa  # noqa: E402
from pyspark_jetstream import subjects  # noqa: E402
from pyspark_jetstream.options import connection_options  # noqa: E402
from pyspark_jetstream.transport import adbc, idle, sql  # noqa: E402
from pyspark_jetstream.transport.base import RAW_SCHEMA, Consumer, Page, Wanted  # noqa: E402
from pyspark_jetstream.transport.errors import (  # noqa: E402
    JetStreamError,
    NotReachable,
    RefusedBySql,
)
from pyspark_jetstream.transport.sql import SqlTransport  # noqa: E402
from pyspark_jetstream.values import InvalidOption, Values  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.pg import PostgresServer  # noqa: E402

ALL = Wanted()
BLOCK = b"NATS/1.0\r\nA: 1\r\n\r\n"


def connected(dsn: str, **options: str) -> SqlTransport:
    return SqlTransport(connection_options(Values({"dsn": dsn, **options})))


@pytest.fixture
def transport(dsn: str) -> Iterator[SqlTransport]:
    made = connected(dsn)
    yield made
    made.close()


def rows(pages: Iterable[Page]) -> list[dict[str, object]]:
    return [row for page in pages for row in page.rows.to_pylist()]


READS = """
import json, sys
from tests.spark.readers import batch, seqs
print(seqs(batch(json.loads(sys.argv[1]))), "pandas" in sys.modules)
"""


def test_a_task_reads_without_importing_pandas(feed: Feed, options: dict[str, str]) -> None:
    """Which takes longer than to read a page, in each process that Spark starts."""
    feed.put("a", "b")
    command = [sys.executable, "-c", READS, json.dumps(options)]
    printed = subprocess.check_output(command, env=spark.environment(), cwd=spark.ROOT, text=True)
    assert printed == "[1, 2] False\n"


def test_a_transport_may_be_closed_within_a_page(feed: Feed, transport: SqlTransport) -> None:
    feed.put(*"abc")
    pages = transport.pages(feed.name, 1, 3, (), ALL)
    next(pages)
    transport.close()
    assert transport.head(feed.name).last_seq == 3


def backend(transport: SqlTransport) -> int:
    """The process that serves a transport."""
    return int(transport._table("select pg_backend_pid() as pid").column("pid")[0].as_py())


def test_the_next_reader_of_a_process_has_the_connection(dsn: str) -> None:
    first = connected(dsn)
    served = backend(first)
    first.close()

    second, third = connected(dsn), connected(dsn)
    assert backend(second) == served
    assert backend(third) != served, "one reader at a time"
    second.close()
    third.close()


def test_a_connection_with_the_rest_of_an_answer_is_not_used_again(feed: Feed, dsn: str) -> None:
    feed.publish([("a", b"x" * 100_000, b"") for _ in range(200)])
    first = connected(dsn)
    served = backend(first)
    pages = first.pages(feed.name, 1, 200, (), ALL)
    assert next(pages).through < 200
    del pages
    first.close()

    second = connected(dsn)
    assert backend(second) != served
    second.close()


def test_an_idle_connection_is_closed(
    dsn: str, transport: SqlTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend(transport)
    reader = connected(dsn)
    served = backend(reader)
    monkeypatch.setattr(idle, "IDLE_S", 0.05)
    reader.close()
    query = f"select count(*) as n from pg_stat_activity where pid = {served}"
    eventually(lambda: transport._table(query).column("n")[0].as_py() == 0)


def test_a_page_is_raw_and_knows_its_head(feed: Feed, transport: SqlTransport) -> None:
    feed.publish([("a", b"one", BLOCK), ("b", b"", b"")])

    (page,) = transport.pages(feed.name, 1, 2, (), ALL)

    assert page.rows.schema == RAW_SCHEMA
    state, a, b = feed.info(), f"{feed.name}.a", f"{feed.name}.b"
    assert page.through == 2
    assert (page.head.first_seq, page.head.last_seq) == (state["first_seq"], state["last_seq"])
    assert (page.head.messages, page.head.bytes) == (state["messages"], state["bytes"])
    first, second = ({**one, "ts": 0} for one in page.rows.to_pylist())
    assert first == {
        "seq": 1,
        "subject": a,
        "ts": 0,
        "headers": BLOCK,
        "data": b"one",
        "size": 3,
    }
    assert second == {"seq": 2, "subject": b, "ts": 0, "headers": None, "data": b"", "size": 0}


def test_columns_that_are_not_wanted_are_null(feed: Feed, transport: SqlTransport) -> None:
    feed.publish([("a", b"one", BLOCK)])

    (row,) = rows(transport.pages(feed.name, 1, 1, (), Wanted(headers=False, data=False)))

    assert (row["headers"], row["data"], row["size"]) == (None, None, 3)
    nothing = Wanted(headers=False, data=False, subject=False, ts=False, size=False)
    (row,) = rows(transport.pages(feed.name, 1, 1, (), nothing))
    assert {name for name, value in row.items() if value is not None} == {"seq"}


def test_a_range_is_complete_page_by_page(
    feed: Feed, transport: SqlTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_PAGE", 3)
    feed.put(*"abcdefgh")
    feed.remove(3, 7, 8)

    pages = list(transport.pages(feed.name, 2, 8, (), ALL))

    assert [row["seq"] for row in rows(pages)] == [2, 4, 5, 6]
    assert [page.through for page in pages] == [4, 7, 8]


def test_single_messages_are_found_or_left_out(feed: Feed, transport: SqlTransport) -> None:
    feed.put(*"abcde")
    feed.remove(3)

    assert [row["seq"] for row in rows(transport.points(feed.name, [1, 3, 5, 9], ALL))] == [1, 5]


@pytest.mark.parametrize("config", [{}, {"max_msgs_per_subject": 2}])
def test_the_last_messages_of_subjects(
    jetgate_server: JetgateServer, transport: SqlTransport, config: dict[str, int]
) -> None:
    with Feed(jetgate_server, **config) as made:
        made.put("a", "b", "a", "c.x", "b", "c.y")

        def last(*filters: str, up_to: int | None = None) -> list[object]:
            given = tuple(f"{made.name}.{one}" for one in filters)
            return [r["seq"] for r in rows(transport.last_by_subject(made.name, given, up_to, ALL))]

        assert last() == [3, 4, 5, 6]
        assert last(up_to=4) == [2, 3, 4]
        assert last("c.*", "a", "*.y") == [3, 4, 6]
        assert last("none") == []


def test_a_filter_is_the_same_in_sql(feed: Feed, transport: SqlTransport) -> None:
    words = ["a", "b", "a.a", "a.b", "b.a", "a.b.a", "a.b.b", "b.b.b.b", "a/x", "a-", "A", "a.*"]
    feed.put(*words)
    tokens = ["a", "b", "*", ">", "a.a", "a.*", "*.a", "a.>", "*.>", "*.*.*", "a.*.b", "*.b.>"]
    for filter_ in tokens:
        given = f"{feed.name}.{filter_}"
        expected = [w for w in words if subjects.matches((given,), f"{feed.name}.{w}")]

        found = rows(transport.pages(feed.name, 1, len(words), (given,), ALL))

        assert [str(r["subject"]).removeprefix(f"{feed.name}.") for r in found] == expected


def test_a_read_goes_on_where_a_connection_was_lost(
    feed: Feed, dsn: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backends are ended between batches and in the middle of one."""
    monkeypatch.setattr(sql, "_PAGE", 50)
    monkeypatch.setattr(adbc, "_BATCH_BYTES", 2000)
    feed.publish([("a", b"x" * 100_000, b"") for _ in range(200)])
    reading = connected(dsn)
    ended = 0
    found: list[int] = []

    for page in reading.pages(feed.name, 1, 200, (), ALL):
        found += page.rows.column("seq").to_pylist()
        if len(found) % 40 == 10:
            ended += 1
            postgres.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and query like '%jetgate.log%'",
                dsn,
            )
    reading.close()

    assert ended > 2
    assert found == list(range(1, 201))


def test_a_database_that_is_away_is_reported_after_the_time_allowed() -> None:
    reading = connected("postgresql://reader:s3cret@127.0.0.1:9/db", timeout="100ms")

    with pytest.raises(NotReachable, match=r"given up after 0.1 s") as told:
        reading.head("S")

    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("dsn", ["s3cret", "mysql://u:s3cret@h/db", "postgresql://u:s3cret@h:x/db"])
def test_a_wrong_connection_string_is_not_repeated(dsn: str) -> None:
    with pytest.raises((InvalidOption, RefusedBySql)) as told:
        connected(dsn, timeout="0s").head("S")

    assert "s3cret" not in str(told.value)


def test_a_connection_string_that_is_none_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMPTY", "")
    for value in ("env:EMPTY", "env:NOT_SET", "nothing"):
        with pytest.raises(InvalidOption, match="option 'dsn' is"):
            connected(value, timeout="60s").head("S")


def test_refusals_of_the_database_are_reported_at_once(postgres: PostgresServer) -> None:
    """A database without jetgate, one that is not there, a role that is not there."""
    at = postgres.dsn
    name = at.partition("@/")[2].partition("?")[0]
    nowhere, nobody = at.replace(f"@/{name}", "@/nowhere"), at.replace("://postgres@", "://nobody@")
    for dsn, words in (
        (at, r"refused a read \((42P01|3F000)\): the database has no schema jetgate"),
        (nowhere, r"refused the connection \(3D000\): there is no database of this name"),
        (nobody, r"refused the connection \(28000\): the database refuses the role"),
    ):
        reading = connected(dsn, timeout="1h")
        with pytest.raises(RefusedBySql, match=words):
            reading.head("S")
        reading.close()


def test_consumers_show_their_lag(feed: Feed, transport: SqlTransport) -> None:
    feed.put("a", "b", "c")
    feed.consumer("reader")

    (found,) = transport.consumers(feed.name)

    assert found == Consumer("reader", 3, 0, 0, 0, 0, None)
    assert (found.lag, found.ack_lag) == (3, 3)


def test_a_stream_of_any_name_can_be_asked_for(transport: SqlTransport) -> None:
    for name in ("it's", "a\\'b", 'a"b', "a;b--"):
        with pytest.raises(JetStreamError, match="was not found"):
            list(transport.pages(name, 1, 1, (), ALL))


def test_bytes_that_changed_in_the_store_are_noticed(
    feed: Feed, dsn: str, postgres: PostgresServer
) -> None:
    feed.publish([("a", b"one", BLOCK), ("b", b"two", b""), ("c", b"", b"")])
    reading = connected(dsn, verify="true")
    assert len(rows(reading.pages(feed.name, 1, 3, (), Wanted(headers=False)))) == 3

    postgres.execute(
        "update jetgate_store.message set data = 'twO' where seq = 2 and subject like"
        f" '{feed.name}.%'",
        dsn,
    )

    with pytest.raises(JetStreamError, match=f"stream '{feed.name}', sequence 2: the stored bytes"):
        list(reading.pages(feed.name, 1, 3, (), Wanted(headers=False)))
    reading.close()


def test_nothing_is_copied_on_the_way(feed: Feed, transport: SqlTransport) -> None:
    """Payloads stay in the buffers in which the driver put them, apart from the first batch."""
    feed.put("a")
    (page,) = transport.pages(feed.name, 1, 1, (), ALL)

    assert isinstance(page.rows.column("data"), pa.BinaryArray)
    assert page.rows.column("data").offset == 1  # behind the row of the head
