"""The parts of subscriptions that need no server: the watch over heartbeats, limits, targets."""

# Subject: gateway client

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from core.client.msg import Msg
from core.client.subscribe import (
    BufferLimits,
    Position,
    PushSettings,
    Reason,
    SubscribeError,
    SubscriptionTarget,
)
from core.client.subscribe.acks import JsMsg
from core.client.subscribe.message_buffer import MessageBuffer
from core.client.subscribe.status import Control, HeartbeatWatch
from core.client.subscribe.target import DeliveryKind
from core.model.consumer import AckPolicy
from tests.unit.client.scripted import run


class DrivenLoop:
    """The clock and timers of a loop, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None], DrivenTimer]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> "DrivenTimer":
        timer = DrivenTimer()
        self.timers.append((when, call, timer))
        return timer

    def call_later(self, delay: float, call: Callable[[], None]) -> "DrivenTimer":
        return self.call_at(self.now + delay, call)

    def move(self, to: float) -> None:
        """Move on, and fire what becomes due on the way."""
        while due := sorted((t for t in self.timers if t[0] <= to), key=lambda t: t[0]):
            self.timers.remove(due[0])
            self.now, call, timer = due[0]
            if not timer.is_cancelled:
                call()
        self.now = to


class DrivenTimer:
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def test_the_alarm_comes_after_the_last_sign_of_life_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, alarms = DrivenLoop(), list[float]()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    watch = HeartbeatWatch(15.0, lambda _: alarms.append(loop.now))
    watch.start()
    for now in (5.0, 10.0, 24.0):
        loop.move(now)
        watch.reset()
    loop.move(38.9)
    assert alarms == []
    loop.move(70.0)
    assert alarms == [39.0, 54.0, 69.0]
    watch.reset()
    loop.move(84.0)
    assert alarms == [39.0, 54.0, 69.0]
    watch.stop()
    loop.move(200.0)
    assert len(alarms) == 3


def test_without_heartbeats_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = DrivenLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    HeartbeatWatch(0.0, lambda _: None).start()
    assert loop.timers == []


def test_the_headers_of_a_heartbeat_are_read_whatever_their_case() -> None:
    block = (
        b"NATS/1.0 100 Idle Heartbeat\r\nNATS-LAST-CONSUMER: 7\r\nnats-consumer-stalled: x\r\n\r\n"
    )
    control = Control(Msg(b"in", b"", block, b""))
    assert (control.last_consumer, control.answer) == (7, b"x")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"subject": "a b"}, Reason.BAD_SUBJECT),
        ({"subject": "a\r\nPUB b"}, Reason.BAD_SUBJECT),
        ({"stream": "S.T"}, Reason.BAD_NAME),
        ({"stream": "S", "durable": "a b"}, Reason.BAD_NAME),
        ({"stream": "S", "queue": "q\r\nPUB"}, Reason.BAD_NAME),
        ({"stream": "S", "consumer": "C", "durable": "D"}, Reason.TWO_NAMES),
        ({"stream": "S", "config": {"durable_name": "D"}}, Reason.RESERVED),
        ({"subject": "a", "config": {"filter_subject": "b"}}, Reason.RESERVED),
        ({"subject": "a", "config": {"what": 1}}, Reason.UNKNOWN_SETTING),
    ],
)
def test_a_target_that_contradicts_itself_is_refused(given: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(SubscribeError) as caught:
        SubscriptionTarget(**given).check(DeliveryKind.PUSH)
    assert caught.value.reason is reason


def test_a_pull_target_takes_what_pull_consumers_have() -> None:
    SubscriptionTarget("a", durable="D", config={"ack_policy": AckPolicy.EXPLICIT}).check(
        DeliveryKind.PULL
    )
    for given in ({"queue": "q"}, {"config": {"deliver_subject": "x"}}):
        with pytest.raises(SubscribeError):
            SubscriptionTarget(subject="a", **given).check(DeliveryKind.PULL)


def test_a_handler_needs_a_receiver_of_alarms() -> None:
    with pytest.raises(ValueError, match="on_alarm"):
        PushSettings(handler=lambda messages: None)


@pytest.mark.parametrize("text", ["0:0", "1700000000000000000:42", "1:9999999999999999999"])
def test_a_position_is_text_and_back(text: str) -> None:
    assert str(Position.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "1", ":1", "1:", "-1:1", "1:+1", "1:1:1", "١:١", "1:" + "9" * 20]
)
def test_invalid_positions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Position.parse(text)


def test_an_inbox_has_one_reader_with_a_request() -> None:
    async def scenario() -> None:
        inbox: MessageBuffer[JsMsg] = MessageBuffer(BufferLimits(1, 1))
        with pytest.raises(ValueError, match="nothing"):
            await inbox.batch(0, 1, None)
        reading = asyncio.create_task(inbox.batch(1, 1, None))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await inbox.batch(1, 1, None)
        inbox.end()
        assert await reading == []

    run(scenario())


def test_unread_alarms_are_bounded() -> None:
    inbox: MessageBuffer[JsMsg] = MessageBuffer(BufferLimits(1, 1))
    for _ in range(1000):
        inbox.put_alarm(SubscribeError(Reason.DUPLICATE))
    raised = 0
    while not inbox.is_empty:
        with pytest.raises(SubscribeError):
            inbox.pop(1, 1)
        raised += 1
    assert raised == 64
