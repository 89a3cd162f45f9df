"""What a plan takes of the runs of several origins, and what it leaves."""

# Subject: mirrors and sources

from typing import Any

import pytest

from core.model.stream import Discard
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import Position
from core.rules.stream.plans.sourced import SourcedBatch, SourcedPlan, plan_skip, plan_sourced
from core.rules.stream.preconditions import NO_PRECONDITIONS
from tests.support.streams import stored_subjects
from tests.unit.rules.stream.support import NOW, SECOND, columns, config, message

Message = tuple[bytes, bytes, bytes]


def run_of(key: str, first: int, *messages: Message, step: int = 1) -> SourcedBatch:
    """A run of an origin from a sequence on, `step` apart."""
    seqs = list(range(first, first + step * len(messages), step))
    run = SourcedBatch(key, "one", seqs[-1] if seqs else 0, seqs, [NOW - 100 + seq for seq in seqs])
    run.columns = columns(*messages)
    run.columns.replies = []
    return run


def machine_of(**settings: Any) -> StreamMachine:
    return StreamMachine(config(**{"subjects": (), "allow_rollup_hdrs": False, **settings}))


def copy(machine: StreamMachine, *runs: SourcedBatch, mirrors: bool = False) -> SourcedPlan:
    """Plan and apply."""
    copied = plan_sourced(machine, runs, NOW, NO_PRECONDITIONS, mirrors=mirrors)
    machine.apply(copied.plan.build())
    return copied


def test_a_mirror_keeps_sequences_and_times() -> None:
    machine = machine_of()

    copied = copy(machine, run_of("S", 5, message("a"), message("b"), step=3), mirrors=True)

    segment = copied.plan.segment
    assert segment is not None
    assert (list(segment.seqs), list(segment.times)) == ([5, 8], [NOW - 95, NOW - 92])
    assert (machine.last_seq, machine.last_ts, machine.msgs) == (8, NOW - 92, 2)
    assert copied.plan.positions == []


def test_sources_get_new_sequences_and_leave_positions() -> None:
    machine = machine_of(duplicate_window=0)

    copied = copy(machine, run_of("S", 5, message("a"), message("b")), run_of("T", 2, message("c")))

    segment = copied.plan.segment
    assert segment is not None
    assert (list(segment.seqs), segment.subjects) == ([1, 2, 3], [b"a", b"b", b"c"])
    assert copied.plan.positions == [Position("S", 6, "one"), Position("T", 2, "one")]


def test_duplicates_are_left_out_but_counted_as_copied() -> None:
    machine = machine_of(duplicate_window=SECOND)
    copy(machine, run_of("S", 1, message("a", Nats_Msg_Id="x")))

    copied = copy(
        machine, run_of("T", 7, message("b", Nats_Msg_Id="x"), message("c", Nats_Msg_Id="y"))
    )

    assert (machine.last_seq, stored_subjects(copied.plan.build())) == (2, [b"c"])
    assert copied.plan.positions == [Position("T", 8, "one")]


def test_a_plan_of_duplicates_alone_still_moves_the_position() -> None:
    machine = machine_of(duplicate_window=SECOND)
    copy(machine, run_of("S", 1, message("a", Nats_Msg_Id="x")))

    copied = plan_sourced(
        machine,
        [run_of("S", 2, message("a", Nats_Msg_Id="x"))],
        NOW,
        NO_PRECONDITIONS,
        mirrors=False,
    )

    assert copied.plan.build().changes_head
    assert copied.plan.last_seq == copied.plan.before
    assert copied.plan.positions == [Position("S", 2, "one")]


def test_a_mirror_keeps_duplicates() -> None:
    machine = machine_of(duplicate_window=SECOND)

    copy(
        machine,
        run_of("S", 1, message("a", Nats_Msg_Id="x"), message("a", Nats_Msg_Id="x")),
        mirrors=True,
    )

    assert machine.msgs == 2


def test_a_message_without_room_ends_its_run_and_no_other() -> None:
    machine = machine_of(max_msg_size=4, duplicate_window=0)
    large = message("a", b"too large")

    copied = copy(
        machine,
        run_of("S", 1, message("a", b"1"), large, message("a", b"3")),
        run_of("T", 1, message("b", b"1"), message("b", b"2")),
    )

    assert stored_subjects(copied.plan.build()) == [b"a", b"b", b"b"]
    assert {place: error.err_code for place, error in copied.stalled.items()} == {0: 10054}
    assert copied.plan.positions == [Position("S", 1, "one"), Position("T", 2, "one")]
    assert [len(run) for run in copied.batches] == [1, 2]


NEVER_STORED = message("a", Filler="x" * 65536), (b"a" * 65536, b"", b"")
"""Messages that no configuration lets a stream take."""


@pytest.mark.parametrize("never", NEVER_STORED)
def test_a_message_that_can_never_be_stored_blocks_nothing(never: Message) -> None:
    machine = machine_of(duplicate_window=0)

    copied = copy(
        machine,
        run_of("S", 1, message("a"), never, message("b")),
        run_of("T", 1, never),
    )

    assert stored_subjects(copied.plan.build()) == [b"a", b"b"]
    assert [*copied.left_out] == [(0, 2), (1, 1)]
    assert copied.stalled == {}
    assert copied.plan.positions == [Position("S", 3, "one"), Position("T", 1, "one")]


@pytest.mark.parametrize("never", NEVER_STORED)
def test_a_mirror_has_a_gap_for_what_can_never_be_stored(never: Message) -> None:
    machine = machine_of()

    copied = copy(machine, run_of("S", 5, never, message("a"), never, never), mirrors=True)

    assert copied.plan.segment is not None
    assert list(copied.plan.segment.seqs) == [6]
    assert [seq for _, seq in copied.left_out] == [5, 7, 8]
    assert (machine.first_seq, machine.last_seq, machine.msgs) == (6, 8, 1)
    copy(machine, run_of("S", 9, never), mirrors=True)
    assert (machine.last_seq, machine.msgs) == (9, 1)


def test_an_empty_mirror_goes_past_what_can_never_be_stored() -> None:
    machine = machine_of()

    copy(machine, run_of("S", 5, NEVER_STORED[0]), mirrors=True)

    assert (machine.first_seq, machine.last_seq, machine.msgs) == (6, 5, 0)


def test_a_run_of_which_nothing_may_be_left_out_ends_there() -> None:
    machine = machine_of(duplicate_window=0)
    run = run_of("dead S C", 1, message("a"), NEVER_STORED[1], message("b"))

    copied = plan_sourced(machine, [run], NOW, NO_PRECONDITIONS, mirrors=False, leaves_out=False)

    assert copied.left_out == {}
    assert [*copied.stalled] == [0]
    assert copied.plan.positions == [Position("dead S C", 1, "one")]


def test_messages_left_out_before_one_without_room_stay_left_out() -> None:
    machine = machine_of(max_msg_size=65600, duplicate_window=0)
    never, large = (b"a" * 65536, b"", b""), message("a", bytes(65601))

    copied = copy(machine, run_of("S", 1, message("a"), never, large, never))

    assert [*copied.left_out] == [(0, 2)]
    assert [*copied.stalled] == [0]
    assert copied.plan.positions == [Position("S", 2, "one")]


def test_a_run_that_ends_at_once_leaves_no_position() -> None:
    machine = machine_of(max_msg_size=1, duplicate_window=0)

    copied = copy(machine, run_of("S", 3, message("a", b"too large")))

    assert copied.plan.positions == []
    assert not copied.plan.build().changes_head


def test_a_stream_that_discards_new_messages_takes_what_fits() -> None:
    machine = machine_of(max_msgs=2, discard=Discard.NEW, duplicate_window=0)

    copied = copy(machine, run_of("S", 1, message("a"), message("b"), message("c")))

    assert machine.msgs == 2
    assert copied.stalled[0].description == "maximum messages exceeded"


def test_expectations_and_batches_are_not_looked_at() -> None:
    machine = machine_of(duplicate_window=SECOND)
    headers = {
        "Nats_Expected_Last_Sequence": "77",
        "Nats_Batch_Id": "b",
        "Nats_Incr": "nonsense",
        "Nats_Schedule": "@at nonsense",
    }

    copied = copy(machine, run_of("S", 1, message("a", **headers)))

    assert (machine.msgs, copied.stalled) == (1, {})


def test_roll_ups_count_where_they_are_allowed() -> None:
    plain, rolling = (
        machine_of(duplicate_window=0, allow_rollup_hdrs=allowed) for allowed in (False, True)
    )
    messages = message("a", b"1"), message("b", b"1"), message("a", b"2", Nats_Rollup="all")

    for machine in (plain, rolling):
        copy(machine, run_of("S", 1, *messages))

    assert (plain.msgs, rolling.msgs) == (3, 1)


def test_sequences_before_the_first_of_an_origin_are_skipped() -> None:
    machine = machine_of()

    machine.apply(plan_skip(machine, 41).build())
    assert (machine.first_seq, machine.last_seq, machine.msgs) == (42, 41, 0)

    copy(machine, run_of("S", 42, message("a")), mirrors=True)
    machine.apply(plan_skip(machine, 50).build())
    assert (machine.first_seq, machine.last_seq, machine.msgs) == (42, 50, 1)


def test_runs_are_cut_by_sequence() -> None:
    run = run_of("S", 3, message("a"), message("b"), message("c"))
    run.through = 9

    assert (run.after(3).seqs, run.after(3).through) == ([4, 5], 9)
    assert (run.after(7).seqs, run.after(7).through) == ([], 9)
    assert (run.part(0, 2).seqs, run.part(0, 2).through) == ([3, 4], 4)


def test_a_run_that_is_known_already_moves_nothing_back() -> None:
    known = run_of("S", 3, message("a")).after(7)
    nothing = run_of("S", 3).after(7)

    assert (known.seqs, known.through) == ([], 7)
    assert (nothing.seqs, nothing.through) == ([], 7)
