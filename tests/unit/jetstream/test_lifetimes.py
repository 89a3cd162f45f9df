"""Messages that expire in a stream over storage: what stays, what comes back, what is marked."""

# Subject: expiry

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from core.jetstream.stream.expiry import find_due
from core.units import NANOS_PER_SECOND
from tests.support.streams import StreamBench, saved
from tests.unit.rules.stream.support import block, config

MARKED = {"subject_delete_marker_ttl": 5 * NANOS_PER_SECOND, "allow_msg_ttl": True}


@pytest.fixture
def make() -> Iterator[Any]:
    benches: list[StreamBench] = []

    def build(**settings: Any) -> StreamBench:
        benches.append(StreamBench(config(**{"allow_msg_ttl": True, **settings}), tail_bytes=1))
        return benches[-1]

    yield build
    for bench in benches:
        bench.close()


def pass_time(bench: StreamBench, seconds: float) -> None:
    bench.clock.time += int(seconds * NANOS_PER_SECOND)
    bench.serve(bench.runner.requests.trim())


def segments_of(bench: StreamBench) -> dict[int, bytes]:
    return {row[0]: row[3] for row in bench.live()}


def test_messages_that_expired_before_a_crash_are_gone_after_it(make: Any) -> None:
    bench = make()
    bench.publish("a", Nats_TTL="1")
    bench.publish("a", Nats_TTL="3")
    bench.publish("b")
    pass_time(bench, 1.1)
    assert bench.seqs() == [2, 3]

    bench.reload()
    pass_time(bench, 2.1)

    assert bench.seqs() == [3]
    assert bench.machine.msgs == bench.store.head.msgs == 1


def test_a_crash_after_the_marker_brings_no_second_marker(make: Any) -> None:
    bench = make(**MARKED)
    bench.publish("a", Nats_TTL="5")
    pass_time(bench, 5)
    assert sorted(bench.store.rows) == [1, 2]

    bench.reload()
    pass_time(bench, 0)

    assert bench.seqs() == [2]


def test_a_marker_that_was_deleted_does_not_come_back(make: Any) -> None:
    bench = make(**MARKED)
    bench.publish("stays")
    bench.publish("a", Nats_TTL="5")
    pass_time(bench, 5.1)
    bench.serve(bench.runner.requests.delete_message(3))

    bench.reload()
    pass_time(bench, 0)

    assert bench.seqs() == [1]
    assert bench.machine.last_seq == 3


def test_rows_leave_storage_in_the_order_their_messages_left_the_stream(make: Any) -> None:
    """What a newer message of its subject replaced must not outlast that message in storage."""
    bench = make(max_msgs_per_subject=1)
    bench.publish("stays")
    bench.publish("z", Nats_TTL="1")
    for _ in range(3):
        bench.publish("k", Nats_TTL="2")
    pass_time(bench, 1.1)
    pass_time(bench, 1.1)
    swept: list[int] = []

    async def delete_rows(stream: int, partition: int, rows: list[int], *_more: object) -> None:
        swept.extend(rows)

    bench.store.delete_rows = delete_rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("core.jetstream.janitor._SCATTERED_ROWS", 1)
        bench.run(bench.janitor.finish(bench.runner.log))

    assert swept == [3, 4, 2, 5]


def test_a_longer_max_age_does_not_bring_back_what_the_shorter_removed(make: Any) -> None:
    bench = make(max_age=NANOS_PER_SECOND)
    bench.publish("a")
    bench.publish("keep", Nats_TTL="never")
    pass_time(bench, 2)
    bench.config = config(allow_msg_ttl=True, max_age=60 * NANOS_PER_SECOND)
    bench.serve(bench.runner.reconfigure(bench.config, saved))

    bench.reload()
    pass_time(bench, 0)

    assert bench.seqs() == [2]


def test_times_to_live_count_from_when_a_stream_allows_them(make: Any) -> None:
    bench = make(allow_msg_ttl=False)
    bench.publish("a")
    headers = block(Nats_TTL="1")
    builder = bench.machine.unchanged()
    bench.machine.store(builder, [b"copied"], [headers], [b""], bench.clock.now())
    plan = builder.build()
    bench.store.commit(plan)
    bench.runner.emit(plan)
    pass_time(bench, 2)
    assert bench.seqs() == [1, 2]

    bench.config = config(allow_msg_ttl=True)
    bench.serve(bench.runner.reconfigure(bench.config, saved))

    assert bench.seqs() == [1]


def test_a_sealed_stream_keeps_what_would_have_to_be_marked(make: Any) -> None:
    bench = make(**MARKED)
    bench.publish("a", Nats_TTL="5")
    bench.publish("b")
    bench.publish("b", Nats_TTL="5")
    bench.config = config(**MARKED, sealed=True)
    bench.serve(bench.runner.reconfigure(bench.config, saved))

    pass_time(bench, 9)

    assert bench.seqs() == [1, 2]


# -- markers of removals -------------------------------------------------------------------------


def removal(reason: str) -> bytes:
    return block(Nats_Marker_Reason=reason, Nats_TTL="5s", Nats_Rollup="sub")


@pytest.mark.parametrize("limit", [-1, 1, 3])
def test_deleting_the_last_message_of_a_subject_leaves_a_marker(make: Any, limit: int) -> None:
    bench = make(**MARKED, metadata={"jetgate.markers": "Remove"}, max_msgs_per_subject=limit)
    bench.publish("a")
    bench.publish("b")

    bench.serve(bench.runner.requests.delete_message(1))

    assert segments_of(bench) == {2: b"", 3: removal("Remove")}
    bench.reload()
    assert segments_of(bench) == {2: b"", 3: removal("Remove")}


def test_deleting_one_of_several_or_a_marker_leaves_none(make: Any) -> None:
    bench = make(**MARKED, metadata={"jetgate.markers": "Remove"})
    bench.publish("a")
    bench.publish("a")
    bench.publish("k", KV_Operation="PURGE")

    bench.serve(bench.runner.requests.delete_message(2))
    bench.serve(bench.runner.requests.delete_message(3))

    assert bench.seqs() == [1]


@pytest.mark.parametrize("limit", [-1, 1, 3])
@pytest.mark.parametrize(
    ("pattern", "seq", "keep", "left", "purged"),
    [
        (None, None, None, {5: b"b", 6: b"a"}, 4),
        ("a", None, None, {2: b"b", 3: b"k", 5: b"a"}, 2),
        (None, 3, None, {3: b"k", 4: b"a", 5: b"b"}, 2),
        (None, None, 1, {4: b"a", 5: b"b"}, 3),
    ],
)
def test_a_purge_marks_the_subjects_that_have_nothing_left(
    make: Any,
    limit: int,
    pattern: str | None,
    seq: int | None,
    keep: int | None,
    left: dict[int, bytes],
    purged: int,
) -> None:
    bench = make(**MARKED, metadata={"jetgate.markers": "Purge"}, max_msgs_per_subject=limit)
    for subject in ("a", "b"):
        bench.publish(subject)
    bench.publish("k", KV_Operation="PURGE")
    bench.publish("a")
    if limit == 1:
        purged -= seq is not None or pattern == "a" or pattern is None

    assert bench.serve(bench.runner.requests.purge(pattern, seq, keep)) == purged

    assert {row[0]: row[2] for row in bench.live()} == left
    new = [row[3] for row in bench.live() if row[0] > 4]
    assert new == [removal("Purge")] * len(new)
    bench.reload()
    assert {row[0]: row[2] for row in bench.live()} == left


def test_without_being_asked_removals_leave_no_markers(make: Any) -> None:
    bench = make(**MARKED)
    bench.publish("a")
    bench.publish("b")

    bench.serve(bench.runner.requests.delete_message(1))
    bench.serve(bench.runner.requests.purge("b", None, None))

    assert bench.seqs() == []
    assert bench.machine.last_seq == 2


def test_the_expected_last_message_may_be_gone_by_then(make: Any) -> None:
    """The group committer had other work for longer than the janitor needs to forget a row."""
    bench = make()
    runner = bench.runner
    bench.publish("a")
    bench.publish("a")
    bench.publish("a", Nats_TTL="1")
    bench.publish("b")
    runner.log.tail.clear(5)
    bench.clock.time += 2 * NANOS_PER_SECOND
    foreseen = bench.run(find_due(runner.log, bench.clock.now()))
    assert foreseen.last_seqs == {b"a": 2}

    bench.serve(runner.requests.delete_message(2))
    bench.run(bench.janitor.finish(runner.log))
    bench.change(partial(runner.requests.plan_expiry, foreseen))

    assert bench.machine.index.last(b"a") == 1
    assert bench.seqs() == [1, 4]
