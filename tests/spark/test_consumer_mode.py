"""`mode=consumer`: a work queue as a stream of Spark, from both servers; at least once."""

# Subject: Spark work queues

# ruff: noqa: E402  (skipped where there is no Spark)

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

from pyspark_jetstream.leases import Lease
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.transport.errors import NotReachable
from pyspark_jetstream.values import InvalidOption

from tests.spark.feeds import Feed
from tests.spark.readers import Begin, Query, seqs
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

Server = NatsServer | JetgateServer


class Queue:
    """A work-queue stream, its consumer C, and what Spark is told of both."""

    def __init__(self, server: Server, feed: Feed) -> None:
        self.wire = Wire(server.address)
        self.wire.hello()
        self.feed = feed
        self.name = feed.name
        host, port = server.address
        self.options = {
            "servers": f"nats://{host}:{port}",
            "stream": feed.name,
            "mode": "consumer",
            "consumer": "C",
            "timeout": "20s",
        }

    def fill(self, first: int, last: int) -> None:
        """Store messages, and wait until the consumer counts them (nats-server: a moment later)."""
        self.feed.put(*(str(number) for number in range(first, last + 1)))
        if "error" not in self.info():
            eventually(lambda: self.left() == self.stored())

    def left(self) -> int:
        """What the consumer has yet to deliver, or to be acknowledged."""
        info = self.info()
        return int(info["num_pending"] + info["num_ack_pending"])

    def stored(self) -> int:
        return int(self.wire.api(f"STREAM.INFO.{self.name}")["state"]["messages"])

    def info(self) -> dict[str, Any]:
        return dict(self.wire.api(f"CONSUMER.INFO.{self.name}.C"))

    def create(self, **config: Any) -> None:
        body = {"durable_name": "C", "ack_policy": "explicit", **config}
        request = {"stream_name": self.name, "config": body}
        answer = self.wire.api(f"CONSUMER.DURABLE.CREATE.{self.name}.C", request)
        assert "error" not in answer, answer


@pytest.fixture
def queue(server: Server) -> Iterator[Queue]:
    with Feed(server, retention="workqueue") as feed:
        made = Queue(server, feed)
        yield made
        made.wire.close()


def test_a_batch_is_acknowledged_when_it_is_committed(queue: Queue, begin: Begin) -> None:
    queue.fill(1, 10)
    query = begin({**queue.options, "maxMessagesPerTrigger": "4"})
    rows = query.next()
    assert rows is not None
    assert seqs(rows) == [1, 2, 3, 4]
    assert rows.column("subject").to_pylist()[0] == f"{queue.name}.1"
    assert queue.stored() == 10, "nothing is acknowledged before it is committed"
    query.reader.commit(query.offset)
    assert queue.stored() == 6
    query.reader.commit(query.offset)
    assert [seqs(rows) for rows in query] == [[5, 6, 7, 8], [9, 10]]
    assert queue.stored() == 0, "what latestOffset starts at is committed"


def test_the_last_batch_of_a_run_is_acknowledged_by_the_next(queue: Queue, begin: Begin) -> None:
    queue.fill(1, 5)
    first = begin(queue.options)
    assert first.next() is not None
    checkpoint = json.loads(json.dumps(first.offset))
    first.stop()
    assert queue.stored() == 5
    second = begin(queue.options, checkpoint)
    assert second.next() is None, "what was committed is not read again"
    assert queue.stored() == 0
    queue.fill(6, 6)
    rows = second.next()
    assert rows is not None
    assert seqs(rows) == [6]


def test_a_batch_in_the_checkpoint_is_replayed_with_the_same_rows(
    queue: Queue, begin: Begin
) -> None:
    queue.fill(1, 5)
    first = begin({**queue.options, "maxMessagesPerTrigger": "3"})
    start = first.offset
    rows = first.next()
    assert rows is not None
    end = json.loads(json.dumps(first.offset))
    first.stop()  # without a commit
    second = begin({**queue.options, "maxMessagesPerTrigger": "3"}, start)
    again = second.between(start, end)
    assert again.to_pylist() == rows.to_pylist()
    second.offset = end
    rest = second.next()
    assert rest is not None
    assert seqs(rest) == [4, 5]
    assert queue.stored() == 2


def test_pulled_messages_without_a_checkpoint_are_delivered_again(
    queue: Queue, begin: Begin
) -> None:
    queue.create(ack_wait=500_000_000)
    queue.fill(1, 3)
    first = begin(queue.options)
    start = first.offset
    first.reader.latestOffset(start, first.reader.getDefaultReadLimit())
    first.stop()
    second = begin(queue.options, start)
    rows = eventually(second.next)
    assert rows is not None
    assert seqs(rows) == [1, 2, 3]


def test_progress_is_reported_while_a_batch_runs(queue: Queue, begin: Begin) -> None:
    queue.create(ack_wait=2_000_000_000)  # a report may be late by more than a second
    queue.fill(1, 3)
    wire = queue.wire
    wire.send(f"SUB $JS.ACK.{queue.name}.C.> p\r\n".encode())
    wire.flush()
    query = begin(queue.options)
    assert query.next() is not None
    told: list[bytes] = []
    while len(told) < 9:  # three times for each of three messages: longer than ack_wait
        frame = wire.frame()
        if frame.verb == b"MSG":
            told.append(frame.payload)
    assert set(told) == {b"+WPI"}
    assert queue.info()["num_redelivered"] == 0
    query.reader.commit(query.offset)
    assert queue.stored() == 0


def test_a_message_that_comes_again_after_its_commit_is_not_read_again(
    queue: Queue, begin: Begin
) -> None:
    queue.create(ack_wait=300_000_000)
    queue.fill(1, 3)
    first = begin(queue.options)
    assert first.next() is not None
    checkpoint = first.offset
    first.stop()  # committed, but not acknowledged; now it is delivered to somebody else
    wire = queue.wire
    wire.send(b"SUB in.box o\r\n")
    body = b'{"batch":3,"expires":20000000000}'
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{queue.name}.C", body, reply=b"in.box")
    assert {wire.frame().payload for _ in range(3)}
    second = begin(queue.options, checkpoint)
    assert second.next() is None
    assert queue.stored() == 0


def test_large_batches_are_split_and_acknowledged_whole(queue: Queue, begin: Begin) -> None:
    queue.create(max_ack_pending=100_000)
    queue.fill(1, 3000)
    query = begin({**queue.options, "maxMessagesPerPartition": "700"})
    start = query.offset
    rows = query.next()
    assert rows is not None
    assert sorted(seqs(rows)) == list(range(1, 3001))
    assert len(query.reader.partitions(start, query.offset)) == 5
    assert query.next() is None
    assert queue.stored() == 0


def test_a_consumer_is_made_with_the_filters_and_kept(queue: Queue, begin: Begin) -> None:
    queue.fill(1, 5)
    query = begin({**queue.options, "filterSubjects": f"{queue.name}.2,{queue.name}.4"})
    rows = query.next()
    assert rows is not None
    assert seqs(rows) == [2, 4]
    query.stop()
    assert queue.info()["config"]["ack_policy"] == "explicit"


def test_consumers_that_do_not_fit_are_refused(queue: Queue, begin: Begin) -> None:
    queue.create(deliver_subject="push.here")
    with pytest.raises(Exception, match="'C' is a push consumer"):
        begin(queue.options)


def test_the_lag_is_reported(queue: Queue, begin: Begin) -> None:
    queue.fill(1, 10)
    query = begin({**queue.options, "maxMessagesPerTrigger": "4"})
    assert query.next() is not None
    told = query.reader.reportLatestOffset()
    assert {name: told[name] for name in told if "_" in name} == {
        "delivered_stream_seq": 4,
        "ack_floor_stream_seq": 0,
        "num_ack_pending": 4,
        "num_redelivered": 0,
        "num_pending": 6,
    }


def test_options_are_checked(server: Server) -> None:
    base = {"servers": "nats://127.0.0.1:1", "stream": "S", "mode": "consumer", "consumer": "C"}
    for change, expected in (
        ({"consumer": ""}, "durable consumer"),
        ({"servers": "", "dsn": "postgresql://x"}, "addresses of NATS"),
        ({"stream": "S,T"}, "one stream"),
        ({"startingPosition": "earliest"}, "its own place"),
        ({"mode": "log"}, "none without mode=consumer"),
    ):
        with pytest.raises(InvalidOption, match=expected):
            Query({**base, **change})


_TAKEN_OVER = b'{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"}}'
_NOBODY = b"NATS/1.0 503\r\n\r\n"
_CONSUMER = b'{"config":{"ack_policy":"explicit","ack_wait":9000000000}}'


def test_a_consumer_is_asked_for_again_while_a_node_takes_over(nats_server: NatsServer) -> None:
    """The API is played here: by one that is not ready, by nobody, then by the consumer's node."""
    settings = Settings(("nats://{}:{}".format(*nats_server.address),), api_prefix="PLAYED")
    with Wire(nats_server.address) as wire, ThreadPoolExecutor(1) as pool:
        wire.hello()
        wire.send(b"SUB PLAYED.CONSUMER.INFO.S.C api\r\n")
        wire.flush()
        made = pool.submit(Lease, settings, "S", "C", ())
        for headers, answer in ((b"", _TAKEN_OVER), (_NOBODY, b""), (b"", _CONSUMER)):
            asked = wire.frame()
            wire.publish(asked.reply.decode(), answer, headers=headers)
        made.result(30).close()


def test_a_consumer_without_responders_fails_after_the_retries(nats_server: NatsServer) -> None:
    url = "nats://{}:{}".format(*nats_server.address)
    settings = Settings((url,), api_prefix="PLAYED", retries=1)
    with pytest.raises(NotReachable, match="given up after 2 tries: no responder for PLAYED"):
        Lease(settings, "S", "C", ())


def test_a_consumer_that_was_deleted_is_reported_when_its_batch_is_done(
    queue: Queue, begin: Begin
) -> None:
    queue.fill(1, 3)
    query = begin(queue.options)
    assert query.next() is not None
    queue.wire.api(f"CONSUMER.DELETE.{queue.name}.C")
    with pytest.raises(Exception, match="consumer 'C' is gone"):
        query.reader.commit(query.offset)


@pytest.mark.parametrize(
    "server",
    ["jetgate", pytest.param("nats-server", marks=pytest.mark.thorough)],
    indirect=True,
)
def test_a_query_drains_a_queue_into_a_table(
    queue: Queue, spark: "SparkSession", tmp_path: "Path"
) -> None:
    queue.fill(1, 50)
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def run() -> None:
        stream = spark.readStream.format("jetstream").options(**queue.options)
        query = (
            stream.option("maxMessagesPerTrigger", "20")
            .load()
            .select("seq", "subject")
            .writeStream.format("parquet")
            .option("path", table)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None

    run()
    queue.fill(51, 60)
    run()
    found = sorted(row.seq for row in spark.read.parquet(table).collect())
    assert found == list(range(1, 61))
    assert queue.stored() == 0, "latestOffset is asked once more behind the last batch"
