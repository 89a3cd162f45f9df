"""What a query says about messages that are gone, by the option failOnDataLoss."""

# Subject: Spark rows

import logging
import threading
from collections.abc import Callable

import pytest

from tests.support import spark

spark.require()

from pyspark_jetstream import DefaultSource  # noqa: E402
from pyspark_jetstream.transport.errors import (  # noqa: E402
    DataLoss,
    NotReachedYet,
    StreamNotFound,
    StreamRecreated,
)

from tests.spark.feeds import Feed  # noqa: E402
from tests.spark.readers import Begin, batch, read, seqs, structure  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.natsserver import NatsServer  # noqa: E402

Options = dict[str, str]
Server = JetgateServer | NatsServer


@pytest.fixture(params=["sql", "jetgate", "nats-server"])
def way(request: pytest.FixtureRequest) -> tuple[Server, Options]:
    """A server and how it is reached, every way."""
    if request.param == "sql":
        return request.getfixturevalue("jetgate_server"), {"dsn": request.getfixturevalue("dsn")}
    name = request.param.removesuffix("-server") + "_server"
    started: Server = request.getfixturevalue(name)
    return started, {"servers": "nats://{}:{}".format(*started.address)}


@pytest.fixture
def options(any_way: Options) -> Options:
    """What it takes to read the stream of a test, by SQL and over NATS."""
    return any_way


def relaxed(options: Options) -> Options:
    return {**options, "failOnDataLoss": "false"}


def test_messages_removed_since_the_checkpoint_are_reported(
    feed: Feed, options: Options, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    feed.put(*"ab")
    query = begin({**options, "startingPosition": "earliest"})
    query.next()
    feed.put(*"cdefg")
    feed.purge(seq=6)  # 3, 4 and 5 were never read

    with pytest.raises(
        DataLoss, match=r"sequences 3 to 5 are not stored any more, the first stored one is 6"
    ):
        begin(options, checkpoint=query.offset).next()
    with caplog.at_level(logging.WARNING):
        rows = begin(relaxed(options), checkpoint=query.offset).next()

    assert rows is not None
    assert seqs(rows) == [6, 7]
    assert "sequences 3 to 5 are not stored any more" in caplog.text


def test_a_replay_of_removed_messages_is_reported(
    feed: Feed, options: Options, begin: Begin
) -> None:
    feed.put(*"abcde")
    query = begin({**options, "startingPosition": "earliest"})
    query.next()
    start, end = query.log[0]
    feed.purge(seq=3)

    with pytest.raises(DataLoss, match="sequences 1 to 2"):
        query.between(start, end)
    assert seqs(begin(relaxed(options), end).between(start, end)) == [3, 4, 5]


def test_messages_removed_while_a_batch_runs_are_reported(feed: Feed, options: Options) -> None:
    feed.put(*"abcdef")
    reader = DefaultSource(options).reader(structure())
    planned = reader.partitions()
    feed.purge(seq=4)

    with pytest.raises(DataLoss, match="sequences 1 to 3"):
        read(reader, planned)
    assert seqs(read(DefaultSource(relaxed(options)).reader(structure()), planned)) == [4, 5, 6]


def test_removals_in_between_are_counted_and_fail_only_where_asked(
    feed: Feed, options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    feed.put(*"abcdef")
    feed.remove(2, 4)

    with caplog.at_level(logging.INFO, "pyspark_jetstream"):
        assert seqs(batch(options)) == [1, 3, 5, 6]
    assert "2 of the sequences 1 to 6 are not stored" in caplog.text
    with pytest.raises(DataLoss, match="2 of the sequences 1 to 6 are not stored"):
        batch({**options, "failOnDataLoss": "strict"})


def test_a_stream_that_was_created_again_is_another_one(
    feed: Feed, options: Options, begin: Begin
) -> None:
    feed.put(*"abcd")
    query = begin({**options, "startingPosition": "earliest"})
    query.next()
    feed.delete()
    feed.create()
    feed.put(*"xyz")

    with pytest.raises(StreamRecreated, match="was deleted and created again"):
        begin(options, checkpoint=query.offset).next()
    start, end = query.log[0]
    with pytest.raises(StreamRecreated):
        begin(options, query.offset).between(start, end)

    again = begin(relaxed(options), checkpoint=query.offset)
    rows = again.next()
    assert rows is not None
    assert rows.column("data").to_pylist() == [b"x", b"y", b"z"]
    assert again.between(*again.log[0]).equals(rows)


def test_a_stream_created_again_while_a_batch_runs_is_not_read(
    feed: Feed, options: Options
) -> None:
    feed.put(*"abc")
    reader = DefaultSource(options).reader(structure())
    planned = reader.partitions()
    feed.delete()
    feed.create()
    feed.put(*"xyz")

    with pytest.raises(StreamRecreated):
        read(reader, planned)
    assert seqs(read(DefaultSource(relaxed(options)).reader(structure()), planned)) == []


def test_a_stream_that_was_deleted_is_reported(feed: Feed, options: Options, begin: Begin) -> None:
    feed.put(*"abc")
    query = begin({**options, "startingPosition": "earliest"})
    query.next()
    feed.delete()

    with pytest.raises(StreamNotFound, match=f"stream '{feed.name}' was not found"):
        query.next()


def test_a_stream_that_is_created_again_between_two_polls_is_waited_for(
    feed: Feed, options: Options, begin: Begin
) -> None:
    """A poll, a batch and a task fall between the two; a stream that never was is told at once."""
    feed.put(*"abc")
    query = begin({**relaxed(options), "startingPosition": "earliest"})
    query.next()
    start, end = query.log[0]
    reader = DefaultSource(relaxed(options)).reader(structure())
    planned = reader.partitions()
    steps: list[Callable[[], object]] = [
        query.next,
        lambda: query.between(start, end),
        lambda: read(reader, planned),
    ]
    for step in steps:
        feed.delete()
        timer = threading.Timer(0.4, feed.create)
        timer.start()
        step()
        timer.join()
    feed.put("z")
    rows = query.next()
    assert rows is not None
    assert rows.column("data").to_pylist() == [b"z"]
    never = {**relaxed(options), "stream": "NEVER", "timeout": "1h"}
    stranger = DefaultSource(never).streamReader(structure())
    with pytest.raises(StreamNotFound):
        stranger.initialOffset()
    stranger.stop()


def test_a_position_behind_the_end_is_reported_after_the_time_allowed(
    feed: Feed, options: Options, begin: Begin
) -> None:
    feed.put(*"abc")
    query = begin({**options, "startingPosition": "earliest"})
    query.next()
    later = {"v": 1, "streams": {feed.name: {**query.offset["streams"][feed.name], "seq": 9}}}
    hasty = {**options, "timeout": "1s"}  # also the time of any request over NATS

    with pytest.raises(DataLoss, match="the checkpoint is sequence 9, but the last one is 3"):
        begin(hasty, checkpoint=later).next()
    again = begin(relaxed(hasty), checkpoint=later)
    assert again.next() is None or again.offset["streams"][feed.name]["seq"] == 3
    feed.put("d")
    rows = again.next()
    assert rows is not None
    assert seqs(rows) == [4]


def test_a_start_that_is_gone_and_an_end_that_is_not_there_are_reported(
    feed: Feed, options: Options
) -> None:
    feed.put(*"abcdef")
    feed.purge(seq=4)
    patient = {**options, "timeout": "1h"}  # nothing of this is waited for

    with pytest.raises(DataLoss, match="sequences 2 to 3"):
        batch({**patient, "startingPosition": "seq:2"})
    for option in ("endingPosition", "asOf"):
        told = f"{option} is sequence 99, which is not reached yet: the last one is 6"
        with pytest.raises(NotReachedYet, match=told):
            batch({**patient, option: "seq:99"})
    with pytest.raises(NotReachedYet, match="startingPosition is sequence 99, which is not"):
        batch({**patient, "startingPosition": "seq:99"})
    assert seqs(batch({**relaxed(patient), "startingPosition": "seq:2"})) == [4, 5, 6]
    assert seqs(batch({**relaxed(patient), "endingPosition": "seq:99"})) == [4, 5, 6]


@pytest.mark.parametrize(
    "config",
    [
        {"max_msgs": 3},
        {"max_msgs_per_subject": 1},
        {"max_age": 3_600_000_000_000, "allow_msg_ttl": True},
    ],
)
def test_every_kind_of_stream_gives_what_a_client_sees(
    jetgate_server: JetgateServer, dsn: str, config: dict[str, object]
) -> None:
    with Feed(jetgate_server, **config) as made:
        made.put(*"abcabcd")
        state = made.info()

        found = seqs(batch({"dsn": dsn, "stream": made.name}))

        assert len(found) == state["messages"]
        assert (found[0], found[-1]) == (state["first_seq"], state["last_seq"])


TRIMMED, BETWEEN, OTHER = "trimmed", "between", "another stream"


def _recreate(feed: Feed) -> None:
    feed.delete()
    feed.create()
    feed.put(*"xyzxyz")


def _expire(feed: Feed) -> None:
    assert eventually(lambda: feed.info()["first_seq"] == 3, within=60)


EVENTS: dict[str, tuple[Callable[[Feed], object], str, list[int]]] = {
    "a purge": (lambda feed: feed.purge(seq=3), TRIMMED, [3, 4, 5, 6]),
    "a purge of a subject": (lambda feed: feed.purge(filter=f"{feed.name}.b"), BETWEEN, [1, 3, 6]),
    "a delete": (lambda feed: feed.remove(2, 4), BETWEEN, [1, 3, 5, 6]),
    "an expiry": (_expire, TRIMMED, [3, 4, 5, 6]),
    "a roll-up of a subject": (
        lambda feed: feed.put("b", headers=b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"),
        BETWEEN,
        [1, 3, 6],
    ),
    "a roll-up of all": (
        lambda feed: feed.put("b", headers=b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n"),
        TRIMMED,
        [],
    ),
    "a re-creation": (_recreate, OTHER, []),
}
"""What happens to a stream of a, b, a, b, b, c: what that means, and what is left of it."""


@pytest.mark.parametrize("event", EVENTS)
def test_events_while_a_query_runs_have_the_documented_result(
    way: tuple[Server, Options], event: str
) -> None:
    server, reached = way
    happen, kind, left = EVENTS[event]
    ttl = b"NATS/1.0\r\nNats-TTL: 2s\r\n\r\n" if event == "an expiry" else b""
    with Feed(server, allow_msg_ttl=True, allow_rollup_hdrs=True) as feed:
        options = {**reached, "stream": feed.name}
        batch(options)  # whatever takes long the first time, so that nothing expires before it
        feed.publish([(name, b"", ttl) for name in "ab"] + [(name, b"", b"") for name in "abbc"])
        planned = DefaultSource(options).reader(structure()).partitions()
        happen(feed)

        def found(fail: str) -> list[int] | str:
            given = {**options, "failOnDataLoss": fail}
            try:
                return seqs(read(DefaultSource(given).reader(structure()), planned))
            except StreamRecreated:
                return OTHER
            except DataLoss as error:
                return TRIMMED if "are not stored any more" in str(error) else BETWEEN

        assert found("false") == left
        assert found("true") == (left if kind == BETWEEN else kind)
        assert found("strict") == kind
