"""Priority groups: who is served, and that nobody is asked in vain."""

# Subject: pull consumers

from typing import Any

from core.model.consumer import PriorityPolicy
from core.rules.consumer.events import Pinned, Unpinned
from core.rules.consumer.machine import ConsumerMachine
from tests.support.consumers import FakeStream, Frames, machine
from tests.support.scenario import running


def _machine(policy: PriorityPolicy, **config: Any) -> ConsumerMachine:
    return machine(priority_policy=policy, priority_groups=("g",), **config)


def _owners(m: ConsumerMachine, count: int, now: int = 1) -> list[bytes]:
    return [request.reply for request in m.waiting.assign(count, now)]


def test_overflow_waits_for_enough_pending() -> None:
    m = _machine(PriorityPolicy.OVERFLOW)
    m.request(b'{"group":"g","batch":9,"min_pending":3}', b"r", 1)
    m.stored(2)
    assert not m.waiting.can_serve()
    m.stored(2)
    assert m.waiting.can_serve()
    assert _owners(m, 4) == [b"r", b"r"]


def test_overflow_counts_what_is_being_given_away_as_open() -> None:
    m = _machine(PriorityPolicy.OVERFLOW)
    m.stored(3)
    m.request(b'{"group":"g","batch":9,"min_ack_pending":1}', b"r", 1)
    m.request(b'{"group":"g"}', b"q", 1)
    assert _owners(m, 3) == [b"q", b"r", b"r"]


def test_prioritized_serves_the_lowest_number_in_turn() -> None:
    m = _machine(PriorityPolicy.PRIORITIZED)
    m.stored(9)
    m.request(b'{"group":"g","batch":2,"priority":3}', b"c", 1)
    m.request(b'{"group":"g","batch":2,"priority":1}', b"a", 1)
    m.request(b'{"group":"g","batch":1,"priority":1}', b"b", 1)
    assert _owners(m, 9) == [b"a", b"b", b"a", b"c", b"c"]


def test_one_client_has_the_pin_until_it_is_taken() -> None:
    m = _machine(PriorityPolicy.PINNED_CLIENT, priority_timeout=100)
    m.stored(9)
    m.request(b'{"group":"g","batch":5}', b"a", 1)
    m.request(b'{"group":"g","batch":1}', b"b", 1)
    assert _owners(m, 2) == [b"a", b"a"]
    m.expire(101)
    assert m.events == [Pinned("g", "1"), Unpinned("g", "timeout")]
    assert _owners(m, 1, 102) == [b"b"]
    assert m.waiting.pin == "2"
    assert _owners(m, 1, 103) == []
    assert m.outbox[0][1].startswith(b"NATS/1.0 423 Nats-Wrong-Pin-Id\r\n")


def test_a_change_of_policy_keeps_the_waiting_requests() -> None:
    m = _machine(PriorityPolicy.OVERFLOW)
    m.request(b'{"group":"g"}', b"a", 1)
    m.configure(machine().config)
    assert _owners(m, 1) == [b"a"]


@running
async def test_a_request_that_is_not_served_yet_costs_nothing() -> None:
    stream = FakeStream()
    consumer = await stream.create(priority_policy=PriorityPolicy.OVERFLOW, priority_groups=("g",))
    frames = Frames(stream.client(b"in.1"))
    stream.pull(b'{"group":"g","min_pending":3}')
    stream.publish((b"s.a", b"1"), (b"s.a", b"2"))
    await stream.rest()
    assert frames.drain() == []
    assert not stream.loop_tick.ready, "nothing spins"
    stream.publish((b"s.a", b"3"))
    await stream.rest()
    assert [frame[3] for frame in frames.drain()] == [b"1"]
    assert consumer.info().priority_groups[0].group == "g"
