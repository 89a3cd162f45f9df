"""Where reading begins and ends, and that a checkpoint is read again exactly."""

# Subject: Spark rows

import json
from typing import Any

import pytest

from tests.support import spark

spark.require()

from tests.spark.feeds import Feed  # noqa: E402
from tests.spark.readers import Begin, batch, seqs  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402


def rfc3339(ns: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def times(options: dict[str, str]) -> list[int]:
    found: list[int] = batch(options, "timestamp_ns").column("timestamp_ns").to_pylist()
    return found


@pytest.fixture
def options(any_way: dict[str, str]) -> dict[str, str]:
    """What it takes to read the stream of a test, by SQL and over NATS."""
    return any_way


def test_a_batch_is_the_whole_log_by_default(feed: Feed, options: dict[str, str]) -> None:
    feed.put("a", "b", "c")

    rows = batch(options)

    assert seqs(rows) == [1, 2, 3]
    assert rows.column("subject").to_pylist() == [f"{feed.name}.{one}" for one in "abc"]
    assert rows.column("data").to_pylist() == [b"a", b"b", b"c"]
    assert rows.column("stream").to_pylist() == [feed.name] * 3


def test_an_empty_stream_has_no_rows(options: dict[str, str]) -> None:
    assert seqs(batch(options)) == []


def test_both_ends_may_be_sequences(feed: Feed, options: dict[str, str]) -> None:
    feed.put(*"abcdef")

    def between(start: str, end: str) -> list[int]:
        return seqs(batch({**options, "startingPosition": start, "endingPosition": end}))

    assert between("seq:2", "seq:4") == [2, 3, 4]
    assert between("seq:4", "latest") == [4, 5, 6]
    assert between("earliest", "seq:1") == [1]
    assert between("latest", "latest") == []
    assert between("seq:7", "latest") == []


def test_both_ends_may_be_times(feed: Feed, options: dict[str, str]) -> None:
    for subject in "abcd":
        feed.put(subject)
    at = times(options)

    def between(start: int, end: int) -> list[int]:
        found = {"startingPosition": f"time:{rfc3339(start)}", "endingPosition": "latest"}
        return seqs(batch({**options, **found, "endingPosition": f"time:{rfc3339(end)}"}))

    assert between(at[1], at[3]) == [2, 3]  # the end does not belong to it
    assert between(at[1] + 1, at[3] + 1) == [3, 4]
    assert between(at[3] + 1, at[3] + 10**12) == []


def test_reading_can_begin_with_the_last_message_of_each_subject(
    feed: Feed, options: dict[str, str]
) -> None:
    feed.put("a", "b", "a", "c", "b")

    rows = batch({**options, "startingPosition": "lastPerSubject"})

    assert sorted(seqs(rows)) == [3, 4, 5]


def test_several_streams_have_their_own_positions(
    jetgate_server: JetgateServer, feed: Feed, options: dict[str, str]
) -> None:
    with Feed(jetgate_server) as other:
        feed.put(*"abc")
        other.put(*"xyz")
        start = json.dumps({feed.name: 3, other.name: "seq:2"})

        rows = batch(
            {**options, "stream": f"{feed.name},{other.name}", "startingPosition": start}
        ).to_pylist()

        assert [(one["stream"], one["seq"]) for one in rows] == [
            (feed.name, 3),
            (other.name, 2),
            (other.name, 3),
        ]


def test_filters_are_evaluated_at_the_source(feed: Feed, options: dict[str, str]) -> None:
    feed.put("eu.new", "us.new", "eu.old", "eu.new.late", "asia", "it's", "a\\b", "*.new")

    def found(*filters: str) -> list[int]:
        given = ",".join(f"{feed.name}.{one}" for one in filters)
        return seqs(batch({**options, "filterSubjects": given}))

    assert found("eu.*") == [1, 3]
    assert found("*.new") == [1, 2, 8]
    assert found("eu.>", "asia") == [1, 3, 4, 5]
    assert found("it's", "a\\b") == [6, 7]
    assert found("*.new.>") == [4]
    assert found("none") == []


def test_nothing_that_a_batch_planned_is_read_twice_or_left_out(
    feed: Feed, options: dict[str, str]
) -> None:
    feed.put(*(str(one) for one in range(100)))
    many = {**options, "minPartitions": "3", "maxMessagesPerPartition": "7"}

    assert seqs(batch(many)) == list(range(1, 101))


def test_a_stream_begins_with_what_is_new(
    feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    feed.put("a", "b")
    query = begin(options)

    first = query.next()  # empty, so that the checkpoint knows the place
    feed.put("c")
    second = query.next()

    assert first is not None
    assert second is not None
    assert seqs(first) == []
    assert seqs(second) == [3]
    assert query.next() is None


def test_a_batch_is_read_again_exactly(feed: Feed, options: dict[str, str], begin: Begin) -> None:
    feed.put(*"abcd")
    query = begin({**options, "startingPosition": "earliest", "maxMessagesPerTrigger": "3"})
    first, second = query.next(), query.next()
    feed.put(*"efgh")

    again = begin(options, checkpoint=query.offset)
    repeated = [again.between(start, end) for start, end in query.log]

    assert [one.to_pylist() for one in repeated] == [
        one.to_pylist() for one in (first, second) if one is not None
    ]
    last = again.next()
    assert last is not None
    assert seqs(last) == [5, 6, 7, 8]


def test_the_first_batch_begins_where_it_began_although_more_came_since(
    feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    """Spark asks for the initial offset again when the first batch was not committed."""
    feed.put("a", "b")
    query = begin(options)  # from the latest
    feed.put("c", "d")
    assert query.next() is not None
    end = query.offset

    feed.put("e")
    restarted = begin(options)

    assert restarted.offset != query.log[0][0]
    assert seqs(restarted.between(restarted.offset, end)) == [3, 4]


def test_a_stream_that_begins_with_last_messages_goes_on_with_the_log(
    feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    feed.put("a", "b", "a", "c", "b")
    limited = {"startingPosition": "lastPerSubject", "maxMessagesPerTrigger": "2"}
    query = begin({**options, **limited})
    feed.put("a", "a")

    batches = [seqs(one) for one in query]

    assert batches == [[3, 4], [5], [6, 7]]


def test_limits_count_rows_that_match(feed: Feed, options: dict[str, str], begin: Begin) -> None:
    feed.put(*(["no"] * 7 + ["yes"]) * 5)
    limited = {"filterSubjects": f"{feed.name}.yes", "maxMessagesPerTrigger": "2"}
    query = begin({**options, **limited, "startingPosition": "earliest"})

    batches = [seqs(one) for one in query]

    if "dsn" in options:
        assert batches == [[8, 16], [24, 32], [40]]
    else:  # what matches is not counted, so there are at most so many, and one at least
        assert [len(one) in (1, 2) for one in batches] == [True] * len(batches)
        assert [seq for one in batches for seq in one] == [8, 16, 24, 32, 40]


def test_limits_count_bytes_and_a_batch_has_a_message_at_least(
    feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    sizes = [10, 10, 10, 500, 10, 10]
    feed.publish([("a", b"x" * size, b"") for size in sizes])
    both = {"maxBytesPerTrigger": "25", "maxMessagesPerTrigger": "100"}
    for limits in (both, {"maxBytesPerTrigger": "25"}):
        query = begin({**options, **limits, "startingPosition": "earliest"})

        batches = [seqs(one) for one in query]

        if "dsn" in options:
            assert batches == [[1, 2], [3], [4], [5, 6]]
        else:  # bytes are estimated by the mean size, in which subjects count, too
            assert batches == [[1], [2], [3], [4], [5], [6]]


def test_a_limit_is_shared_by_streams(
    jetgate_server: JetgateServer, feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    with Feed(jetgate_server) as other:
        feed.put(*["a"] * 30)
        other.put(*["a"] * 10)
        both = {"stream": f"{feed.name},{other.name}", "startingPosition": "earliest"}
        query = begin({**options, **both, "maxMessagesPerTrigger": "8"})

        first = query.next()

        assert first is not None
        assert first.column("stream").to_pylist() == [feed.name] * 6 + [other.name] * 2
        read = first.num_rows + sum(one.num_rows for one in query)
        assert read == 40


def test_everything_that_is_available_now_and_no_more(
    feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    feed.put(*"abcde")
    query = begin({**options, "startingPosition": "earliest", "maxMessagesPerTrigger": "2"})
    query.reader.prepareForTriggerAvailableNow()
    feed.put(*"fgh")

    batches = [seqs(one) for one in query]

    assert batches == [[1, 2], [3, 4], [5]]


def test_the_progress_shows_the_lag_of_the_query(
    feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    feed.put(*"abcde")
    feed.remove(4)
    query = begin({**options, "startingPosition": "earliest", "maxMessagesPerTrigger": "2"})
    query.next()

    latest: dict[str, Any] = query.reader.reportLatestOffset() or {}

    told = latest["streams"][feed.name]
    assert told.pop("incarnation") == query.offset["streams"][feed.name]["incarnation"]
    assert 0 < told.pop("lag_seconds") < 300
    assert told == {"first_seq": 1, "last_seq": 5, "messages": 4, "num_deleted": 1, "lag": 3}


def test_a_stream_that_joins_a_query_begins_at_the_option(
    jetgate_server: JetgateServer, feed: Feed, options: dict[str, str], begin: Begin
) -> None:
    feed.put(*"ab")
    query = begin({**options, "startingPosition": "earliest"})
    query.next()
    with Feed(jetgate_server) as other:
        other.put(*"xy")
        both = {"stream": f"{feed.name},{other.name}", "startingPosition": "earliest"}
        joined = begin({**options, **both}, checkpoint=query.offset)

        rows = joined.next()

        assert rows is not None
        assert rows.column("stream").to_pylist() == [other.name] * 2
        start, end = joined.log[0]
        assert joined.between(start, end).equals(rows)


def test_a_stream_that_is_not_there_is_reported_by_name(options: dict[str, str]) -> None:
    from pyspark_jetstream.transport.errors import StreamNotFound

    with pytest.raises(
        StreamNotFound, match=r"stream 'NOT_HERE' was not found (in account|at nats)"
    ):
        batch({**options, "stream": "NOT_HERE"})
