"""Past bugs of servers like this one: the log, its sequences, what is removed from it."""

# Subject: limits, purge

import json

import pytest

from tests.regressions.desk import SECOND, Desk, code
from tests.support.eventually import eventually


def test_a_message_over_the_size_limit_is_refused_and_nothing_is_stored(desk: Desk) -> None:
    """A message that was refused for its size had been written already."""
    desk.stream("A", max_msg_size=100)
    assert desk.publish("A.x", bytes(100))["seq"] == 1
    assert code(desk.publish("A.x", bytes(101))) == 10054
    assert code(desk.publish("A.x", bytes(60), X="y" * 60)) == 10054
    state = desk.state("A")
    assert (state["messages"], state["last_seq"]) == (1, 1)
    assert desk.publish("A.x", b"next")["seq"] == 2


def test_a_start_time_is_found_between_many_deleted_messages(desk: Desk) -> None:
    """Interior deletes led the search for a start time to a wrong message."""
    desk.stream("A")
    desk.fill("A", 60)
    for seq in (*range(2, 30), *range(31, 60)):
        desk.ok("STREAM.MSG.DELETE.A", {"seq": seq})
    at = desk.ok("STREAM.MSG.GET.A", {"seq": 30})["message"]["time"]
    since = {"deliver_policy": "by_start_time", "opt_start_time": at}
    assert desk.consumer("A", **since)["num_pending"] == 2
    assert desk.bodies("A", 2) == [b"m29", b"m59"]


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_limits_that_refuse_do_so_at_exactly_the_limit(desk: Desk, storage: str) -> None:
    """One message too many or too few went into a full stream."""
    desk.stream("A", max_msgs=3, discard="new", storage=storage)
    assert [code(desk.publish("A.x", b"1")) for _ in range(5)] == [0, 0, 0, 10077, 10077]
    per_subject = {"max_msgs_per_subject": 2, "discard_new_per_subject": True}
    desk.stream("B", max_msgs=5, discard="new", storage=storage, **per_subject)
    answers = [code(desk.publish(f"B.{name}", b"1")) for name in "aaabbbcd"]
    assert answers == [0, 0, 10077, 0, 0, 10077, 0, 10077]
    size = desk.state("B")["bytes"] // 5
    desk.stream("C", max_bytes=3 * size, discard="new", storage=storage)
    assert [code(desk.publish("C.x", b"1")) for _ in range(4)] == [0, 0, 0, 10077]


def test_a_limit_per_subject_that_is_added_later_trims(desk: Desk) -> None:
    """A new limit had no effect on what was stored already."""
    desk.stream("A")
    desk.fill("A", 12, subjects=3)
    config = desk.ok("STREAM.INFO.A")["config"] | {"max_msgs_per_subject": 2}
    assert desk.ok("STREAM.UPDATE.A", config)["config"]["max_msgs_per_subject"] == 2
    eventually(lambda: desk.state("A")["messages"] == 6)
    state = desk.state("A")
    assert (state["first_seq"], set(state["subjects"].values())) == (7, {2})


def test_an_expected_sequence_of_zero_means_no_message_there(desk: Desk) -> None:
    """Zero was taken for "no expectation", or for the last sequence that ever was."""
    desk.stream("A")
    expected = {"Nats_Expected_Last_Subject_Sequence": "0"}
    assert desk.publish("A.x", b"", **expected)["seq"] == 1
    assert code(desk.publish("A.x", b"", **expected)) == 10071
    assert desk.publish("A.y", b"", **expected)["seq"] == 2
    desk.ok("STREAM.PURGE.A", {"filter": "A.x"})
    assert desk.publish("A.x", b"", **expected)["seq"] == 3
    desk.ok("STREAM.MSG.DELETE.A", {"seq": 3})
    assert desk.publish("A.x", b"", **expected)["seq"] == 4


def test_an_invalid_time_to_live_does_not_consume_the_message_id(desk: Desk) -> None:
    """A message that was refused for its TTL was a duplicate when it came again."""
    desk.stream("A", allow_msg_ttl=True)
    assert code(desk.publish("A.x", b"1", Nats_Msg_Id="i", Nats_TTL="wrong")) == 10165
    assert desk.publish("A.x", b"2", Nats_Msg_Id="i", Nats_TTL="1h") == {"stream": "A", "seq": 1}
    assert desk.publish("A.x", b"3", Nats_Msg_Id="i", Nats_TTL="1h")["duplicate"]
    desk.stream("B")
    assert code(desk.publish("B.x", b"1", Nats_Msg_Id="i", Nats_TTL="1h")) == 10166
    assert desk.publish("B.x", b"2", Nats_Msg_Id="i") == {"stream": "B", "seq": 1}


def test_a_purge_below_a_sequence_removes_exactly_what_is_below(desk: Desk) -> None:
    """A range was removed with one message too many."""
    desk.stream("A")
    desk.fill("A", 10)
    assert desk.ok("STREAM.PURGE.A", {"seq": 4})["purged"] == 3
    assert desk.state("A")["first_seq"] == 4
    assert desk.ok("STREAM.MSG.GET.A", {"seq": 4})["message"]["seq"] == 4


def test_a_purge_at_zero_inside_a_gap_and_with_keep(desk: Desk) -> None:
    """Sequence 0, a sequence in an interior gap, and keep with a subject confused the purge."""
    desk.stream("A")
    desk.fill("A", 12, subjects=2)
    for seq in (4, 5, 6):
        desk.ok("STREAM.MSG.DELETE.A", {"seq": seq})
    assert desk.ok("STREAM.PURGE.A", {"seq": 5})["purged"] == 3
    state = desk.state("A")
    assert (state["first_seq"], state["messages"], state.get("num_deleted", 0)) == (7, 6, 0)
    assert desk.ok("STREAM.PURGE.A", {"filter": "A.0", "keep": 1})["purged"] == 2
    assert desk.state("A")["subjects"] == {"A.0": 1, "A.1": 3}
    assert desk.ok("STREAM.PURGE.A", {"filter": "A.0", "keep": 5})["purged"] == 0
    assert desk.ok("STREAM.PURGE.A", {"seq": 0})["purged"] == 4
    state = desk.state("A")
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 13, 12)


def test_a_marker_is_read_back_once_and_has_its_time_to_live(desk: Desk) -> None:
    """Markers of expired subjects were doubled after a purge, or had no TTL of their own."""
    desk.stream(
        "A",
        max_age=SECOND,
        allow_direct=True,
        allow_msg_ttl=True,
        allow_rollup_hdrs=True,
        subject_delete_marker_ttl=60 * SECOND,
    )
    desk.publish("A.old", b"1")

    def marker() -> bytes:
        frame = desk.wire.request("$JS.API.DIRECT.GET.A.A.old")
        return frame.headers if b"Nats-Marker-Reason" in frame.headers else b""

    block = eventually(marker)
    assert b"Nats-Marker-Reason: MaxAge\r\n" in block
    assert b"Nats-TTL: 1m0s\r\n" in block
    # Nothing grows old between a message, its purge and a look at what is left of it.
    config = desk.ok("STREAM.INFO.A")["config"]
    desk.ok("STREAM.UPDATE.A", config | {"max_age": 3600 * SECOND})
    desk.publish("A.purged", b"1")
    purge = {"KV_Operation": "PURGE", "Nats_Rollup": "sub", "Nats_TTL": "60s"}
    assert "error" not in desk.publish("A.purged", b"", **purge)
    last = desk.wire.request("$JS.API.DIRECT.GET.A.A.purged").headers
    assert b"KV-Operation: PURGE" in last
    assert b"Marker" not in last
    desk.ok("STREAM.UPDATE.A", config)
    # max_age holds for markers too, and a purged subject gets no second one.
    eventually(lambda: desk.state("A")["messages"] == 0)
    assert desk.state("A")["last_seq"] == 4


@pytest.mark.parametrize("retention", ["limits", "interest"])
def test_a_rollup_is_applied_without_interest(desk: Desk, retention: str) -> None:
    """An interest stream ignored a roll-up whose subject no consumer wanted."""
    desk.stream("A", retention=retention, allow_rollup_hdrs=True)
    if retention == "interest":
        desk.consumer("A", filter_subject="A.x")
    for i in range(3):
        desk.publish("A.x", b"%d" % i)
    assert "error" not in desk.publish("A.other", b"", Nats_Rollup="all")
    eventually(lambda: "A.x" not in desk.state("A").get("subjects", {}))


def test_a_mirror_keeps_ids_that_repeat_and_a_source_catches_up(desk: Desk) -> None:
    """Copies were taken for duplicates because their origin had other rules about ids."""
    desk.stream("A", duplicate_window=100_000_000)
    for i in range(2):
        answer = desk.publish("A.x", b"%d" % i, Nats_Msg_Id="same")
        while answer.get("duplicate"):
            answer = desk.publish("A.x", b"%d" % i, Nats_Msg_Id="same")
    desk.ok("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "A"}})
    desk.ok("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "A"}]})
    eventually(lambda: desk.state("M")["messages"] == 2, within=60)
    desk.publish("A.x", b"last")
    eventually(lambda: desk.state("M")["last_seq"] == 3, within=60)
    last = {"last_by_subj": "A.x"}
    eventually(lambda: "bGFzdA==" in json.dumps(desk.api("STREAM.MSG.GET.S", last)), within=60)


def test_a_creation_time_does_not_change(desk: Desk) -> None:
    """Creating a stream again as it is, or changing it, gave it a new birthday."""
    created = desk.stream("A")["created"]
    assert desk.stream("A")["created"] == created
    config = desk.ok("STREAM.INFO.A")["config"] | {"max_msgs": 10}
    assert desk.ok("STREAM.UPDATE.A", config)["created"] == created
    assert desk.ok("STREAM.INFO.A")["created"] == created
