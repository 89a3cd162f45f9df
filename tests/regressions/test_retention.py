"""Past bugs of servers like this one: work queues and interest."""

# Subject: retention

from typing import Any

import pytest

from tests.regressions.desk import Desk, code, seqs
from tests.support.eventually import eventually


def test_ack_all_removes_nothing_outside_the_filter(desk: Desk) -> None:
    """Acknowledging up to a message removed messages that the consumer never wanted."""
    desk.stream("Q", retention="workqueue")
    config = {"durable_name": "c", "ack_policy": "all"}
    assert code(desk.api("CONSUMER.CREATE.Q.c", {"stream_name": "Q", "config": config})) == 10098
    desk.stream("A", retention="interest")
    desk.consumer("A", "rest", filter_subjects=["A.0", "A.2"])
    desk.consumer("A", ack_policy="all", filter_subject="A.1")
    desk.fill("A", 9, subjects=3)
    frames = desk.pull("A", 3)
    desk.ack(frames[2])
    eventually(lambda: desk.state("A")["messages"] == 6)
    assert desk.state("A")["subjects"] == {"A.0": 3, "A.2": 3}


@pytest.mark.parametrize("policy", ["last", "new", "last_per_subject", "by_start_sequence"])
def test_a_work_queue_is_read_from_its_beginning(desk: Desk, policy: str) -> None:
    """A consumer that began later left messages nobody would ever remove."""
    desk.stream("A", retention="workqueue")
    config = {"durable_name": "c", "ack_policy": "explicit", "deliver_policy": policy}
    more: dict[str, dict[str, Any]] = {
        "by_start_sequence": {"opt_start_seq": 5},
        "last_per_subject": {"filter_subject": "A.x"},
    }
    given = config | more.get(policy, {})
    assert code(desk.api("CONSUMER.CREATE.A.c", {"stream_name": "A", "config": given})) == 10101


def test_acknowledged_jobs_leave_in_any_order(desk: Desk) -> None:
    """Jobs acknowledged out of order, twice, or while others came stayed in the queue."""
    desk.stream("A", retention="workqueue")
    desk.consumer("A")
    desk.fill("A", 30)
    frames = desk.pull("A", 30)
    for frame in [*frames[::2], *frames[::4], *reversed(frames[1::2])]:
        desk.wire.publish(frame.reply.decode(), b"+ACK")
        desk.wire.publish("A.more", b"")
    desk.wire.flush()
    more = 15 + 8 + 15

    def left() -> tuple[int, int]:
        state = desk.state("A")
        return state["messages"], state["first_seq"]

    # There may be as many on the way to that, while new ones come and old ones are still to leave.
    eventually(lambda: left() == (more, 31))
    assert len(desk.pull("A", more)) == more


def test_ack_all_on_an_interest_stream_leaves_and_loses_nothing(desk: Desk) -> None:
    """Messages stayed after everybody had acknowledged them, or went before."""
    desk.stream("A", retention="interest")
    desk.consumer("A", "all", ack_policy="all")
    desk.consumer("A", "each")
    desk.fill("A", 6)
    up_to = desk.pull("A", 6, "all")
    each = desk.pull("A", 6, "each")
    for frame in (each[5], each[1]):
        desk.ack(frame)
    assert desk.state("A")["messages"] == 6
    desk.ack(up_to[5])
    eventually(lambda: desk.state("A")["messages"] == 4)
    for frame in (each[0], each[2], each[3], each[4]):
        desk.ack(frame)
    eventually(lambda: desk.state("A")["messages"] == 0)


def test_a_changed_filter_removes_messages_without_interest(desk: Desk) -> None:
    """After a consumer got another filter its old messages stayed for good."""
    desk.stream("A", retention="interest")
    desk.consumer("A", filter_subject="A.0")
    desk.consumer("A", "other", filter_subject="A.1")
    desk.fill("A", 8, subjects=2)
    assert seqs(desk.pull("A", 1)) == [1]
    desk.consumer("A", filter_subject="A.1")
    for frame in desk.pull("A", 4, "other"):
        desk.ack(frame)
    for frame in desk.pull("A", 4):
        if frame.reply:
            desk.ack(frame)
    subjects = eventually(
        lambda: desk.state("A") if "A.1" not in desk.state("A").get("subjects", {}) else None
    )
    assert subjects["messages"] <= 4


def test_parallel_creates_of_one_stream_have_one_outcome(desk: Desk) -> None:
    """Two creations at once both won, or a limit was passed."""
    for i in range(12):
        body = b'{"name":"P","subjects":["P.>"],"max_msgs":%d}' % (10 + i % 3)
        desk.wire.publish("$JS.API.STREAM.CREATE.P", body, reply=b"in.%d" % (i % 3))
    answers = [(desk.wire.frame()) for _ in range(12)]
    created = [f.json() for f in answers if "error" not in f.json()]
    assert created[0]["did_create"]
    limits = {answer["config"]["max_msgs"] for answer in created}
    assert limits == {desk.ok("STREAM.INFO.P")["config"]["max_msgs"]}
    refused = [code(f.json()) for f in answers if "error" in f.json()]
    assert set(refused) == {10058}
    desk.stream("L", max_consumers=2)
    for i in range(6):
        body = b'{"stream_name":"L","config":{"durable_name":"c%d"}}' % i
        desk.wire.publish(f"$JS.API.CONSUMER.CREATE.L.c{i}", body, reply=b"in.l")
    codes = [code(desk.wire.frame().json()) for _ in range(6)]
    assert (codes.count(0), codes.count(10026)) == (2, 4)
