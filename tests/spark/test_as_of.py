"""A bucket as a table (`asOf`): complete, whatever its keys do while it is read."""

# Subject: Spark rows

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support import spark

spark.require()

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
from pyspark_jetstream import DefaultSource, snapshots  # noqa: E402
from pyspark_jetstream.options import batch_options  # noqa: E402
from pyspark_jetstream.transport import open_transport  # noqa: E402
from pyspark_jetstream.transport.base import Head, Page  # noqa: E402
from pyspark_jetstream.transport.nats import NatsTransport  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.spark.readers import batch, read, seqs, structure  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.natsserver import NatsServer  # noqa: E402

Options = dict[str, str]
Server = JetgateServer | NatsServer
DELETED = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
PURGED = b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"
KEYS = [f"key{one}" for one in range(300)]


@dataclass(frozen=True)
class Way:
    """A server, how it is reached, and whether its streams have Direct Get."""

    server: Server
    options: Options
    direct: bool


@pytest.fixture(params=["sql", "jetgate", "nats-server", "nats-server without Direct Get"])
def way(request: pytest.FixtureRequest) -> Way:
    """Every way to read a bucket, one after the other."""
    if request.param == "sql":
        server = request.getfixturevalue("jetgate_server")
        return Way(server, {"dsn": request.getfixturevalue("dsn")}, True)
    name, _, without = request.param.partition(" ")
    started: Server = request.getfixturevalue(name.removesuffix("-server") + "_server")
    return Way(started, {"servers": "nats://{}:{}".format(*started.address)}, not without)


@pytest.fixture
def bucket(way: Way) -> Iterator[Feed]:
    """A stream as a bucket has it, with one value for each key."""
    config = {"max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "allow_direct": way.direct}
    with Feed(way.server, **config) as made:
        made.publish([(key, b"0", b"") for key in KEYS])
        yield made


@pytest.fixture
def current(bucket: Feed, way: Way) -> Options:
    """Reads the bucket."""
    return {**way.options, "stream": bucket.name, "asOf": "latest", "minPartitions": "4"}


def values(feed: Feed, rows: pa.Table) -> dict[str, bytes]:
    """Each key's value. Raises AssertionError when a key is there twice."""
    subjects = rows.column("subject").to_pylist()
    assert len(set(subjects)) == len(subjects)
    keys = [subject.removeprefix(f"{feed.name}.") for subject in subjects]
    return dict(zip(keys, rows.column("data").to_pylist(), strict=True))


def test_a_bucket_is_its_keys(bucket: Feed, current: Options) -> None:
    bucket.publish([("key1", b"1", b""), ("key2", b"", DELETED), ("key3", b"", PURGED)])

    found = values(bucket, batch(current))

    assert found == {key: b"0" for key in KEYS if key not in ("key2", "key3")} | {"key1": b"1"}


def test_a_key_that_changes_between_planning_and_reading_is_there_once(
    bucket: Feed, current: Options
) -> None:
    reader = DefaultSource(current).reader(structure())
    planned = reader.partitions()
    bucket.publish([(key, b"1", b"") for key in KEYS[:150]])
    bucket.publish([(key, b"2", b"") for key in KEYS[:10]])
    bucket.publish([(KEYS[200], b"", DELETED), ("new", b"1", b"")])
    bucket.purge(filter=f"{bucket.name}.{KEYS[201]}")

    found = values(bucket, read(reader, planned))

    assert len(planned) == 4
    expected = {key: b"0" for key in KEYS if key not in KEYS[200:202]}
    assert found == expected | dict.fromkeys(KEYS[:150], b"1") | dict.fromkeys(KEYS[:10], b"2")


@pytest.mark.parametrize("few", [pytest.param(0, marks=pytest.mark.thorough), 64])
@pytest.mark.parametrize("way", ["sql", "nats-server"], indirect=True)
def test_keys_that_change_all_the_time_are_all_there(
    way: Way,
    bucket: Feed,
    current: Options,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
) -> None:
    """Whichever way keys are found again: one by one, or all at once in rounds."""
    monkeypatch.setattr(snapshots, "_FEW", few or 1)
    stop = threading.Event()

    def change() -> None:
        chance = random.Random(few)
        with closing(bucket.beside(way.server)) as other:
            while not stop.is_set():
                other.publish([(key, b"1", b"") for key in chance.sample(KEYS, 40)])

    writer = threading.Thread(target=change)
    writer.start()
    try:
        reader = DefaultSource(current).reader(structure())
        found = values(bucket, read(reader, reader.partitions()))
        assert set(found) == set(KEYS)
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(("many", "few"), [(100, 0), (100, 64), (1100, 64)])
@pytest.mark.parametrize(
    "way", ["jetgate", "nats-server", "nats-server without Direct Get"], indirect=True
)
def test_keys_that_all_change_between_any_two_requests_are_all_there(
    way: Way, monkeypatch: pytest.MonkeyPatch, many: int, few: int
) -> None:
    """Also more keys than Direct Get answers at once, 1024."""
    monkeypatch.setattr(snapshots, "_FEW", few or 1)
    messages = [(f"key{one}", b"", b"") for one in range(many)]
    with Feed(way.server, max_msgs_per_subject=1, allow_direct=way.direct) as made:
        made.publish(messages)
        options = {**way.options, "stream": made.name, "asOf": "latest"}

        def head(self: NatsTransport, stream: str, ask: Any = NatsTransport.head) -> Head:
            found: Head = ask(self, stream)
            made.publish(messages)
            return found

        def points(
            self: NatsTransport, *given: Any, ask: Any = NatsTransport.points
        ) -> Iterator[Page]:
            made.publish(messages)
            yield from ask(self, *given)

        monkeypatch.setattr(NatsTransport, "head", head)
        monkeypatch.setattr(NatsTransport, "points", points)

        assert len(values(made, batch(options))) == many


def test_a_bucket_with_history_is_read_as_of_then(way: Way) -> None:
    with Feed(way.server, max_msgs_per_subject=5, allow_direct=way.direct) as made:
        made.put("a", "b", "c", payload=b"old")
        then = made.put("a", payload=b"new")[0]
        made.put("b", payload=b"newer")
        made.publish([("c", b"", DELETED)])
        options = {**way.options, "stream": made.name}

        as_of = values(made, batch({**options, "asOf": f"seq:{then}"}))
        now = values(made, batch({**options, "asOf": "latest"}))

        assert as_of == {"a": b"new", "b": b"old", "c": b"old"}
        assert now == {"a": b"new", "b": b"newer"}


def test_a_time_may_be_named(bucket: Feed, current: Options) -> None:
    at = max(batch(current, "timestamp_ns").column("timestamp_ns").to_pylist())
    bucket.put("later")
    seconds, fraction = divmod(at, 10**9)
    then = f"time:{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"

    found = batch({**current, "asOf": then})

    assert set(KEYS) <= set(values(bucket, found))


def test_some_keys_may_be_asked_for(bucket: Feed, current: Options) -> None:
    bucket.put("other.a", "other.b")

    found = batch({**current, "filterSubjects": f"{bucket.name}.other.*,{bucket.name}.key7"})

    assert set(values(bucket, found)) == {"other.a", "other.b", "key7"}


def test_messages_replaced_after_planning_are_left_to_the_log(
    bucket: Feed, current: Options
) -> None:
    """The last message of each subject as a start: a newer one follows in the log."""
    options = {**current, "startingPosition": "lastPerSubject"}
    del options["asOf"]
    reader = DefaultSource(options).reader(structure())
    planned = reader.partitions()
    bucket.put(*KEYS[:100])

    assert sorted(seqs(read(reader, planned))) == list(range(101, 301))


def test_rows_whose_value_of_then_is_not_stored_are_marked_or_left_out(way: Way) -> None:
    """A history of three: of ten keys, the values as of a moment are stored for some only."""
    config = {"max_msgs_per_subject": 3, "allow_rollup_hdrs": True, "allow_direct": way.direct}
    with Feed(way.server, **config) as feed:
        keys = [f"k{one}" for one in range(10)]
        feed.publish([(key, b"then", b"") for key in keys])
        feed.publish([(keys[9], b"", DELETED)])
        for place, key in enumerate(keys[:6]):  # 0 to 5 times again: three stay
            feed.publish([(key, b"later", b"")] * place)
        feed.publish([("new", b"later", b"")])
        options = {**way.options, "stream": feed.name, "asOf": "seq:11"}
        columns = ("seq", "subject", "data", "is_later")

        found = batch(options, *columns)
        exact = batch({**options, "asOfExact": "true"}, *columns)

        rows = {
            subject.removeprefix(f"{feed.name}."): (data, late)
            for subject, data, late in zip(
                *(found.column(name).to_pylist() for name in columns[1:]), strict=True
            )
        }
        expected = dict.fromkeys((*keys[:3], *keys[6:9]), (b"then", False))
        assert rows == expected | dict.fromkeys([*keys[3:6], "new"], (b"later", True))
        kept = found.filter(pc.invert(found.column("is_later")))
        assert exact.sort_by("seq").equals(kept.sort_by("seq"))


def test_a_value_that_goes_while_it_is_read_is_left_out_or_marked(
    bucket: Feed, current: Options
) -> None:
    columns = ("seq", "subject", "is_later")
    exact = {**current, "asOfExact": "true"}
    readers = [DefaultSource(one).reader(structure(*columns)) for one in (current, exact)]
    planned = [one.partitions() for one in readers]
    bucket.publish([(key, b"1", b"") for key in KEYS[:10]])

    marked, left_out = (read(*one) for one in zip(readers, planned, strict=True))

    assert (marked.num_rows, left_out.num_rows) == (300, 290)
    assert pc.sum(marked.column("is_later")).as_py() == 10
    assert not pc.any(left_out.column("is_later")).as_py()


def test_the_last_messages_are_those_of_one_state(bucket: Feed, current: Options) -> None:
    transport = open_transport(batch_options(current).connection)
    try:
        found = snapshots.find_latest(transport, bucket.name, (), 300, current=False)
        assert found["seq"].to_pylist() == list(range(1, 301))
    finally:
        transport.close()
