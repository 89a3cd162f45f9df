"""Histories that the random runs of `test_consumer_machine.py` found, with fixed steps.

nats-server 2.15.1 gave the same numbers: after a kill over an older `o.dat` of the consumer, or
over the protocol (`regressions/test_delivery.py`).
"""

# Subject: acks, crashes

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from core.model.consumer import AckPolicy
from tests.property.test_consumer_machine import ConsumerRules
from tests.support.consumers import SECOND


@dataclass
class Drawn:
    """A source of data with one value."""

    value: int

    def draw(self, _: Any) -> int:
        return self.value


class History(ConsumerRules):
    """The rules with fixed arguments; every step is checked."""

    def start(self, **config: Any) -> None:
        shared = {"max_deliver": -1, "max_ack_pending": 3, "filter_subject": ""}
        self.create(config=shared | {"ack_wait": SECOND} | config)
        self.info_agrees()

    def ack(self, seq: int, kind: str = "+ACK") -> None:
        self.acknowledge(data=_drawn(seq), kind=kind, again=False)
        self.info_agrees()

    def delete(self, seq: int) -> None:
        self.remove(data=_drawn(seq))
        self.info_agrees()

    def pull_from_a(self, batch: int) -> None:
        self.pull(client=b"a", batch=batch, expires=0, more=False)
        self.info_agrees()

    def lose_newest_state(self) -> None:
        self.crash(fresh=False)
        self.info_agrees()

    def acks(self) -> tuple[int, int, int]:
        """The ack floor as (stream, consumer), and the number of pending messages."""
        return (*self._floor(), self.runner.info().num_ack_pending)


def _drawn(value: int) -> st.DataObject:
    return cast("st.DataObject", Drawn(value))


@pytest.fixture
def history() -> Iterator[History]:
    found = History()
    yield found
    found.teardown()


@pytest.mark.parametrize("policy", [AckPolicy.ALL, AckPolicy.EXPLICIT])
def test_an_ack_of_a_delivery_that_the_state_lacks_is_ignored(
    history: History, policy: AckPolicy
) -> None:
    history.start(ack_policy=policy, deliver_subject="to.me")
    history.save()
    history.ack(1)
    assert 4 in history.replies
    history.lose_newest_state()
    history.ack(4)
    assert history.acks() == (0, 0, 3)
    history.ack(3)
    assert history.acks()[2] == (2 if policy is AckPolicy.ALL else 3)


def test_a_nak_of_a_redelivery_that_the_state_lacks_redelivers(history: History) -> None:
    history.start(ack_policy=AckPolicy.EXPLICIT)
    history.save()
    history.ack(2, "-NAK")
    history.pull_from_a(1)
    assert history.replies[2].startswith(b"$JS.ACK.S.c.2.2.4.")
    history.lose_newest_state()
    history.ack(2, "-NAK")
    history.replies.clear()
    history.pull_from_a(1)
    assert history.replies[2].startswith(b"$JS.ACK.S.c.2.2.4.")


def test_an_ack_all_below_the_consumer_sequence_of_the_floor_is_ignored(history: History) -> None:
    history.start(ack_policy=AckPolicy.ALL)
    history.ack(2, "-NAK")
    history.pull_from_a(1)
    history.ack(2)
    assert history.acks() == (2, 4, 1)
    history.ack(3)
    assert history.acks() == (2, 4, 1)


def test_a_message_removed_after_the_stored_state_is_pending_until_its_redelivery(
    history: History,
) -> None:
    history.start(ack_policy=AckPolicy.EXPLICIT)
    history.save()
    history.delete(2)
    history.publish(subjects=[b"s.a"], cold=True)
    history.lose_newest_state()
    history.lose_newest_state()  # Now the log has forgotten that it had the message.
    assert history.acks() == (0, 0, 3)
    history.let_time_pass(seconds=1.3)
    history.replies.clear()
    history.pull_from_a(3)
    assert sorted(history.replies) == [1, 3, 4]


def test_a_removal_of_the_last_message_leaves_the_floor_of_ack_all_there(history: History) -> None:
    history.start(ack_policy=AckPolicy.ALL, filter_subject="s.a", max_ack_pending=-1)
    history.publish(subjects=[b"s.b"], cold=False)
    history.pull_from_a(1)
    history.pull_from_a(1)
    history.purge(data=_drawn(1))
    assert history.runner.info().delivered.stream_seq == 6
    history.delete(5)
    assert history.acks() == (5, 4, 0)
