"""Rows become messages, at least once or exactly once; the writers without Spark around them."""

# Subject: Spark sink

# ruff: noqa: E402  (skipped where there is no Spark)
import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import spark as support

support.require()

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from pyspark_jetstream.schema import to_arrow
from pyspark_jetstream.sink import ledger as ledgers
from pyspark_jetstream.sink.at_least_once import Published, publish
from pyspark_jetstream.sink.ledger import Attempt, Committed, Ledger, TransactionError
from pyspark_jetstream.sink.options import SinkOptions, sink_options
from pyspark_jetstream.sink.rows import RowError
from pyspark_jetstream.sink.staging import stage
from pyspark_jetstream.sink.tasks import Task
from pyspark_jetstream.values import InvalidOption

from tests.spark.feeds import Feed
from tests.spark.proxies import Proxy
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

Server = NatsServer | JetgateServer
Row = dict[str, Any]

_TEXTS: DataType = MapType(StringType(), ArrayType(StringType()))
_TYPES: dict[str, DataType] = {
    "subject": StringType(),
    "data": BinaryType(),
    "headers": _TEXTS,
    "msg_id": StringType(),
    "ttl": StringType(),
    "expected_last_seq": LongType(),
    "expected_last_subject_seq": LongType(),
    "seq": LongType(),
    "other": IntegerType(),
}


def _structure(*names: str, **types: DataType) -> StructType:
    return StructType([StructField(name, types.get(name, _TYPES[name])) for name in names])


class Target:
    """A stream that is written to."""

    def __init__(self, address: tuple[str, int], feed: Feed) -> None:
        self.name = feed.name
        self.wire = Wire(address)
        self.wire.hello()
        self.address = address

    def options(
        self, schema: StructType, *, streaming: bool = False, **options: str
    ) -> SinkOptions:
        servers = options.pop("servers", f"nats://127.0.0.1:{self.address[1]}")
        named = {"servers": servers, "stream": self.name, "timeout": "20s", **options}
        return sink_options(named, schema, overwrite=False, streaming=streaming)

    def write(
        self,
        rows: list[Row],
        task: Task | None = None,
        schema: StructType | None = None,
        **options: str,
    ) -> Published:
        """Publish rows as one partition of a micro-batch would."""
        names = list(rows[0]) if rows else ["subject", "data"]
        schema = schema or _structure(*names)
        made = self.options(schema, streaming=True, **options)
        batches = pa.Table.from_pylist(rows, to_arrow(schema)).to_batches(max_chunksize=7)
        return publish(made, task or Task(0, "query", 4, "run"), "", iter(batches))

    def rows(self, *tails: str, payload: bytes = b"x") -> list[Row]:
        return [{"subject": f"{self.name}.{tail}", "data": payload} for tail in tails]

    def stored(self) -> list[tuple[str, bytes, bytes]]:
        """Subject without the stream's name, headers as lines, payload."""
        found = []
        last = self.wire.api(f"STREAM.INFO.{self.name}")["state"]["last_seq"]
        for seq in range(1, last + 1):
            message = self.wire.api(f"STREAM.MSG.GET.{self.name}", {"seq": seq})["message"]
            headers = base64.b64decode(message.get("hdrs", ""))
            subject = message["subject"].removeprefix(f"{self.name}.")
            found.append((subject, headers, base64.b64decode(message.get("data", ""))))
        return found

    def subjects(self) -> list[str]:
        return [subject for subject, _, _ in self.stored()]


@pytest.fixture
def target(server: Server) -> Iterator[Target]:
    with Feed(server, allow_msg_ttl=True) as feed:
        made = Target(server.address, feed)
        yield made
        made.wire.close()


@pytest.fixture
def ours(jetgate_server: JetgateServer) -> Iterator[Target]:
    """A stream of jetgate alone, which has transactions."""
    with Feed(jetgate_server, allow_msg_ttl=True) as feed:
        made = Target(jetgate_server.address, feed)
        yield made
        made.wire.api(f"STREAM.DELETE.JG_STAGE_{made.name}")
        made.wire.close()


# -- at least once ---------------------------------------------------------------------------------


def test_rows_are_stored_in_order_with_their_columns(target: Target) -> None:
    rows = [
        {
            "subject": f"{target.name}.{number}",
            "data": b"%d" % number,
            "headers": [("A", ["1", "2"]), ("B", ["x"])] if number == 1 else None,
            "ttl": "1h" if number == 2 else None,
            "msg_id": "mine" if number == 3 else None,
            "seq": 99,
        }
        for number in range(20)
    ]
    assert target.write(rows) == Published(20, 0)
    stored = target.stored()
    assert [subject for subject, _, _ in stored] == [str(number) for number in range(20)]
    assert [payload for _, _, payload in stored] == [b"%d" % number for number in range(20)]
    assert b"\r\nA: 1\r\nA: 2\r\nB: x\r\n" in stored[1][1]
    assert b"\r\nNats-TTL: 1h\r\n" in stored[2][1]
    assert stored[3][1].count(b"Nats-Msg-Id") == 1
    assert b"\r\nNats-Msg-Id: mine\r\n" in stored[3][1]
    assert b"\r\nNats-Msg-Id: query/4/0/0/" in stored[0][1]


def test_rows_that_are_written_again_are_stored_once(target: Target) -> None:
    rows = target.rows(*map(str, range(30)))
    assert target.write(rows) == Published(30, 0)
    assert target.write(rows) == Published(30, 30)
    assert target.write(rows, Task(1, "query", 4, "run")) == Published(30, 0)
    assert len(target.subjects()) == 60


def test_a_row_that_took_the_place_of_another_is_not_lost(target: Target) -> None:
    target.write(target.rows("a", "b", "c"))
    assert target.write(target.rows("a", "c", "b")) == Published(3, 1)
    assert target.subjects() == ["a", "b", "c", "c", "b"]


def test_without_ids_every_row_is_stored_again(target: Target) -> None:
    rows = target.rows("a", "b")
    target.write(rows, ids="off")
    assert target.write(rows, ids="off") == Published(2, 0)
    assert target.subjects() == ["a", "b", "a", "b"]
    assert all(b"Nats-Msg-Id" not in headers for _, headers, _ in target.stored())


def test_batch_writes_with_a_version_have_the_same_ids_again(target: Target) -> None:
    schema = _structure("subject", "data")
    options = target.options(schema, txnAppId="app", txnVersion="7")
    table = pa.Table.from_pylist(target.rows("a", "b"), to_arrow(schema))
    task = Task(0, "", -1, "")
    assert publish(options, task, "run1", iter(table.to_batches())) == Published(2, 0)
    assert publish(options, task, "run2", iter(table.to_batches())) == Published(2, 2)
    bare = target.options(schema)
    assert publish(bare, task, "run1", iter(table.to_batches())) == Published(2, 0)
    assert publish(bare, task, "run1", iter(table.to_batches())) == Published(2, 2)
    assert publish(bare, task, "run2", iter(table.to_batches())) == Published(2, 0)


@pytest.mark.usefixtures("at_once")
def test_connections_that_break_neither_lose_nor_repeat_rows(target: Target) -> None:
    rows = target.rows(*map(str, range(300)))
    with Proxy(target.address, [3000, 2500, 4000]) as proxy:
        url = f"nats://127.0.0.1:{proxy.address[1]}"
        written = target.write(rows, servers=url, maxInFlight="40")
        assert proxy.connections == 4
    assert written.rows == 300
    assert target.subjects() == [str(number) for number in range(300)]


def test_a_constant_subject_and_text(target: Target) -> None:
    schema = _structure("data", data=StringType())
    target.write([{"data": "ä"}, {"data": None}], schema=schema, subject=f"{target.name}.all")
    assert [(subject, data) for subject, _, data in target.stored()] == [
        ("all", "ä".encode()),
        ("all", b""),
    ]


def test_whole_header_blocks_are_stored_as_they_are(target: Target) -> None:
    schema = _structure("subject", "data", "headers", headers=BinaryType())
    block = b"NATS/1.0\r\nA:  b\r\na: \r\n\r\n"
    target.write([{**target.rows("a")[0], "headers": block}], schema=schema, ids="off", stream="")
    assert target.stored() == [("a", block, b"x")]
    with pytest.raises(RowError, match="row 0 of partition 0: headers is no header block"):
        target.write([{**target.rows("a")[0], "headers": b"A: b\r\n"}], schema=schema)


def test_a_row_that_is_not_expected_is_refused_by_name(target: Target) -> None:
    rows = [
        {**row, "expected_last_subject_seq": expected}
        for row, expected in zip(target.rows("a", "b", "a"), (0, 0, 9), strict=True)
    ]
    with pytest.raises(RowError, match=rf"row 2 of partition 0 .*{target.name}\.a.*10071"):
        target.write(rows)
    assert target.subjects() == ["a", "b"]
    with pytest.raises(RowError, match=r"row 0 .*10071"):
        target.write(rows)  # servers look at what is expected before they look at ids


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"subject": None}, "row 9 of partition 5: subject None"),
        ({"subject": "a b"}, "row 9 of partition 5: subject 'a b'"),
        ({"subject": "a.*"}, "subject 'a.*'"),
        ({"subject": ""}, "subject ''"),
        ({"headers": [("A B", ["x"])]}, "row 9 of partition 5: header 'A B'"),
        ({"headers": [("A", ["x\r\nNats-Rollup: all"])]}, "header 'A'"),
        ({"ttl": "1s\r\nA: b"}, "row 9 of partition 5: ttl"),
    ],
)
def test_a_row_that_is_no_message_is_named(
    nats_server: NatsServer, change: Row, expected: str
) -> None:
    with Feed(nats_server) as feed:
        target = Target(nats_server.address, feed)
        rows = [{**row, "headers": None, "ttl": None} for row in target.rows(*"abcdefghij")]
        rows[9] |= change
        with pytest.raises(RowError) as refused:
            target.write(rows, Task(5, "query", 4, "run"))
        assert expected in str(refused.value)
        target.wire.close()


def test_a_row_that_is_too_large_is_named(target: Target) -> None:
    rows = [*target.rows("a"), *target.rows("big", payload=b"x" * (1 << 20))]
    with pytest.raises(RowError, match=r"row 1 of partition 0: .* max_payload, 1048576"):
        target.write(rows)


def test_a_subject_that_no_stream_takes_is_an_error(target: Target) -> None:
    rows = [{"subject": "nobody.listens", "data": b""}]
    with pytest.raises(RowError, match=r"row 0 .*nobody\.listens.*no stream takes this subject"):
        target.write(rows)  # at once, however long the timeout is


# -- exactly once ----------------------------------------------------------------------------------


def _staged(target: Target, rows: list[Row], ledger: Ledger, run: str) -> Attempt:
    schema = _structure(*(list(rows[0]) if rows else ["subject", "data"]))
    options = target.options(schema, streaming=True, delivery="transactional", txnAppId="app")
    table = pa.Table.from_pylist(rows, to_arrow(schema))
    return stage(options, ledger.open(run), 0, iter(table.to_batches(max_chunksize=100)))


def _ledger(target: Target, app: str = "app") -> Ledger:
    schema = _structure("subject", "data")
    options = target.options(schema, streaming=True, delivery="transactional", txnAppId=app)
    return Ledger(options.settings, options.target, app, options.stall_timeout)


def test_staged_rows_are_stored_once_and_in_order(ours: Target) -> None:
    ledger = _ledger(ours)
    big = ours.rows("big", payload=b"y" * 900_000)
    first = _staged(ours, [*ours.rows(*map(str, range(500))), *big], ledger, "q:run")
    second = _staged(ours, [{**ours.rows("h")[0], "ttl": "1h", "msg_id": "x"}], ledger, "q:run")
    _staged(ours, ours.rows("lost"), ledger, "q:run")  # an attempt that no manifest names
    assert ours.subjects() == []
    done = ledger.commit(ledger.open("q:run"), 0, [first, second])
    assert done == Committed(0, 502, 0, 1, 502)
    assert ours.subjects() == [*map(str, range(500)), "big", "h"]
    assert b"Nats-TTL: 1h" in ours.stored()[-1][1]
    assert ledger.commit(ledger.open("q:run"), 0, []) == done, "the first manifest wins"
    ledger.close()


def test_a_restarted_driver_with_other_rows_is_answered_from_the_first(ours: Target) -> None:
    ledger = _ledger(ours)
    done = ledger.commit(ledger.open("q:one"), 3, [_staged(ours, ours.rows("a"), ledger, "q:one")])
    other = _staged(ours, ours.rows("b", "c"), ledger, "q:two")
    assert ledger.commit(ledger.open("q:two"), 3, [other]) == done
    assert ours.subjects() == ["a"]
    ledger.close()


def test_an_older_run_is_refused_by_name(ours: Target) -> None:
    ledger = _ledger(ours)
    old = ledger.open("q:old")
    ledger.open("q:new")
    with pytest.raises(TransactionError, match=r'run "q:old" .*Another driver writes as this app'):
        ledger.open("q:old")
    with pytest.raises(TransactionError, match=r"token 1 .*superseded"):
        ledger.commit(old, 0, [])
    ledger.close()


def test_an_app_of_another_query_is_refused_until_it_is_forgotten(ours: Target) -> None:
    """As with a deleted checkpoint, whose first batch would have the number of the last one."""
    ledger = _ledger(ours)
    ledger.open("other:run")  # has written nothing yet
    ledger.commit(ledger.open("q:run"), 0, [_staged(ours, ours.rows("a"), ledger, "q:run")])
    with pytest.raises(TransactionError, match=r"is that of query 'q', whose last batch is 0"):
        ledger.open("new:run")
    forgotten = ours.wire.request(f"$JG.API.TXN.DELETE.{ours.name}", b'{"app":"app"}')
    assert forgotten.json()["success"]
    assert ledger.open("new:run").batch is None
    ledger.close()


def test_an_older_batch_is_refused_and_not_skipped(ours: Target) -> None:
    ledger = _ledger(ours)
    opened = ledger.open("q:run")
    for batch in (0, 1):
        ledger.commit(opened, batch, [_staged(ours, ours.rows("a"), ledger, "q:run")])
    with pytest.raises(TransactionError, match=r"batch 0 .*older.*never skipped silently"):
        ledger.commit(opened, 0, [_staged(ours, ours.rows("b"), ledger, "q:run")])
    assert ours.subjects() == ["a", "a"]
    ledger.close()


def test_a_run_that_is_not_ahead_leaves_the_one_at_work_alone(
    ours: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "_WATCHED", 1.0)
    ledger, other = _ledger(ours), _ledger(ours)
    first = ledger.open("q:one")
    for batch in (0, 1, 2):
        ledger.commit(first, batch, [_staged(ours, ours.rows("a"), ledger, "q:one")])
    assert other.open_for("q:two", 2) is None, "the ledger has it already"

    stop = threading.Event()

    def work() -> None:
        for batch in range(3, 100):
            if stop.wait(0.05):
                return
            ledger.commit(first, batch, [])

    working = threading.Thread(target=work)
    working.start()
    at_work = r"batch 1 of .* another run of this query, 'q:one', which is at work: .* batch \d+"
    with pytest.raises(TransactionError, match=at_work) as told:
        other.open_for("q:two", 1)
    stop.set()
    working.join()
    assert "deleted" not in str(told.value)
    with pytest.raises(TransactionError, match="'q:one', has written: that run"):
        other.open_for("q:two", 1)
    last = ledger.open("q:one").batch
    assert last is not None
    assert ledger.open_for("q:one", last + 1) == ledger.open("q:one"), "it was not superseded"
    ahead = other.open_for("q:two", last + 1)
    assert ahead is not None, "what gets further takes over"
    with pytest.raises(TransactionError, match=r'run "q:one" .* superseded by run "q:two"'):
        ledger.open_for("q:one", last + 1)
    ledger.close()
    other.close()


def test_a_number_of_a_batch_write_that_is_older_is_refused(ours: Target) -> None:
    ledger = _ledger(ours)
    opened = ledger.open("batch:one")
    ledger.commit(opened, 5, [_staged(ours, ours.rows("a"), ledger, "batch:one")])
    assert ledger.open_for("batch:two", 5) is None
    with pytest.raises(TransactionError, match="batch 4 of app 'app' is older than its last one"):
        ledger.open_for("batch:two", 4)
    assert ledger.open_for("batch:two", 6) is not None
    ledger.close()


def test_a_refused_row_stops_the_batch_and_is_named(ours: Target) -> None:
    ledger = _ledger(ours)
    rows = [*ours.rows("a"), {"subject": "not.of.the.stream", "data": b""}, *ours.rows("b")]
    staged = _staged(ours, rows, ledger, "q:run")
    with pytest.raises(TransactionError, match=r"behind 1 of 3 rows, at row 1 .*not\.of\.the"):
        ledger.commit(ledger.open("q:run"), 0, [staged])
    assert ours.subjects() == ["a"]
    ledger.close()


@pytest.mark.usefixtures("at_once")
def test_staging_through_connections_that_break_stages_each_block_once(ours: Target) -> None:
    schema = _structure("subject", "data")
    rows = ours.rows(*map(str, range(3000)), payload=b"x" * 1000)
    ledger = _ledger(ours)
    with Proxy(ours.address, [700, 700, 900]) as proxy:
        options = ours.options(
            schema,
            streaming=True,
            delivery="transactional",
            txnAppId="app",
            servers=f"nats://127.0.0.1:{proxy.address[1]}",
        )
        table = pa.Table.from_pylist(rows, to_arrow(schema))
        staged = stage(options, ledger.open("q:run"), 0, iter(table.to_batches()))
    assert ledger.commit(ledger.open("q:run"), 0, [staged]).rows == 3000
    assert ours.subjects() == [str(number) for number in range(3000)]
    ledger.close()


def test_a_server_without_transactions_is_reported(nats_server: NatsServer) -> None:
    with Feed(nats_server) as feed:
        target = Target(nats_server.address, feed)
        ledger = _ledger(target)
        with pytest.raises(TransactionError, match=r"needs a jetgate server.*at-least-once"):
            ledger.open("q:run")
        ledger.close()
        target.wire.close()


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (["data"], {}, "a column subject"),
        (["subject"], {}, "a column data"),
        (["subject", "data", "other"], {}, "option 'column' is 'other'"),
        (["subject", "data"], {"subject": "a.>"}, "a subject without wildcards"),
        (["subject", "data"], {"servers": ""}, "servers"),
        (["subject", "data"], {"transport": "sql"}, "transport"),
        (["subject", "data"], {"delivery": "exactly"}, "at-least-once, transactional"),
        (["subject", "data"], {"delivery": "transactional"}, "txnAppId"),
        (["subject", "data"], {"delivery": "transactional", "txnAppId": "a/b"}, "slash"),
        (["subject", "data"], {"delivery": "transactional", "txnAppId": "a"}, "txnVersion"),
        (["subject", "data"], {"txnVersion": "1"}, "txnAppId"),
        (["subject", "data"], {"txnVersoin": "1"}, "did you mean txnVersion"),
        (
            ["subject", "data", "expected_last_seq"],
            {"delivery": "transactional", "txnAppId": "a", "txnVersion": "1"},
            "it is for at-least-once",
        ),
    ],
)
def test_options_and_columns_are_checked(
    columns: list[str], options: dict[str, str], expected: str
) -> None:
    given = {"servers": "nats://127.0.0.1:1", "stream": "S", **options}
    with pytest.raises(InvalidOption, match=expected):
        sink_options(given, _structure(*columns), overwrite=False, streaming=False)


def test_a_stream_cannot_be_overwritten() -> None:
    options = {"servers": "nats://127.0.0.1:1", "subject": "s"}
    with pytest.raises(InvalidOption, match="append: a stream is a log"):
        sink_options(options, _structure("data"), overwrite=True, streaming=False)


def test_secrets_are_not_in_what_is_sent_to_tasks() -> None:
    options = {"servers": "nats://127.0.0.1:1", "subject": "s", "auth.token": "s3cret"}
    made = sink_options(options, _structure("data"), overwrite=False, streaming=False)
    assert "s3cret" not in repr(made)
