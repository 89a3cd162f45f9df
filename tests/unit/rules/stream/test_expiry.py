"""The queues of messages that expire, without a stream around them."""

# Subject: expiry

from collections.abc import Sequence

from core.model.segment import Segment
from core.rules.stream.state.expiry import Expiry
from tests.unit.rules.stream.support import SECOND, block


def put(
    expiry: Expiry, first: int, ttls: Sequence[str], *, at: int = 0, subject: bytes = b"s"
) -> None:
    """Store one message per TTL ("" for none), all at the same second."""
    n = len(ttls)
    blocks = [block(Nats_TTL=ttl) if ttl else None for ttl in ttls]
    segment = Segment(
        range(first, first + n),
        range(at * SECOND, at * SECOND + n),
        [subject] * n,
        blocks if any(blocks) else None,
        [b""] * n,
        0,
    )
    expiry.add(segment, [100] * n)


def leave(expiry: Expiry, at: int, limit: int = 1000) -> list[int]:
    """Let go what is due in the middle of a second."""
    due = expiry.due(at * SECOND + SECOND // 2, limit)
    expiry.remove_due(due)
    return [row[0] for row in due.rows]


def test_messages_leave_by_time_and_those_of_one_moment_by_sequence() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["5", "2", "never", "", "5", "1"])

    assert leave(expiry, 1) == [6]
    assert leave(expiry, 2) == [2]
    assert leave(expiry, 9) == [1, 5]
    assert len(expiry) == 0
    assert expiry.next_due() == 0 or leave(expiry, 99) == []


def test_expired_messages_that_were_not_removed_are_returned_again() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["1", "2"])

    assert [row[0] for row in expiry.due(5 * SECOND, 10).rows] == [1, 2]
    assert leave(expiry, 5) == [1, 2]
    assert leave(expiry, 5) == []


def test_a_slice_leaves_the_rest_for_the_next() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["1"] * 10_000)

    assert leave(expiry, 5, 6000) == list(range(1, 6001))
    assert leave(expiry, 5, 6000) == list(range(6001, 10_001))


def test_a_shorter_time_is_due_before_what_waits_already() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["100"])
    put(expiry, 2, ["1"], at=1)

    assert expiry.next_due() == 2 * SECOND


def test_max_age_is_the_longest_life_of_all_but_what_never_expires() -> None:
    expiry = Expiry(10 * SECOND)
    put(expiry, 1, ["100", "never", "", "3"])

    assert leave(expiry, 4) == [4]
    assert leave(expiry, 11) == [1, 3]


def test_another_max_age_counts_for_what_waits() -> None:
    expiry = Expiry(10 * SECOND)
    put(expiry, 1, ["100", "", "30"])

    expiry.configure(50 * SECOND)
    assert leave(expiry, 49) == [3]
    expiry.configure(0)
    assert leave(expiry, 99) == []
    assert leave(expiry, 101) == [1]


def test_markers_are_known_as_such_and_their_size_is_right() -> None:
    expiry = Expiry(0)
    segment = Segment(
        [7, 8], [0, 1], [b"a", b"b"],
        [block(KV_Operation="PURGE", Nats_TTL="1"), block(Nats_TTL="1")], [b"", b""], 0,
    )  # fmt: skip
    expiry.add(segment, [50, 60])

    due = expiry.due(SECOND * 2, 10)

    assert due.rows == [(7, b"a", 50), (8, b"b", 60)]
    assert due.markers == {7}


def test_a_removed_message_does_not_expire_again() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["1", "1", "1"])
    expiry.forget([(2, b"s", 100)])

    assert leave(expiry, 2) == [1, 3]


def test_replaced_messages_do_not_fill_the_queues() -> None:
    expiry = Expiry(0)

    for first in range(1, 400_001, 1000):
        put(expiry, first, ["3600"] * 1000)
        expiry.forget([(seq, b"s", 100) for seq in range(first - 1000, first) if seq > 0])

    assert len(expiry) < 40_000
    assert leave(expiry, 4000, 10**6) == list(range(399_001, 400_001))


def test_a_purge_takes_what_lies_below_it() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["5"] * 10)
    expiry.purged(6, everything=False)

    assert leave(expiry, 6) == [6, 7, 8, 9, 10]

    put(expiry, 11, ["5"] * 10, at=6)
    expiry.purged(21, everything=True)
    assert (len(expiry), leave(expiry, 99)) == (0, [])


def test_a_queue_that_an_update_made_needless_may_be_taken_from() -> None:
    expiry = Expiry(SECOND)
    put(expiry, 1, ["", ""])
    due = expiry.due(9 * SECOND, 10)
    expiry.configure(0)

    expiry.remove_due(due)

    assert len(expiry) == 0


def test_times_that_go_back_are_late_and_not_lost() -> None:
    expiry = Expiry(0)
    put(expiry, 1, ["5"], at=10)
    put(expiry, 2, ["5"], at=3)

    assert leave(expiry, 9) == []
    assert leave(expiry, 16) == [1, 2]
