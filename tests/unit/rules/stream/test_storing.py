"""What a committed batch leaves in a stream: limits, roll-ups, sizes, heads."""

# Subject: limits

import pytest

from core.model.stream import Discard, Storage
from core.rules.stream.plans.planner import decide
from core.rules.stream.preconditions import Preconditions
from core.rules.stream.state.subject_index import HistoryIndex
from core.rules.stream.state.subject_search import Searchable
from tests.support.streams import stored_subjects
from tests.unit.rules.stream.support import NOW, SECOND, Stream, block, columns, config, message


def test_deciding_changes_nothing() -> None:
    stream = Stream(max_msgs=1, max_msgs_per_subject=1)
    stream.publish(message("a", Nats_Msg_Id="i"))
    machine = stream.machine
    before = (machine.msgs, machine.bytes, machine.last_seq, list(machine.index.items()))

    decide(machine, columns(message("a", Nats_Rollup="all"), message("b", Nats_Msg_Id="j")), NOW)

    assert (machine.msgs, machine.bytes, machine.last_seq, list(machine.index.items())) == before
    assert machine.dedup.find(b"j", NOW) is None


@pytest.mark.parametrize(
    ("storage", "headers", "size"),
    [
        (Storage.FILE, {}, 30 + 3 + 5),
        (Storage.MEMORY, {}, 16 + 3 + 5),
        (Storage.FILE, {"A": "b"}, 30 + 3 + 5 + 4 + len(block(A="b"))),
        (Storage.MEMORY, {"A": "b"}, 16 + 3 + 5 + len(block(A="b"))),
    ],
)
def test_a_message_counts_as_the_reference_counts_it(
    storage: Storage, headers: dict[str, str], size: int
) -> None:
    stream = Stream(storage=storage)

    stream.one("a.b", b"12345", **headers)

    assert stream.machine.bytes == size


def test_a_batch_without_headers_has_no_column_for_them() -> None:
    stream = Stream()

    stream.publish(message("a"), message("b"))

    assert stream.plan.segment is not None
    assert stream.plan.segment.headers is None


# -- per-subject limits ----------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"X": "y"}])
def test_superseded_messages_of_a_batch_are_never_written(headers: dict[str, str]) -> None:
    stream = Stream(max_msgs_per_subject=1)

    stream.publish(*[message(subject, b"", **headers) for subject in "abababb"])

    assert stream.written == [5, 7]
    assert stream.machine.last_seq == 7
    assert stored_subjects(stream.plan) == [b"a", b"b"]
    assert stream.machine.msgs == 2


def test_a_stored_message_is_replaced_at_limit_one() -> None:
    stream = Stream(max_msgs_per_subject=1)
    stream.publish(message("a", b"xx"), message("b"))

    stream.one("a", b"y")

    assert stream.removed == [1]
    assert stream.machine.bytes == 31 + 32
    assert stream.machine.index.last(b"a") == 3


def test_the_oldest_of_a_subject_goes_at_limit_n() -> None:
    stream = Stream(max_msgs_per_subject=3)
    stream.publish(message("a"), message("a"), message("b"))

    stream.publish(message("a"), message("a"))

    assert stream.removed == [1]
    assert stream.machine.index.of_subject(b"a") == [(2, 31), (4, 31), (5, 31)]


def test_a_batch_of_more_than_the_limit_keeps_its_newest() -> None:
    stream = Stream(max_msgs_per_subject=2)
    stream.one("a")

    stream.publish(message("a"), message("b"), message("a"), message("a"))

    assert stream.written == [1, 3, 4, 5]
    assert stream.removed == [1]
    assert stream.machine.index.count(b"a") == 2


# -- discard old -----------------------------------------------------------------------------


def test_the_oldest_go_when_there_are_too_many() -> None:
    stream = Stream(max_msgs=3)
    stream.publish(message("a"), message("b"))

    stream.publish(message("c"), message("d"))

    assert stream.removed == [1]
    assert stream.machine.first_seq == 2
    assert stream.machine.msgs == 3


def test_nothing_goes_at_exactly_the_limits() -> None:
    stream = Stream(max_msgs=2, max_bytes=62)

    stream.publish(message("a"), message("b"))

    assert stream.machine.msgs == 2
    assert stream.machine.bytes == 62


def test_a_batch_larger_than_max_msgs_writes_only_its_end() -> None:
    stream = Stream(max_msgs=2)
    stream.one("z")

    stream.publish(*[message(s) for s in "abcd"])

    assert stream.written == [1, 4, 5]
    assert stream.machine.first_seq == 4
    assert stream.machine.msgs == 2


def test_a_message_larger_than_max_bytes_empties_the_stream() -> None:
    stream = Stream(max_bytes=100)
    stream.one("a", b"x" * 10)

    assert stream.one("a", b"x" * 300) == 2
    assert stream.machine.msgs == stream.machine.bytes == 0
    assert (stream.machine.first_seq, stream.machine.last_seq) == (3, 2)
    assert stream.written == [1]


def test_an_evicted_subject_is_unknown_again() -> None:
    stream = Stream(max_msgs=1)
    stream.publish(message("a"))
    stream.publish(message("b"))

    assert stream.machine.index.count(b"a") == 0
    assert stream.one("a", Nats_Expected_Last_Subject_Sequence="0") == 3


def test_a_message_goes_at_exactly_its_age() -> None:
    stream = Stream(max_age=10 * SECOND)
    stream.one("a")
    stream.now += 10 * SECOND - 1
    stream.one("b")
    assert stream.removed == []

    stream.now += 1
    stream.one("c")

    assert stream.removed == [1]
    assert stream.machine.first_seq == 2


def test_age_also_removes_from_a_stream_that_discards_new_messages() -> None:
    stream = Stream(max_age=SECOND, discard=Discard.NEW, max_msgs=1)
    stream.one("a")
    stream.now += SECOND
    assert stream.error("b")[1] == 10077

    assert stream.machine.msgs == 0
    assert stream.one("b") == 2


# -- roll-ups --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["sub", "SUB"])
def test_a_roll_up_of_a_subject_leaves_only_itself(value: str) -> None:
    stream = Stream(max_msgs_per_subject=5)
    stream.publish(message("a"), message("b"), message("a"))

    assert stream.one("a", Nats_Rollup=value) == 4
    assert stream.removed == [1, 3]
    assert stream.plan.erased == [1, 3]
    assert stream.machine.msgs == 2


def test_a_roll_up_of_everything_leaves_only_itself() -> None:
    stream = Stream()
    stream.publish(message("a"), message("b"))

    assert stream.one("c", Nats_Rollup="all") == 3
    assert stream.plan.purged_below == 3
    assert stream.machine.msgs == 1
    assert list(stream.machine.index.items()) == [(b"c", 1, 3)]


def test_a_roll_up_replaces_earlier_messages_of_its_batch_only() -> None:
    stream = Stream(max_msgs_per_subject=5)

    stream.publish(message("a"), message("b"), message("a", Nats_Rollup="sub"), message("a"))

    assert stream.written == [2, 3, 4]


def test_a_roll_up_of_everything_in_a_batch_keeps_what_follows() -> None:
    stream = Stream()
    stream.one("z")

    stream.publish(message("a"), message("b", Nats_Rollup="all"), message("c"))

    assert stream.written == [1, 3, 4]
    assert stream.machine.msgs == 2


def test_after_a_roll_up_of_everything_other_subjects_have_no_last_sequence() -> None:
    stream = Stream()
    stream.one("z")

    said = stream.publish(
        message("a", Nats_Rollup="all"), message("z", Nats_Expected_Last_Subject_Sequence="0")
    )

    assert said == [2, 3]


def test_after_a_roll_up_of_everything_its_own_batch_has_no_last_sequence_either() -> None:
    stream = Stream()

    said = stream.publish(
        message("z"),
        message("y", Nats_Expected_Last_Subject_Sequence="0"),
        message("a", Nats_Rollup="all"),
        message("z", Nats_Expected_Last_Subject_Sequence="0"),
    )

    assert said == [1, 2, 3, 4]


def test_ids_of_rolled_up_messages_stay_known() -> None:
    stream = Stream()
    stream.publish(message("a", Nats_Msg_Id="i"), message("a", Nats_Rollup="sub", Nats_Msg_Id="j"))

    assert stream.one("a", Nats_Msg_Id="i") == ("duplicate", 1)
    assert stream.one("a", Nats_Msg_Id="j") == ("duplicate", 2)


def test_a_roll_up_of_a_log_takes_what_storage_knows() -> None:
    stream = Stream()
    stream.publish(message("a"), message("a"))
    preconditions = Preconditions(replaced={b"a": [(1, 31), (2, 31)]})

    plan = decide(stream.machine, columns(message("a", Nats_Rollup="sub")), NOW, preconditions)
    stream.machine.apply(plan.build())

    assert plan.erased == [1, 2]
    assert stream.machine.msgs == 1
    assert stream.machine.index.count(b"a") == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_a_roll_up_on_wildcards_takes_all_that_they_match(limit: int) -> None:
    stream = Stream(max_msgs_per_subject=limit)
    stream.publish(*[message(s) for s in ("k.a", "k.b", "k.a.b", "k", "k.*", "k.>")])

    said = stream.publish(
        message("k.a"),
        message("k.c"),
        message("k.*", Nats_Rollup="sub"),
        message("k.c", Nats_Expected_Last_Subject_Sequence="0"),
        message("k.a", Nats_Expected_Last_Subject_Sequence="0"),
        message("z", Nats_Expected_Last_Subject_Sequence_Subject="k.*",
                Nats_Expected_Last_Subject_Sequence="11"),
    )  # fmt: skip

    assert said == [7, 8, 9, 10, 11, 12]
    assert stream.removed == [1, 2, 5]
    assert set(stream.plan.erased) >= {1, 2}
    assert stream.written[-4:] == [9, 10, 11, 12]
    assert stream.plan.purges == [(b"k.*", 9)]
    assert stream.machine.msgs == 7


def test_messages_that_no_newer_one_replaces_are_erased() -> None:
    stream = Stream(max_msgs_per_subject=1)
    stream.publish(message("k.a"), message("k.b"), message("k.*"))

    stream.publish(message("k.a", Nats_Rollup="sub"), message("k.*", Nats_Rollup="sub"))
    assert (stream.removed, sorted(stream.plan.erased)) == ([1, 2, 3], [1, 2])

    stream.publish(message("k.*", Nats_Rollup="sub"), message("k.a", Nats_Rollup="sub"))
    assert (stream.removed, stream.plan.erased) == ([5], [])
    assert list(stream.machine.index.items()) == [(b"k.*", 1, 6), (b"k.a", 1, 7)]


def test_a_roll_up_on_wildcards_makes_room() -> None:
    stream = Stream(max_msgs=4, discard=Discard.NEW)
    stream.publish(message("k.a"), message("k.b"), message("z"))
    preconditions = Preconditions(replaced={b"k.a": [(1, 33)], b"k.b": [(2, 33)]})
    batch = columns(message("k.*", Nats_Rollup="sub"), message("k.a"), message("k.b"), message("k"))

    plan = decide(stream.machine, batch, NOW, preconditions)
    stream.machine.apply(plan.build())

    assert [b"error" in body for _, body in plan.answers] == [False, False, False, True]
    assert stream.machine.msgs == 4


def test_many_roll_ups_on_wildcards_look_through_the_subjects_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream(max_msgs_per_subject=1)
    stream.publish(*[message(f"k.{n}") for n in range(2000)])
    searched: list[bytes] = []
    search = Searchable.covered

    def counted(index: Searchable, pattern: bytes) -> list[bytes]:
        searched.append(pattern)
        return search(index, pattern)

    monkeypatch.setattr(Searchable, "covered", counted)
    rolled = [message(subject, Nats_Rollup="sub") for subject in ("k.>", "k.*", "k.>") * 500]
    stream.publish(*rolled)

    assert searched == [b"k.>"]
    assert list(stream.machine.index.items()) == [(b"k.>", 1, 3500)]


def test_many_roll_ups_cost_one_pass() -> None:
    stream = Stream(max_msgs_per_subject=1)
    keys = [f"k.{n}" for n in range(2000)]

    said = stream.publish(*[message(key, b"", Nats_Rollup="sub") for key in keys * 2])

    assert said == list(range(1, 4001))
    assert stream.machine.msgs == 2000


# -- plans that are not publishes ------------------------------------------------------------


def test_a_configuration_takes_effect_with_its_plan() -> None:
    stream = Stream()
    stream.publish(message("a"))
    machine = stream.machine
    plan = decide(machine, columns(), NOW)
    plan.config, plan.index = config(max_msgs_per_subject=3), HistoryIndex()
    assert plan.build().changes_head
    assert machine.limit == 0

    machine.apply(plan.build())

    assert machine.limit == 3
    assert machine.index is plan.index


def test_an_empty_batch_changes_nothing() -> None:
    stream = Stream(max_msgs=5)
    stream.one("a")

    plan = decide(stream.machine, columns(), NOW).build()
    assert not plan.changes_head
    with pytest.raises(AttributeError):
        plan.last_seq = 7  # type: ignore[misc]
