"""Past bugs of servers like this one: consumers, acknowledgements, pull requests."""

# Subject: acks

import time

import pytest

from tests.regressions.desk import SECOND, Desk, code, seqs
from tests.support.eventually import eventually
from tests.support.wire import Frame


def test_an_ack_of_a_redelivered_message_fills_the_gap(desk: Desk) -> None:
    """The floor stayed behind a message that was acknowledged at its second delivery."""
    desk.stream("A")
    desk.fill("A", 3)
    desk.consumer("A", ack_wait=SECOND // 5)
    first, second, third = desk.pull("A", 3)
    desk.ack(second)
    desk.ack(third)
    assert desk.numbers("A")[1] == 0
    again = desk.pull("A", 1)[0]
    assert seqs([again]) == seqs([first])
    desk.ack(again)
    assert desk.numbers("A") == (3, 3, 0, 0, 0)


def test_ack_all_moves_the_floor_to_the_right_place(desk: Desk) -> None:
    """An acknowledgement of everything up to a message took the floor of another one."""
    desk.stream("A")
    desk.fill("A", 6, subjects=2)
    desk.consumer("A", ack_policy="all", filter_subject="A.1")
    frames = desk.pull("A", 3)
    desk.ack(frames[1])
    assert desk.numbers("A") == (6, 4, 1, 0, 0)
    desk.ack(frames[0])
    assert desk.numbers("A") == (6, 4, 1, 0, 0)
    desk.ack(frames[2])
    assert desk.numbers("A")[2:] == (0, 0, 0)


def test_ack_all_ignores_a_consumer_sequence_below_the_floor(desk: Desk) -> None:
    """The ack of a second delivery raises the floor above first deliveries of later messages."""
    desk.stream("A")
    desk.fill("A", 5)
    desk.consumer("A", ack_policy="all", max_ack_pending=4)
    frames = desk.pull("A", 4)
    desk.wire.publish(frames[1].reply.decode(), b"-NAK")
    desk.ack(desk.pull("A", 1)[0])
    assert desk.info("A")["ack_floor"]["consumer_seq"] == 5
    for frame in frames[2:]:
        desk.ack(frame)
        assert desk.numbers("A") == (4, 2, 2, 0, 1)
    desk.wire.publish(frames[3].reply.decode(), b"-NAK")
    assert desk.bodies("A", 1) == [b"m4"]


@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_a_nak_may_have_the_consumer_sequence_of_the_next_delivery(desk: Desk, policy: str) -> None:
    """A NAK was ignored when a crash had lost the state with the last delivery."""
    desk.stream("A")
    desk.fill("A", 2)
    desk.consumer("A", ack_policy=policy)
    desk.pull("A", 2)
    desk.wire.publish("$JS.ACK.A.c.1.2.4.0.0", b"-NAK")
    desk.wire.publish("$JS.ACK.A.c.1.1.3.0.0", b"-NAK")
    assert seqs(desk.pull("A", 2, within=0.3)) == [1]


def test_a_purge_of_nothing_counts_skipped_messages_as_delivered(desk: Desk) -> None:
    """The removal of the last pending message leaves the floor of ack policy all there."""
    desk.stream("A")
    for subject in ("A.x", "A.x", "A.y"):
        desk.publish(subject)
    desk.consumer("A", ack_policy="all", filter_subject="A.x")
    desk.pull("A", 3, within=0.1)
    assert desk.numbers("A") == (2, 0, 2, 0, 0)
    desk.ok("STREAM.PURGE.A", {"seq": 1})
    assert desk.numbers("A") == (3, 0, 2, 0, 0)
    desk.ok("STREAM.MSG.DELETE.A", {"seq": 2})
    eventually(lambda: desk.numbers("A") == (3, 2, 0, 0, 0))


@pytest.mark.parametrize("policy", ["explicit", "all"])
@pytest.mark.parametrize("seq", [3, 1000])
def test_an_ack_of_an_undelivered_message_is_ignored(desk: Desk, policy: str, seq: int) -> None:
    """A forged acknowledgement of the future moved the floor beyond the last message."""
    desk.stream("A")
    desk.fill("A", 3)
    desk.consumer("A", ack_policy=policy)
    desk.pull("A", 2)
    desk.wire.publish(f"$JS.ACK.A.c.1.{seq}.{seq}.0.0", b"+ACK")
    desk.wire.flush()
    assert desk.numbers("A") == (2, 0, 2, 0, 1)
    assert desk.bodies("A", 1) == [b"m2"]


def test_nothing_is_counted_down_twice(desk: Desk) -> None:
    """An acknowledgement that came twice, or a delete after it, made counts too small."""
    desk.stream("A")
    desk.fill("A", 5)
    desk.consumer("A")
    frames = desk.pull("A", 2)
    for _ in range(3):
        desk.ack(frames[0])
    assert desk.numbers("A") == (2, 1, 1, 0, 3)
    for seq in (1, 4):
        desk.ok("STREAM.MSG.DELETE.A", {"seq": seq})
    assert desk.numbers("A") == (2, 1, 1, 0, 2)
    code(desk.api("STREAM.MSG.DELETE.A", {"seq": 4}))
    assert desk.numbers("A") == (2, 1, 1, 0, 2)
    assert desk.bodies("A", 2) == [b"m2", b"m4"]


def test_pending_messages_are_counted_right_for_last_per_subject(desk: Desk) -> None:
    """Superseded and deleted messages were counted among those still to come."""
    desk.stream("A")
    desk.fill("A", 12, subjects=4)
    desk.consumer("A", deliver_policy="last_per_subject", filter_subject="A.*")
    assert desk.numbers("A")[4] == 4
    desk.ok("STREAM.MSG.DELETE.A", {"seq": 10})
    assert desk.numbers("A")[4] == 3
    desk.publish("A.0", b"new")
    # The reference counts what is new after its publisher has the answer.
    eventually(lambda: desk.numbers("A")[4] == 4)
    found: list[bytes] = []
    while len(found) < 4:  # the reference stops once at the gap
        found += desk.bodies("A", 4 - len(found), within=0.3)
    assert found == [b"m8", b"m10", b"m11", b"new"]
    assert desk.numbers("A")[4] == 0


@pytest.mark.parametrize("how", ["delete", "purge"])
def test_removing_unacknowledged_messages_makes_room(desk: Desk, how: str) -> None:
    """Messages that were gone still counted against max_ack_pending."""
    desk.stream("A")
    desk.fill("A", 4)
    desk.consumer("A", max_ack_pending=2, ack_wait=30 * SECOND)
    assert len(desk.pull("A", 2)) == 2
    assert desk.bodies("A", 1, within=0.2) == []
    if how == "delete":
        for seq in (1, 2):
            desk.ok("STREAM.MSG.DELETE.A", {"seq": seq})
    else:
        desk.ok("STREAM.PURGE.A", {"seq": 3})
    assert desk.bodies("A", 2) == [b"m2", b"m3"]
    assert desk.numbers("A")[2] == 2


def test_a_message_after_max_deliver_does_not_stop_the_consumer(desk: Desk) -> None:
    """After the last attempt the consumer was stuck, or counted below zero."""
    desk.stream("A")
    desk.fill("A", 3)
    desk.consumer("A", max_deliver=2, ack_wait=SECOND // 10, max_ack_pending=1)
    first = desk.pull("A", 2)
    assert seqs(first) == [1, 1]
    second = desk.pull("A", 2)
    assert seqs(second) == [2, 2]
    third = desk.pull("A", 1)[0]
    desk.ack(third)
    numbers = desk.numbers("A")
    assert min(numbers) >= 0
    assert (numbers[2], numbers[4]) == (0, 0)


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_a_message_after_max_deliver_stays_until_it_is_acknowledged(
    desk: Desk, retention: str
) -> None:
    """Messages left their queue because they had been tried often enough."""
    desk.stream("A", retention=retention)
    desk.consumer("A", max_deliver=1, ack_wait=SECOND // 10)
    desk.fill("A", 2)
    frames = desk.pull("A", 2)
    assert desk.bodies("A", 1, within=0.4) == []
    assert desk.state("A")["messages"] == 2
    desk.ack(frames[0])
    eventually(lambda: desk.state("A")["messages"] == 1)
    desk.ok("STREAM.PURGE.A")
    assert desk.state("A")["messages"] == 0


def test_every_pending_message_has_its_own_place_in_the_backoff(desk: Desk) -> None:
    """With several redeliveries under way all of them waited as long as the last."""
    desk.stream("A")
    desk.fill("A", 2)
    waits = [SECOND // 10, 4 * SECOND // 10, 10 * SECOND]
    desk.consumer("A", backoff=waits, max_deliver=4)
    assert seqs(desk.pull("A", 1)) == [1]
    assert sorted(seqs(desk.pull("A", 2))) == [1, 2]
    assert sorted(seqs(desk.pull("A", 3))) == [1, 2, 2]
    assert desk.bodies("A", 1, within=0.3) == []


def test_a_request_ends_with_one_status_and_then_nothing_comes(desk: Desk) -> None:
    """Requests got two statuses, a 404 after messages, or messages after their end."""
    desk.stream("A")
    desk.fill("A", 2)
    desk.consumer("A")

    def served() -> list[Frame]:
        """Empty when the machine took longer than the request may."""
        frames = desk.pull("A", 5, no_wait=True, within=0.3)
        return frames if frames[0].reply else []

    frames = eventually(served)
    assert [frame.payload for frame in frames[:2]] == [b"m0", b"m1"]
    assert len(frames) == 3
    assert frames[2].headers.startswith(b"NATS/1.0 40")
    assert desk.quiet(0.4) == []
    desk.publish("A.x", b"late")
    assert desk.quiet() == []
    empty = desk.pull("A", 1)
    assert empty[0].payload == b"late"
    only = desk.pull("A", 1, within=0.2)
    assert only[0].headers.startswith(b"NATS/1.0 408 Request Timeout")
    assert desk.quiet(0.3) == []


def test_the_wait_for_an_ack_starts_at_the_delivery(desk: Desk) -> None:
    """The time until a redelivery was counted from the request, or never began."""
    desk.stream("A")
    desk.consumer("A", ack_wait=SECOND)
    desk.wire.publish("$JS.API.CONSUMER.MSG.NEXT.A.c", b'{"batch":5}', reply=b"in.w")
    assert desk.quiet(1.1) == []
    published = time.monotonic()
    desk.wire.publish("A.x", b"1")
    assert [desk.wire.frame().payload for _ in range(2)] == [b"1", b"1"]
    assert time.monotonic() - published > 0.9


def test_overlapping_filters_deliver_once(desk: Desk) -> None:
    """A message that two filters match came twice."""
    desk.stream("A")
    filters = ["A.a.*", "A.*.b"]
    made = desk.api(
        "CONSUMER.CREATE.A.c",
        {"stream_name": "A", "config": {"durable_name": "c", "filter_subjects": filters}},
    )
    assert code(made) == 0
    for subject in ("A.a.b", "A.a.c", "A.c.b", "A.c.c"):
        desk.publish(subject, subject.encode())
    assert desk.bodies("A", 3) == [b"A.a.b", b"A.a.c", b"A.c.b"]
    assert desk.bodies("A", 1, within=0.3) == []


def test_a_refused_create_leaves_the_consumer_as_it_was(desk: Desk) -> None:
    """A request that was refused had reset the state of the consumer of that name."""
    desk.stream("A")
    desk.fill("A", 5)
    desk.consumer("A")
    frames = desk.pull("A", 3)
    desk.ack(frames[0])
    before = desk.numbers("A")
    for config in (
        {"deliver_policy": "new"},
        {"ack_policy": "none"},
        {"max_deliver": 1, "backoff": [1, 2, 3]},
        {"deliver_subject": "A.loop"},
    ):
        given = {"durable_name": "c", "ack_policy": "explicit"} | config
        refused = desk.api("CONSUMER.CREATE.A.c", {"stream_name": "A", "config": given})
        assert code(refused), config
    again = {"durable_name": "c", "ack_policy": "explicit"}
    request = {"stream_name": "A", "config": again | {"max_waiting": 7}, "action": "create"}
    assert code(desk.api("CONSUMER.CREATE.A.c", request)) == 10148
    assert desk.numbers("A") == before
    desk.ack(frames[1])
    assert desk.bodies("A", 2) == [b"m3", b"m4"]


@pytest.mark.parametrize("name", ["100%", "a@b", "x%dy%s", "ünïcode", "+", "a=b", "~!#&'()"])
def test_odd_names_work_in_ack_subjects(desk: Desk, name: str) -> None:
    """A per cent sign in a name was taken for a format, an at sign for something else."""
    desk.ok(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
    desk.publish(f"{name}.{name}", b"1 %s %d")
    desk.consumer(name, name)
    frame = desk.pull(name, 1, name)[0]
    assert frame.payload == b"1 %s %d"
    assert frame.subject.decode() == f"{name}.{name}"
    desk.ack(frame)
    assert desk.numbers(name, name) == (1, 1, 0, 0, 0)


def test_an_ack_subject_carries_no_protocol(desk: Desk) -> None:
    """What is published to an ack subject of somebody's making must not end up in a line."""
    desk.stream("A")
    desk.fill("A", 2)
    desk.consumer("A")
    desk.pull("A", 1)
    for tokens in (
        "1.1.1.0.0\t2",
        "x",
        "1..1.1.0",
        "1.1",
        "-1.1.1.0.0",
        "1.99999999999999999999.1",
    ):
        desk.wire.publish(f"$JS.ACK.A.c.{tokens}", b"+ACK")
        desk.wire.publish(f"$JS.ACK.A.c.{tokens}", b'+NXT {"batch":"x\r\nPUB y 1\r\n"}')
    assert desk.wire.flush() == []
    assert desk.info("A")["num_ack_pending"] in (0, 1)


def test_pausing_and_resuming_at_once_loses_nothing(desk: Desk) -> None:
    """Pauses and resumes that crossed each other left a consumer that delivered nothing."""
    desk.stream("A")
    desk.consumer("A")
    for turn in range(20):
        until = "2099-01-01T00:00:00Z" if turn % 2 else "0001-01-01T00:00:00Z"
        body = f'{{"pause_until":"{until}"}}'.encode()
        desk.wire.publish("$JS.API.CONSUMER.PAUSE.A.c", body, reply=b"in.pause")
        desk.wire.publish("A.x", b"%d" % turn)
    for _ in range(20):
        assert "error" not in desk.wire.frame().json()
    desk.ok("CONSUMER.PAUSE.A.c")
    assert desk.bodies("A", 20) == [b"%d" % turn for turn in range(20)]


def test_a_consumer_that_was_just_created_is_there(desk: Desk) -> None:
    """The first question after a creation was answered with "not found"."""
    for i in range(10):
        desk.wire.publish(f"$JS.API.STREAM.CREATE.N{i}", b'{"name":"N%d"}' % i, reply=b"in.c")
        body = b'{"stream_name":"N%d","config":{"durable_name":"c"}}' % i
        assert "error" not in desk.wire.frame().json()
        assert "error" not in desk.api(f"STREAM.INFO.N{i}")
        desk.wire.publish(f"$JS.API.CONSUMER.CREATE.N{i}.c", body, reply=b"in.c")
        assert "error" not in desk.wire.frame().json()
        assert "error" not in desk.api(f"CONSUMER.INFO.N{i}.c")
