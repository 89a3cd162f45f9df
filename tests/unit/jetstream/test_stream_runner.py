"""One stream over storage: what is gone stays gone, what is answered is true."""

# Subject: deduplication

from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import ApiError
from core.jetstream.log.subjects import last_by_subject
from core.model.api_errors import api_error
from core.rules.stream.plan import StreamPlan
from tests.support.streams import StreamBench, saved
from tests.unit.rules.stream.support import block, config

SECOND = 1_000_000_000


@pytest.fixture
def benches() -> Iterator[list[StreamBench]]:
    made: list[StreamBench] = []
    yield made
    for bench in made:
        bench.close()


@pytest.fixture
def make(benches: list[StreamBench]) -> Any:
    def build(**settings: Any) -> StreamBench:
        bench = StreamBench(config(**settings), tail_bytes=1)
        benches.append(bench)
        return bench

    return build


@pytest.mark.parametrize("limit", [-1, 1, 3])
def test_rolled_up_messages_do_not_come_back_after_a_crash(make: Any, limit: int) -> None:
    bench = make(max_msgs_per_subject=limit)
    bench.publish("a", "b", "a")
    bench.publish("a", Nats_Rollup="sub")

    bench.reload()

    assert bench.seqs() == [2, 4]
    assert bench.machine.msgs == 2


@pytest.mark.parametrize("limit", [-1, 1, 3])
@pytest.mark.parametrize("count", [3, 100])
def test_messages_rolled_up_by_wildcards_do_not_come_back_after_a_crash(
    make: Any, limit: int, count: int
) -> None:
    """Few subjects are looked up one by one, for many all messages are looked through."""
    bench = make(max_msgs_per_subject=limit)
    bench.publish(*(f"k.{n}" for n in range(count)), "k.1", "z", "k.*", "k.1.a")
    bench.publish("k.*", Nats_Rollup="sub")
    left = [count + 2, count + 4, count + 5]
    assert bench.seqs() == left

    bench.reload()

    assert bench.seqs() == left
    assert bench.machine.msgs == 3
    assert sorted(s for s, _, _ in bench.machine.index.items()) == [b"k.*", b"k.1.a", b"z"]


def test_a_deleted_message_does_not_come_back_after_a_crash(make: Any) -> None:
    bench = make()
    bench.publish("a", "a", "a")
    bench.serve(bench.runner.requests.delete_message(2))

    bench.reload()

    assert bench.seqs() == [1, 3]


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("purges", [False, True])
def test_superseded_messages_do_not_come_back_when_their_successor_is_removed(
    make: Any, limit: int, purges: bool
) -> None:
    bench = make(max_msgs_per_subject=limit)
    for _ in range(3):
        bench.publish("a")
    if purges:
        bench.serve(bench.runner.requests.purge("a", None, None))
    else:
        bench.serve(bench.runner.requests.delete_message(3))

    bench.reload()

    assert bench.seqs() == ([2] if limit == 2 and not purges else [])


@pytest.mark.parametrize(
    ("pattern", "seq", "keep", "left"),
    [
        (None, None, None, []),
        (None, 3, None, [3, 4]),
        (None, None, 1, [4]),
        ("a", None, None, [2, 4]),
        ("a", 2, None, [2, 3, 4]),
        ("a", None, 1, [2, 3, 4]),
        ("*", None, 2, [3, 4]),
        ("c", None, None, [1, 2, 3, 4]),
    ],
)
def test_purged_messages_do_not_come_back_after_a_crash(
    make: Any, pattern: str | None, seq: int | None, keep: int | None, left: list[int]
) -> None:
    bench = make()
    bench.publish("a", "b", "a", "b")
    purged = bench.serve(bench.runner.requests.purge(pattern, seq, keep))

    bench.reload()

    assert purged == 4 - len(left)
    assert bench.seqs() == left
    assert bench.machine.last_seq == 4


def test_superseded_messages_do_not_come_back_when_the_limit_is_raised(make: Any) -> None:
    bench = make(max_msgs_per_subject=1)
    bench.publish("a")
    bench.publish("a")

    bench.serve(bench.runner.reconfigure(config(max_msgs_per_subject=5), saved))

    assert bench.seqs() == [2]
    assert bench.machine.index.of_subject(b"a") == [(2, 32)]


def test_a_limit_that_is_added_later_trims_what_is_there(make: Any) -> None:
    bench = make()
    bench.publish("a", "a", "b")

    bench.serve(bench.runner.reconfigure(config(max_msgs_per_subject=1), saved))

    assert bench.seqs() == [2, 3]


def test_an_emptied_stream_keeps_its_last_sequence_over_two_restarts(make: Any) -> None:
    bench = make(max_age=SECOND)
    bench.publish("a", "a")
    bench.clock.time += 2 * SECOND
    bench.serve(bench.runner.requests.trim())
    for _ in range(2):
        bench.reload()

    state = bench.run(bench.runner.info()).state

    assert (state.messages, state.first_seq, state.last_seq) == (0, 3, 2)


def test_ids_are_known_again_after_a_crash_for_as_long_as_before(make: Any) -> None:
    bench = make(duplicate_window=10 * SECOND)
    bench.publish("a", Nats_Msg_Id="i")
    bench.clock.time += 10 * SECOND - 1
    bench.reload()

    bench.gather(b"a", b"", block(Nats_Msg_Id="i"), b"reply.1")
    bench.flush()
    bench.clock.time += 1
    bench.gather(b"a", b"", block(Nats_Msg_Id="i"), b"reply.2")
    bench.flush()

    assert bench.answers[b"reply.1"] == b'{"stream":"S","seq":1,"duplicate": true}'
    assert bench.answers[b"reply.2"] == b'{"stream":"S","seq":2}'


def test_the_last_message_id_is_known_again_after_a_crash(make: Any) -> None:
    bench = make()
    bench.publish("a", Nats_Msg_Id="i")

    bench.reload()

    assert bench.machine.last_msg_id == b"i"


def test_the_last_of_a_subject_is_its_neighbour_once_it_is_deleted(make: Any) -> None:
    bench = make()
    bench.publish("a", "b", "a", "b")

    bench.serve(bench.runner.requests.delete_message(3))

    found = bench.run(last_by_subject(bench.runner.log, b"a"))
    assert found is not None
    assert found[0] == 1
    bench.gather(b"a", b"", block(Nats_Expected_Last_Subject_Sequence="1"), b"reply.1")
    bench.flush()
    assert bench.answers[b"reply.1"] == b'{"stream":"S","seq":5}'


def test_deleting_the_last_message_does_not_lower_the_last_sequence(make: Any) -> None:
    bench = make()
    bench.publish("a", "a")

    bench.serve(bench.runner.requests.delete_message(2))
    bench.publish("a")

    assert bench.seqs() == [1, 3]


@pytest.mark.parametrize("seq", [0, 9])
def test_missing_messages_cannot_be_deleted(make: Any, seq: int) -> None:
    bench = make()
    bench.publish("a")

    with pytest.raises(ApiError) as refused:
        bench.serve(bench.runner.requests.delete_message(seq))

    assert refused.value.err_code == 10057


def test_a_refused_commit_is_refused_to_every_publisher_and_changes_nothing(make: Any) -> None:
    bench = make()
    bench.publish("a", Nats_Msg_Id="old")
    bench.gather(b"a", b"", block(Nats_Msg_Id="i"), b"reply.1")
    bench.gather(b"a", b"", block(Nats_Msg_Id="i"), b"reply.2")
    bench.gather(b"a", b"", block(Nats_Msg_Id="old"), b"reply.3")
    bench.gather(b"a", b"", block(Nats_TTL="x"), b"reply.4")

    bench.flush(refused=api_error("JSStreamStoreFailed", err="disk full"))

    codes = [b'"err_code":10077', b'"err_code":10077', b'"duplicate": true', b'"err_code":10165']
    for place, code in enumerate(codes, 1):
        assert code in bench.answers[b"reply.%d" % place]
    assert bench.seqs() == [1]
    bench.publish("a", Nats_Msg_Id="i")
    assert bench.seqs() == [1, 2]


def test_swept_messages_are_no_longer_recorded_as_removed(make: Any) -> None:
    bench = make()
    bench.publish(*["a"] * 100)
    bench.publish(*["a"] * 100)
    bench.serve(bench.runner.requests.delete_message(5))
    assert bench.runner.log.removed.hidden == {5}

    bench.run(bench.janitor.finish(bench.runner.log))

    assert bench.runner.log.removed.hidden == set()


def test_a_stream_that_acknowledges_nothing_answers_no_publish(make: Any) -> None:
    bench = make(no_ack=True)
    bench.gather(b"a", b"", b"", b"reply.1")
    bench.gather(b"a", b"", block(Nats_TTL="x"), b"reply.2")
    bench.flush()
    bench.gather(b"a", b"", b"", b"reply.3")
    bench.flush()

    assert bench.answers == {}
    assert bench.seqs() == [1, 2]


def test_more_old_messages_than_the_front_window_holds_are_loaded(make: Any) -> None:
    bench = make(max_msgs=4)
    bench.publish(*"abcd")
    bench.reload()

    bench.publish("e", "f")

    assert bench.seqs() == [3, 4, 5, 6]
    assert bench.machine.first_seq == 3


def test_a_limit_reaches_past_rows_that_wait_for_the_janitor(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.jetstream.log.stream_log._OLDEST_PAGE", 2)
    bench = make(max_msgs_per_subject=1)
    bench.publish(*"abcd")
    bench.publish(*"abcdef")

    changed = config(max_msgs_per_subject=1, max_msgs=2)
    bench.serve(bench.runner.reconfigure(changed, saved))

    assert bench.seqs() == [9, 10]
    assert bench.machine.msgs == 2


def test_publishes_and_changes_take_turns(make: Any) -> None:
    """A change that is always there, as while a batch is promoted, starves no publisher."""
    bench = make()
    order: list[str] = []

    async def change(_now: int) -> StreamPlan:
        order.append("change")
        return bench.machine.unchanged()  # type: ignore[no-any-return]  # the machine is not typed

    async def step() -> None:
        for _ in range(6):
            bench.runner.submit(change)
            bench.gather(b"a", b"x")
            before = bench.machine.last_seq
            await bench.step()
            if bench.machine.last_seq > before:
                order.append("publish")

    bench.run(step())
    bench.flush()

    assert order[:6] == ["change", "publish"] * 3
