"""Schedules in a stream: what plans store, end and send."""

# Subject: schedules

from typing import Any

from core.rules.stream.headers import find
from core.rules.stream.plans.scheduled import Firing, outputs, plan_firings
from core.rules.stream.preconditions import NO_PRECONDITIONS
from core.rules.stream.schedules.pending import NEVER, Pending, Schedules, schedule_of
from tests.unit.rules.stream.support import NOW, SECOND, Stream, block, message

LATER = "@at 2099-01-01T00:00:00Z"


def scheduled(subject: str, pattern: str = LATER, **headers: str) -> tuple[bytes, bytes, bytes]:
    return message(
        subject, b"x", **{"Nats_Schedule": pattern, "Nats_Schedule_Target": "out", **headers}
    )


def stream(**settings: Any) -> Stream:
    return Stream(allow_msg_schedules=True, subjects=(">",), **settings)


def known(made: Stream) -> Schedules:
    schedules = made.machine.schedules
    assert schedules is not None, "the stream allows schedules"
    return schedules


def ends(subject: str, **headers: str) -> tuple[bytes, bytes, bytes]:
    return message("other", b"", Nats_Schedule_Next="purge", Nats_Scheduler=subject, **headers)


def test_the_newest_schedule_of_a_subject_counts() -> None:
    for limit in (-1, 1, 2):
        made = stream(max_msgs_per_subject=limit)
        assert made.publish(scheduled("a"), scheduled("a"), scheduled("b")) == [1, 2, 3]
        assert (known(made).seq_of(b"a"), known(made).seq_of(b"b")) == (2, 3)
        assert made.written == [2, 3]
        made.publish(scheduled("a"))
        assert known(made).seq_of(b"a") == 4
        assert len(known(made)) == 2


def test_something_else_on_its_subject_ends_a_schedule() -> None:
    made = stream()
    made.publish(scheduled("a"), scheduled("b"), scheduled("c"))

    made.publish(message("a"))
    made.publish(message("b", b"", X="y"))

    assert len(known(made)) == 1


def test_a_schedule_that_is_over_may_still_be_cancelled() -> None:
    """The newest message of its subject is one again, once what ended it is deleted."""
    made = stream(max_msgs_per_subject=2)
    made.publish(scheduled("a"), message("a"))
    plan = made.machine.unchanged()
    made.machine.remove(plan, 2, b"a", dict(made.machine.index.of_subject(b"a") or ())[2])
    made.machine.apply(plan.build())

    assert made.publish(ends("a")) == [3]
    assert made.removed == [1]


def test_cancelling_within_one_batch() -> None:
    made = stream(max_msgs_per_subject=1)

    said = made.publish(
        scheduled("a"), ends("a"), message("p", b"", Nats_Expected_Last_Subject_Sequence="0"),
        ends("p"), scheduled("p"), ends("p"), message("a", b"plain"), ends("a"),
    )  # fmt: skip

    refused = (400, 10212, "message schedules invalid scheduler")
    assert said == [1, 2, 3, refused, 4, 5, 6, refused]
    assert len(known(made)) == 0
    assert made.written == [5, 6], "each subject keeps its newest, what was ended has none"


def test_cancelled_schedules_are_erased_with_the_same_plan() -> None:
    for limit in (1, 2):
        made = stream(max_msgs_per_subject=limit)
        made.publish(scheduled("a"))
        made.publish(ends("a"))
        assert (made.removed, made.plan.erased) == ([1], [1])
        assert len(known(made)) == 0


def test_size_is_checked_with_the_roll_up() -> None:
    _, bare, payload = scheduled("a")
    exact = len(bare) + len(payload) + len("Nats-Rollup: sub\r\n")

    assert stream(max_msg_size=exact).publish(scheduled("a")) == [1]
    ((_, number, _),) = stream(max_msg_size=exact - 1).publish(scheduled("a"))
    assert number == 10054


def fire(made: Stream, *subjects: bytes, payload: bytes = b"x") -> list[bytes]:
    """Send what is due on some subjects; return why some of it was refused."""
    firings = []
    for pending in known(made).due(made.now, 10):
        if pending.subject in subjects:
            headers = block(
                Nats_Schedule="@every 5s" if pending.subject == b"e" else LATER,
                Nats_Schedule_Target="out",
            )
            schedule = schedule_of(headers)
            assert schedule is not None, "it was read before"
            firing = Firing(pending, schedule, headers, payload)
            firing.copy(0, headers, payload)
            firings.append(firing)
    columns = outputs(firings, made.now)
    plan, refused = plan_firings(made.machine, firings, columns, made.now, NO_PRECONDITIONS)
    made.plan = plan.build()
    made.machine.apply(made.plan)
    return refused


def test_firing_is_one_plan() -> None:
    made = stream(max_msgs_per_subject=3)
    made.publish(scheduled("a", "@at 1970-01-01T00:00:01Z"), scheduled("e", "@every 5s"))
    made.now += 60 * SECOND

    assert fire(made, b"a", b"e") == []

    segment = made.plan.segment
    assert segment is not None
    assert segment.headers is not None
    nexts = [find(headers or b"", b"Nats-Schedule-Next") for headers in segment.headers]
    assert nexts == [b"purge", b"1970-01-01T00:17:45Z"]
    assert made.plan.erased == [1]
    assert made.plan.firings == [Pending(b"e", 2, NOW + 65 * SECOND)]
    assert (known(made).next_due(), len(known(made))) == (NOW + 65 * SECOND, 1)


def test_messages_that_the_stream_refuses_are_sent_later() -> None:
    made = stream(max_msg_size=150)
    made.publish(scheduled("a", "@at 1970-01-01T00:00:01Z"), scheduled("e", "@every 5s"))
    made.now += 60 * SECOND

    refused = fire(made, b"a", b"e", payload=b"x" * 150)

    assert len(refused) == 2
    assert made.plan.segment is None
    assert made.plan.changes_head
    dues = [pending.due - made.now for pending in made.plan.firings]
    assert dues == [60 * SECOND, 5 * SECOND]


def test_pending_schedules() -> None:
    schedules = Schedules()
    schedules.add(b"a", 1, 30)
    schedules.add(b"b", 2, 10)
    schedules.add(b"c", 3, None)

    assert schedules.next_due() == 10
    assert [p.subject for p in schedules.due(30, 10)] == [b"a", b"b"]
    assert [p.subject for p in schedules.due(30, 1)] == [b"b"]
    assert schedules.due(9, 10) == []
    schedules.move(Pending(b"b", 2, 40))
    schedules.move(Pending(b"a", 9, 1))
    assert schedules.next_due() == 30
    schedules.end(Pending(b"a", 9, 30))
    schedules.forget([(1, b"a", 0), (1, b"b", 0)])
    assert schedules.next_due() == 40
    schedules.move(Pending(b"b", 2, NEVER))
    assert schedules.next_due() is None
    assert len(schedules) == 0
    schedules.purged(3)
    assert (schedules.seq_of(b"b"), schedules.seq_of(b"c")) == (0, 3)


def test_replacing_a_schedule_for_ever_needs_no_more_room() -> None:
    schedules = Schedules()

    for seq in range(1, 10_000):
        schedules.add(b"a", seq, 1_000_000 - seq)

    assert len(schedules._heap) < 1000
    assert schedules.due(1_000_000, 10) == [Pending(b"a", 9_999, 990_001)]
