"""The checker finds each kind of violation in small histories, and none in sound ones."""

# Subject: tests

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.histories.checker import check
from tests.histories.story import RULES, Story, ended, replaced, sound, without

Change = Callable[[Story], object]


def test_a_sound_history_passes() -> None:
    assert ended(sound()).kinds() == set()


def test_nothing_is_missing_of_a_run_that_was_not_read_to_its_end() -> None:
    story = sound()
    story.add("run", "end", "fail", how="stuck", text="LOG is not done")

    assert story.kinds() == {"stuck"}


LATE: dict[str, Change] = {
    "lost": lambda story: without(story, kind="stored", value="p-3"),
    "disagreement": lambda story: story.read("p-1", 3, client="other"),
    "phantom": lambda story: story.deliver("q-1", 4),
    "gap": lambda story: replaced(story, {"seq": 5}, kind="stored", stream="LOG", seq=3),
    "time": lambda story: replaced(story, {"time": 1}, kind="stored", stream="LOG", seq=3),
    "stored": lambda story: without(story, kind="stored", stream="LOG", seq=3, how="SQL"),
    "unprocessed": lambda story: without(story, kind="deliver", consumer="C", seq=1),
    "redelivered": lambda story: story.deliver("p-1", 1, count=2),
    "max-deliver": lambda story: story.deliver("p-3", 3, count=4),
    "letter": lambda story: story.store("DEAD", "", "", "", "p-2"),
    "copy": lambda story: without(story, kind="stored", stream="MIRROR", seq=2),
    "reader": lambda story: story.read("p-3", 3),
    "view": lambda story: without(story, kind="read", seq=3),
    "header": lambda story: replaced(story, {"msg_id": "p-9"}, kind="stored", stream="LOG", seq=3),
    "pending": lambda story: story.ask(
        "consumer", about={"stream": "LOG", "consumer": "C"}, floor=3, last=9, unacked=6
    ),
    "died": lambda story: story.add("run", "end", "fail", how="died", text="node0 ended with 1"),
}
"""Kinds of violations, each with a change of the history that must cause it."""


@pytest.mark.parametrize("kind", LATE)
def test_each_kind_of_wrong_is_found(kind: str) -> None:
    story = ended(sound())
    LATE[kind](story)

    assert kind in story.kinds()


def test_bytes_are_those_of_a_recount() -> None:
    story = ended(sound())
    replaced(story, {"size": 80}, kind="stored", stream="LOG", seq=3, how="NATS")

    assert story.kinds() == {"stored"}


def test_a_lost_message_is_identified_by_its_sequence() -> None:
    found = []
    for gone in ("p-1", "p-2", "p-3"):
        story = ended(sound())
        without(story, kind="stored", value=gone)
        events = sorted(story.events, key=lambda event: event.t)
        found += [wrong.text for wrong in check(events, RULES) if wrong.kind == "lost"]

    assert [text.rpartition(" ")[2] for text in found] == ["prefix", "middle", "postfix"]


@pytest.mark.parametrize("kind", ["read", "deliver"])
def test_a_message_that_reached_no_node_is_identified_by_its_sequence(kind: str) -> None:
    found = []
    for gone in (1, 2, 3):
        story = ended(sound())
        without(story, kind=kind, seq=gone, stream="LOG")
        events = sorted(story.events, key=lambda event: event.t)
        found += [wrong.text for wrong in check(events, RULES) if " at node1: lost" in wrong.text]

    assert [text.rpartition(" ")[2] for text in found] == ["prefix", "middle", "postfix"]


def test_times_are_those_of_the_database() -> None:
    """Times of the history are within a second of its beginning."""
    for began, kinds in ((60, set()), (-60, set()), (3600, {"time"}), (-3600, {"time"})):
        rules = msgspec.structs.replace(RULES, began=began * 1_000_000_000)
        assert ended(sound()).kinds(rules) == kinds


def test_an_acknowledged_sequence_of_another_message_is_a_violation() -> None:
    story = ended(sound())
    story.publish("q-1", 3)

    assert story.kinds() >= {"disagreement", "lost"}


def test_a_message_with_an_id_is_stored_once_however_often_it_was_sent() -> None:
    story = sound()
    story.publish("i-1", 0, identified=True)
    story.publish("i-1", 4, identified=True)
    assert story.kinds() == set()

    story.publish("i-1", 5, identified=True)
    assert story.kinds() == {"duplicate"}


def test_a_message_without_one_is_stored_no_more_often_than_it_was_sent() -> None:
    story = sound()
    story.publish("n-1", 0)
    story.publish("n-1", 0)
    story.read("n-1", 4, client="other")
    story.deliver("n-1", 5, "ALL")
    assert "duplicate" not in story.kinds()

    story.deliver("n-1", 6, "ALL")
    assert "duplicate" in story.kinds()


def test_a_refused_message_must_not_be_stored() -> None:
    story = sound()
    story.publish("n-1", -1)
    story.publish("n-1", 0)
    story.deliver("n-1", 4, "ALL")
    assert story.kinds() == set()

    story.publish("r-1", -1)
    story.deliver("r-1", 5, "ALL")
    assert story.kinds() == {"refused"}


def test_a_message_acknowledged_before_another_was_sent_precedes_it() -> None:
    story = sound()
    story.publish("a-1", 5)
    story.publish("b-1", 4)

    assert story.kinds() == {"order"}


def test_messages_of_one_connection_keep_their_order() -> None:
    story = sound()
    known = {"stream": "LOG", "subject": "log.a"}
    story.add("a", "publish", "invoke", op=1, value="a-1", **known)
    story.add("a", "publish", "invoke", op=2, value="a-2", **known)
    story.add("a", "publish", "ok", op=1, value="a-1", stream="LOG", seq=5)
    story.add("a", "publish", "ok", op=2, value="a-2", stream="LOG", seq=4)
    assert story.kinds() == {"order"}

    replaced(story, {"conn": 1}, op=2)
    assert story.kinds() == set()


def with_rivals(second: int) -> Story:
    """Return a history with two messages with an expected last sequence, one after the other."""
    story = ended(sound())
    story.publish("x-1", 4, subject="log.x", expect=0)
    story.publish("y-1", 5, subject="log.x", expect=second)
    for stream in ("LOG", "MIRROR"):
        for value, seq in (("x-1", 4), ("y-1", 5)):
            for how in ("SQL", "NATS"):
                known: dict[str, Any] = {"seq": seq, "value": value, "how": how, "time": 1000 + seq}
                story.add("run", "stored", stream=stream, subject="log.x", **known)
    return story


def test_one_of_two_rivals_wins() -> None:
    assert "rival" not in with_rivals(4).kinds()
    assert "rival" in with_rivals(0).kinds()


@pytest.mark.parametrize(
    ("seqs", "kinds"),
    [([4, 5], set()), ([], set()), ([4], {"batch"}), ([4, 6], {"batch"}), ([5, 4], {"batch"})],
)
def test_a_batch_is_there_as_a_whole_or_not_at_all(seqs: list[int], kinds: set[str]) -> None:
    story = ended(sound())
    known = {"stream": "LOG", "subject": "log.b", "batch": "b1", "of": 2, "op": 1}
    for place in (1, 2):
        story.add("b", "publish", "invoke", value=f"b-{place}", **known)
    for place, seq in enumerate(seqs, 1):
        story.add(
            "ALL", "deliver", stream="LOG", consumer="ALL", subject="log.b", value=f"b-{place}",
            seq=seq, count=1,
        )  # fmt: skip

    assert story.kinds() & {"batch"} == kinds


def test_the_answer_to_a_batch_speaks_of_each_of_its_messages() -> None:
    story = ended(sound())
    known = {"stream": "LOG", "subject": "log.b", "batch": "b1", "of": 2, "op": 1}
    for place in (1, 2):
        story.add("b", "publish", "invoke", value=f"b-{place}", **known)
    story.add("b", "publish", "ok", op=1, stream="LOG", value="b-2", seq=5)

    events = sorted(story.events, key=lambda event: event.t)
    lost = [wrong.text for wrong in check(events, RULES) if wrong.kind == "lost"]
    assert [text.split(";")[0] for text in lost] == [
        "b-1 was acknowledged at 4 of LOG",
        "b-2 was acknowledged at 5 of LOG",
    ]


def with_keys(retained: list[int]) -> Story:
    """Return a history with two values of one key, of which these sequences remain."""
    story = ended(sound())
    story.publish("k-1", 1, "KV", subject="kv.a")
    story.publish("k-2", 2, "KV", subject="kv.a")
    for seq in retained:
        for how in ("SQL", "NATS"):
            story.add(
                "run", "stored", stream="KV", subject="kv.a", value=f"k-{seq}", seq=seq, how=how
            )
    return story


@pytest.mark.parametrize(
    ("retained", "kinds"),
    [([2], set()), ([1], {"lost"}), ([1, 2], {"latest"}), ([], {"lost"})],
)
def test_of_each_key_the_last_value_is_left(retained: list[int], kinds: set[str]) -> None:
    assert with_keys(retained).kinds() == kinds


LAST = {"stream": "KV", "subject": "kv.a", "how": "last"}
PLACE = {"stream": "KV", "subject": "kv.a", "how": "seq", "seq": 1}


def test_direct_get_shows_messages_acknowledged_to_its_connection() -> None:
    story = with_keys([2])
    story.ask("get", about=LAST, seq=2, value="k-2", client="k")
    story.ask("get", about=LAST, seq=1, value="k-1", client="g")  # from a node that lags
    assert story.kinds() == set()

    story.ask("get", about=LAST, seq=1, value="k-1", client="k")
    assert story.kinds() == {"stale"}


def test_direct_get_finds_what_was_there() -> None:
    story = ended(sound())
    story.ask("get", about={"stream": "LOG", "how": "last", "subject": "log.p"}, seq=3, value="p-3")
    story.ask("get", about={"stream": "LOG", "how": "seq", "seq": 4}, phase="fail")
    assert story.kinds() == set()

    story.ask("get", about={"stream": "LOG", "how": "seq", "seq": 2}, phase="fail")
    assert story.kinds() == set()  # its mirror, which lags, may have answered

    story.ask("get", about={"stream": "MIRROR", "how": "last", "subject": "log.p"}, seq=3)
    story.ask("get", about={"stream": "MIRROR", "how": "seq", "seq": 2}, phase="fail")
    assert story.kinds() == {"stale"}


def test_direct_get_shows_nothing_that_was_replaced_before() -> None:
    story = with_keys([2])
    story.ask("get", about=PLACE, phase="fail", client="k")
    assert story.kinds() == set()

    story.ask("get", about=PLACE, value="k-1", client="k")
    assert story.kinds() == {"removed"}


def with_trash(retained: list[int], *removals: dict[str, Any]) -> Story:
    """Return a history with three messages, some removals, and these remaining sequences."""
    story = ended(sound())
    for seq in (1, 2, 3):
        story.publish(f"t-{seq}", seq, "TRASH")
    for removal in removals:
        about = {"stream": "TRASH", "subject": "trash.t", **removal}
        story.ask("remove", about.pop("phase", "ok"), client="t", about=about)
    for seq in retained:
        known: dict[str, Any] = {
            "stream": "TRASH",
            "subject": "trash.t",
            "value": f"t-{seq}",
            "seq": seq,
        }
        for how in ("SQL", "NATS"):
            story.add("run", "stored", how=how, time=seq, **known)
    return story


DELETED = {"how": "seq", "seq": 2}
PURGED = {"how": "purge", "seq": 3}


@pytest.mark.parametrize(
    ("removals", "retained", "kinds"),
    [
        ([], [1, 2, 3], set()),
        ([], [1, 3], {"lost"}),
        ([DELETED], [1, 3], set()),
        ([DELETED], [1, 2, 3], {"resurrected"}),
        ([{**DELETED, "phase": "unknown"}], [1, 2, 3], set()),
        ([{**DELETED, "phase": "unknown"}], [1, 3], set()),
        ([{**DELETED, "phase": "fail"}], [1, 3], {"lost"}),
        ([PURGED], [3], set()),
        ([PURGED], [2, 3], {"resurrected"}),
        ([PURGED], [], {"lost"}),
        ([{**PURGED, "subject": "trash.other"}], [3], {"lost"}),
    ],
)
def test_removed_messages_are_gone_and_no_others(
    removals: list[dict[str, Any]], retained: list[int], kinds: set[str]
) -> None:
    assert with_trash(retained, *removals).kinds() == kinds


def test_direct_get_shows_nothing_that_was_removed_before() -> None:
    story = with_trash([1, 3], DELETED)
    about = {"stream": "TRASH", "subject": "trash.t", "how": "seq", "seq": 2}
    story.ask("get", about=about, phase="fail", client="t")
    assert story.kinds() == set()

    story.ask("get", about=about, value="t-2", client="t")
    assert story.kinds() == {"removed"}


def test_a_mirror_may_be_late_but_not_go_back() -> None:
    story = ended(sound())
    about = {"stream": "MIRROR", "subject": "log.p", "how": "last"}
    story.ask("get", about=about, seq=1, value="p-1")
    story.ask("get", about=about, seq=3, value="p-3")
    assert story.kinds() == set()

    story.ask("get", about=about, seq=2, value="p-2")
    assert story.kinds() == {"stale"}


def test_a_stream_reports_no_less_than_was_acknowledged_before() -> None:
    story = sound()
    story.ask("stream", about={"stream": "LOG"}, last=2, first=1)

    assert story.kinds() == {"stale"}


def test_a_reader_leaves_nothing_out() -> None:
    story = sound()
    story.read("p-1", 1, client="other")
    assert story.kinds() == set()

    story.read("p-3", 3, client="other")
    assert story.kinds() == {"reader"}


def test_a_reported_loss_is_found() -> None:
    story = sound()
    story.add("reader", "read", "fail", stream="LOG", text="gap")

    assert story.kinds() == {"reader"}


def test_a_delivery_that_was_on_its_way_elsewhere_is_no_redelivery() -> None:
    story = sound()
    story.deliver("p-1", 1, since=10, conn=2, count=2)
    assert story.kinds() == set()

    story.deliver("p-1", 1, since=10, count=3)  # after the confirmation, on its connection
    assert story.kinds() == {"redelivered"}


def test_a_message_covered_by_a_later_ack_is_not_redelivered() -> None:
    story = sound()
    story.deliver("p-2", 2, "ALL", count=2)

    assert story.kinds() == {"redelivered"}


def test_a_negative_or_unanswered_acknowledgement_ends_nothing() -> None:
    story = sound()
    story.publish("p-4", 4)
    for count, (how, phase) in enumerate([("nak", "ok"), ("ack", "unknown")], 1):
        story.deliver("p-4", 4, count=count)
        story.ack(4, how=how, phase=phase)  # type: ignore[arg-type]
    story.deliver("p-4", 4, count=3)

    assert story.kinds() == set()


def test_a_count_comes_twice_only_after_a_fault() -> None:
    story = sound()
    story.add("run", "fault", "invoke", text="kill")
    story.deliver("p-3", 3, count=3, conn=2)
    assert story.kinds() == set()

    story.deliver("p-3", 3, count=3, conn=2)
    assert story.kinds() == {"max-deliver"}


def test_messages_that_left_a_work_queue_were_acknowledged() -> None:
    story = ended(sound())
    without(story, kind="ack", consumer="W")

    assert story.kinds() == {"unprocessed"}


def test_a_floor_is_behind_nothing_that_was_confirmed() -> None:
    about = {"stream": "LOG", "consumer": "C"}
    for floor in (1, 4):
        story = sound()
        story.ask("consumer", about=about, floor=floor, last=3)
        assert story.kinds() == {"floor"}

    story = sound()
    story.ask("consumer", about=about, floor=3, last=3)
    story.ask("consumer", about=about, floor=2, last=3, conn=1)  # on another node
    assert story.kinds() == set()

    story.ask("consumer", about=about, floor=3, last=3)
    story.ask("consumer", about=about, floor=2, last=3)
    assert story.kinds() == {"floor"}
    story = Story()
    story.ask("consumer", about=about, floor=3, last=3)
    story.add("run", "fault", "invoke", text="kill")  # another node becomes leader
    story.ask("consumer", about=about, floor=2, last=3)
    assert story.kinds() == set()


@pytest.mark.parametrize("value", ["p-2", "p-3"])
def test_failed_messages_have_a_dead_letter(value: str) -> None:
    story = ended(sound())
    without(story, stream="DEAD", value=value)

    assert "letter" in story.kinds()


def test_acknowledged_messages_have_no_dead_letter() -> None:
    story = ended(sound())
    story.store("DEAD", "", "", "p-1")

    assert story.kinds() == {"letter"}


def test_a_mirror_has_the_times_of_its_origin() -> None:
    story = ended(sound())
    replaced(story, {"time": 999}, stream="MIRROR", seq=1)

    assert story.kinds() == {"copy"}


@pytest.mark.parametrize(
    "change",
    [{"origin": "LOG 3"}, {"origin": "LOG 1"}, {"origin": "WORK 2"}],
)
def test_sources_come_whole_once_and_in_order(change: dict[str, Any]) -> None:
    story = ended(sound())
    replaced(story, change, stream="SUM", value="p-2")

    assert story.kinds() == {"copy"}
