"""Push delivery: interest, heartbeats, flow control."""

# Subject: push consumers

from core.model.consumer import AckPolicy, ReplayPolicy
from core.pubsub.account import Subscription
from core.rules.consumer.delivery.push import Push
from tests.support.consumers import SECOND, FakeSession, FakeStream, Frames, machine
from tests.support.scenario import running

PUSH = {"deliver_subject": "to.me", "ack_policy": AckPolicy.NONE}


def listen(stream: FakeStream, queue: bytes = b"") -> tuple[Subscription, Frames]:
    session = FakeSession()
    subscription = Subscription(session, b"to.me", queue, b"9")
    stream.account.add(subscription)
    return subscription, Frames(session)


@running
async def test_starts_with_a_subscriber_and_stops_without() -> None:
    stream = FakeStream()
    stream.publish((b"s.a", b"1"), (b"s.b", b"2"))
    runner = await stream.create(**PUSH)
    await stream.rest()
    assert not runner.info().push_bound
    subscription, frames = listen(stream)
    await stream.rest()
    assert runner.info().push_bound
    assert [(subject, payload) for subject, _, _, payload in frames.drain()] == [
        (b"s.a", b"1"),
        (b"s.b", b"2"),
    ]
    stream.account.remove(subscription)
    stream.publish((b"s.c", b"3"))
    await stream.rest()
    assert (runner.info().push_bound, runner.info().num_pending) == (False, 1)


@running
async def test_group_counts_only_its_own_members() -> None:
    stream = FakeStream()
    runner = await stream.create(**PUSH, deliver_group="g")
    listen(stream)
    await stream.rest()
    assert not runner.info().push_bound
    _, frames = listen(stream, b"g")
    stream.publish((b"s.a", b"1"))
    await stream.rest()
    assert runner.info().push_bound
    assert [payload for *_, payload in frames.drain()] == [b"1"]


@running
async def test_heartbeat_when_idle() -> None:
    stream = FakeStream()
    await stream.create(**PUSH, idle_heartbeat=SECOND)
    _, frames = listen(stream)
    await stream.advance(0.5)
    stream.publish((b"s.a", b"1"))
    await stream.advance(0.9)
    assert [payload for *_, payload in frames.drain()] == [b"1"]
    await stream.advance(0.2)
    ((subject, reply, headers, _),) = frames.drain()
    assert (subject, reply) == (b"to.me", b"")
    assert headers == (
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n"
    )


@running
async def test_redelivery_of_a_push_consumer() -> None:
    stream = FakeStream()
    stream.publish((b"s.a", b"1"))
    await stream.create(deliver_subject="to.me", ack_wait=SECOND)
    _, frames = listen(stream)
    await stream.advance(1.1)
    assert [reply.split(b".")[4] for _, reply, _, _ in frames.drain()] == [b"1", b"2"]


@running
async def test_flow_control_stalls_and_resumes() -> None:
    stream = FakeStream()
    await stream.create(**PUSH, flow_control=True, idle_heartbeat=SECOND)
    _, frames = listen(stream)
    payload = bytes(64 * 1024)
    for _ in range(3):
        stream.publish(*((b"s.a", payload) for _ in range(16)))
    await stream.rest()
    got = frames.drain()
    requests = [frame for frame in got if frame[2].startswith(b"NATS/1.0 100 FlowControl Request")]
    assert len(requests) == 1
    assert got.index(requests[0]) == 16
    assert len(got) == 33
    await stream.advance(1.1)
    ((_, _, headers, _),) = frames.drain()
    assert b"Nats-Consumer-Stalled: %b\r\n" % requests[0][1] in headers
    stream.account.publish(requests[0][1], b"", b"", b"")
    await stream.rest()
    assert len([frame for frame in frames.drain() if frame[3]]) == 16


@running
async def test_flow_control_asks_in_the_middle_of_a_large_batch() -> None:
    stream = FakeStream()
    stream.publish(*((b"s.a", bytes(64 * 1024)) for _ in range(40)))
    await stream.create(**PUSH, flow_control=True, idle_heartbeat=SECOND)
    _, frames = listen(stream)
    await stream.rest()
    got = frames.drain()
    assert len(got) == 33
    assert [index for index, frame in enumerate(got) if not frame[3]] == [16]


@running
async def test_new_subscriber_is_not_held_up_by_an_old_request() -> None:
    stream = FakeStream()
    await stream.create(**PUSH, flow_control=True, idle_heartbeat=SECOND)
    subscription, _ = listen(stream)
    stream.publish(*((b"s.a", bytes(64 * 1024)) for _ in range(40)))
    await stream.rest()
    stream.account.remove(subscription)
    _, frames = listen(stream)
    await stream.rest()
    assert len([frame for frame in frames.drain() if frame[3]]) == 8


def test_window_doubles_up_to_its_limit() -> None:
    push = Push(b"$JS.FC.S.c.", 0, 0, 0)
    push.start(0)
    for _ in range(6):
        request = push.count(push.window, 0)
        assert push.answered(request)
    assert push.window == 32 << 20


def test_rate_limit_lets_the_burst_through_and_then_waits() -> None:
    push = Push(b"", 0, 8_000, 1_000)
    push.start(0)
    assert push.fitting([400, 600, 1]) == 2
    push.count(1_000, 0)
    assert push.fitting([500]) == 0
    assert not push.is_open(499_000_000)
    assert push.deadline() == 500_000_000
    assert push.is_open(500_000_000)
    assert push.fitting([500, 1]) == 1


def test_a_message_beyond_the_burst_is_not_stuck() -> None:
    push = Push(b"", 0, 8_000, 1_000)
    push.start(0)
    assert push.fitting([5_000]) == 1


@running
async def test_original_replay_keeps_the_pauses_until_it_has_caught_up() -> None:
    stream = FakeStream()
    for pause in (0.0, 0.5, 0.0, 1.0):
        await stream.advance(pause)
        stream.publish((b"s.a", b"%d" % (pause * 10)))
    await stream.create(**PUSH, replay_policy=ReplayPolicy.ORIGINAL)
    _, frames = listen(stream)
    await stream.rest()
    assert [frame[3] for frame in frames.drain()] == [b"0"]
    await stream.advance(0.4)
    assert frames.drain() == []
    await stream.advance(0.2)
    assert [frame[3] for frame in frames.drain()] == [b"5", b"0"]
    await stream.advance(1.0)
    assert [frame[3] for frame in frames.drain()] == [b"10"]
    await stream.advance(0.5)
    stream.publish((b"s.a", b"live"))
    await stream.rest()
    assert [frame[3] for frame in frames.drain()] == [b"live"]


def test_a_message_that_can_be_paid_is_not_waited_for_again() -> None:
    m = machine(deliver_subject="d", rate_limit_bps=8_000)
    push = m.push
    assert push is not None
    push.start(0)
    push.count(1 << 20, 0)
    assert push.fitting([1_000]) == 0
    assert m.deadline() == SECOND
    m.expire(SECOND)
    assert m.deadline() is None


@running
async def test_rate_limit_over_a_consumer() -> None:
    stream = FakeStream()
    stream.publish(*((b"s.a", bytes(1000)) for _ in range(1100)))
    await stream.create(**PUSH, rate_limit_bps=8_000_000)
    _, frames = listen(stream)
    await stream.rest()
    burst = len(frames.drain())
    assert 900 < burst < 1050
    await stream.advance(0.05)
    assert 40 <= len(frames.drain()) <= 50
    await stream.advance(1.0)
    assert burst + len(frames.drain()) > 1000


@running
async def test_unbound_push_ephemeral_goes() -> None:
    stream = FakeStream()
    await stream.create(**PUSH, durable_name="", inactive_threshold=SECOND)
    subscription, _ = listen(stream)
    await stream.advance(3)
    assert "c" in stream.consumers
    stream.account.remove(subscription)
    await stream.advance(1.2)
    assert "c" not in stream.consumers


@running
async def test_ordered_consumer_sequences_are_contiguous() -> None:
    stream = FakeStream()
    await stream.create(**PUSH, durable_name="", max_deliver=1, filter_subject="s.a")
    _, frames = listen(stream)
    for i in range(20):
        stream.publish((b"s.a" if i % 3 else b"s.b", b""))
    await stream.rest()
    assert [int(reply.split(b".")[6]) for _, reply, _, _ in frames.drain()] == list(range(1, 14))
