"""A follower against an origin that a test plays, on a clock that a test moves."""

# Subject: mirrors and sources

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.jetstream.sourcing.origin import Origin, StartPosition
from core.jetstream.sourcing.origin_follower import FollowerPhase, OriginFollower
from core.jetstream.timers import Timers
from core.model.response import ErrorBody
from core.model.stream import ExternalStream, StreamConsumerSource, StreamSource
from core.pubsub.server import Hub
from core.runtime.loop_tick import LoopTick
from tests.support.consumers import SECOND, FakeClock

HEARTBEAT = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"
FLOW = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
_BEGINNING = StartPosition()
IDENTITY = b"NATS/1.0\r\nNats-Stream-Identity: %b\r\n\r\n"


class Played:
    """The account, its clock, one follower, and what it asked."""

    def __init__(self, source: StreamSource, start: StartPosition, *, mirrors: bool) -> None:
        self.clock = FakeClock()
        self.loop_tick = LoopTick()
        self.account = Hub(self.loop_tick, self.clock, server_name="test").accounts["$G"]
        self.timers = Timers(self.clock)
        shell = cast(
            Any, SimpleNamespace(clock=self.clock, timers=self.timers, loop_tick=self.loop_tick)
        )
        self.start = start
        origin = Origin(source, "C", "$G", "", mirrors=mirrors)
        self.asked: list[tuple[bytes, bytes, Any, bytes]] = []
        self.flows: list[tuple[bytes, bytes]] = []
        self.woken = 0
        self.account.subscribe(b"$JS.API.CONSUMER.>", self._asked)
        self.account.subscribe(b"$JS.FC.>", self._flow)
        self.follower = OriginFollower(
            self.account, shell, origin, lambda _: self.start, self._ready
        )
        self.follower.begin()

    def _asked(self, _: object, subject: bytes, reply: bytes, headers: bytes, body: bytes) -> None:
        self.asked.append((subject, reply, json.loads(body) if body else None, headers))

    def _flow(self, _: object, subject: bytes, reply: bytes, headers: bytes, body: bytes) -> None:
        self.flows.append((subject, headers))

    def _ready(self, follower: OriginFollower) -> None:
        self.woken += 1

    @property
    def config(self) -> dict[str, Any]:
        """The configuration asked for last."""
        return dict(next(body for _, _, body, _ in reversed(self.asked) if body)["config"])

    def answer(self, *, identity: bytes = b"one", behind: int = 0, **more: Any) -> None:
        """Say that the consumer asked for last is there."""
        delivered = {"consumer_seq": more.pop("cseq", 0), "stream_seq": behind}
        config = {"deliver_policy": "all", "ack_policy": more.pop("acks", "none")}
        body = {"stream_name": "S", "name": "N", "config": config, "delivered": delivered}
        self._reply(json.dumps(body).encode(), IDENTITY % identity)

    def refuse(self, err_code: int) -> None:
        """Refuse what was asked for last."""
        error = {"code": 400, "err_code": err_code, "description": "no"}
        self._reply(json.dumps({"error": error}).encode(), b"")

    def _reply(self, body: bytes, headers: bytes) -> None:
        self.account.publish(self.asked[-1][1], b"", headers, body)
        self.loop_tick.run()

    def deliver(self, *pairs: tuple[int, int], left: int = 0, headers: bytes = b"") -> None:
        """Deliver messages by (stream sequence, consumer sequence)."""
        to = self.config["deliver_subject"].encode()
        for sseq, cseq in pairs:
            reply = b"$JS.ACK.S.N.1.%d.%d.%d.%d" % (sseq, cseq, 1000 + sseq, left)
            self.account.send(to, b"s.%d" % sseq, reply, headers, b"m%d" % sseq)
        self.loop_tick.run()

    def control(self, headers: bytes, reply: bytes = b"") -> None:
        """Send a heartbeat or a flow-control request."""
        to = self.config["deliver_subject"].encode()
        self.account.send(to, to, reply, headers, b"")
        self.loop_tick.run()

    def store(self) -> list[int]:
        """Store what waits; returns its sequences."""
        found = self.follower.next_batch(100)
        assert found is not None, "nothing waits"
        run, reached = found
        self.start = StartPosition(run.through, run.identity)
        self.follower.on_stored(reached)
        return list(run.seqs)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.time += int(seconds * SECOND)
        self.timers.run()
        self.loop_tick.run()


def played(
    test: Callable[[Played], None],
    source: StreamSource,
    *,
    start: StartPosition = _BEGINNING,
    mirrors: bool = False,
) -> None:
    """Run a test with a follower that has just begun."""

    async def run() -> None:
        play = Played(source, start, mirrors=mirrors)
        test(play)
        play.follower.close(forget=False)
        play.timers.close()

    asyncio.run(run())


SOURCE = StreamSource(name="S")


def test_it_asks_at_once_and_follows() -> None:
    def test(play: Played) -> None:
        assert play.asked[0][0] == b"$JS.API.CONSUMER.CREATE.S"
        assert play.config["direct"] is play.config["sourcing"] is play.config["flow_control"]
        assert play.config["idle_heartbeat"] == SECOND
        assert b"Nats-Required-Api-Level: 5" in play.asked[0][3]

        play.answer()
        play.deliver((1, 1), (3, 2), left=1)

        assert play.follower.phase is FollowerPhase.FOLLOWING
        assert play.woken
        assert play.follower.info().lag == 0
        run, _ = cast(Any, play.follower.next_batch(100))
        assert (run.seqs, run.times, run.identity) == ([1, 3], [1001, 1003], "one")
        assert run.columns.headers[1] == (
            b"NATS/1.0\r\nNats-Stream-Source: S 3 > > s.3 one\r\n\r\n"
        )

    played(test, SOURCE)


def test_messages_before_the_answer_are_not_lost() -> None:
    def test(play: Played) -> None:
        play.deliver((1, 1))
        assert not play.follower.has_waiting()

        play.answer()

        assert play.store() == [1]

    played(test, SOURCE)


def test_a_missing_delivery_makes_it_ask_again_behind_what_is_stored() -> None:
    def test(play: Played) -> None:
        play.answer()
        play.deliver((1, 1), (2, 2))
        play.store()

        play.deliver((4, 4))

        assert play.follower.phase is FollowerPhase.IDLE
        play.wait(2)
        assert play.config["opt_start_seq"] == 3
        assert b"Nats-Stream-Identity: one" in play.asked[-1][3]
        play.answer(behind=2)
        play.deliver((3, 1), (4, 2))
        assert play.store() == [3, 4]

    played(test, SOURCE)


def test_a_source_that_cannot_store_shows_it_in_the_info() -> None:
    full = ErrorBody(code=503, err_code=10077, description="message 1: maximum bytes exceeded")

    def test(play: Played) -> None:
        play.answer()
        play.deliver((1, 1), (2, 2), (3, 3), (4, 4))

        play.follower.on_stalled(1, full)
        assert (play.follower.info().lag, play.follower.info().error) == (4, full)
        play.wait(2)
        play.answer()
        play.deliver((1, 1), (2, 2), left=3)
        assert play.follower.info().error == full, "it is not stored yet"
        play.follower.on_stalled(1, full)
        assert (play.follower.info().lag, play.follower.info().error) == (5, full)

        play.wait(4)
        play.answer()
        play.deliver((1, 1), (2, 2))
        play.store()
        assert (play.follower.info().lag, play.follower.info().error) == (0, None)

    played(test, SOURCE)


def test_a_message_that_was_left_out_shows_in_the_info() -> None:
    wide = ErrorBody(code=400, err_code=10097, description="message 1: header size exceeds ...")

    def test(play: Played) -> None:
        play.answer()
        play.deliver((1, 1), (2, 2))
        play.follower.on_left_out(wide)
        play.store()

        assert (play.follower.info().lag, play.follower.info().error) == (0, wide)

    played(test, SOURCE)


def test_it_does_not_ask_before_what_came_is_stored() -> None:
    def test(play: Played) -> None:
        play.answer()
        play.deliver((1, 1))
        found = play.follower.next_batch(100)
        assert found is not None
        play.follower.busy = True

        play.deliver((3, 3))
        play.wait(5)

        assert len(play.asked) == 1
        play.start = StartPosition(1, "one")
        play.follower.on_stored(found[1])
        assert play.config["opt_start_seq"] == 2

    played(test, SOURCE)


def test_a_heartbeat_reveals_missing_messages() -> None:
    def test(play: Played) -> None:
        play.answer()
        play.deliver((1, 1))
        play.store()
        play.control(HEARTBEAT % (1, 1))
        before = play.follower.phase

        play.control(HEARTBEAT % (2, 2))

        assert (before, play.follower.phase) == (FollowerPhase.FOLLOWING, FollowerPhase.IDLE)

    played(test, SOURCE)


def test_silence_makes_it_ask_again() -> None:
    def test(play: Played) -> None:
        play.answer()
        play.wait(9)
        play.control(HEARTBEAT % (0, 0))
        play.wait(9)
        assert len(play.asked) == 1

        play.wait(2)

        assert len(play.asked) == 2

    played(test, SOURCE)


def test_refusals_are_shown_and_tried_again_ever_more_seldom() -> None:
    def test(play: Played) -> None:
        pauses = []
        for _ in range(4):
            play.refuse(10059)
            error = play.follower.info().error
            assert error is not None
            assert error.err_code == 10059
            before, asked = play.clock.time, len(play.asked)
            while len(play.asked) == asked:
                play.wait(1)
            pauses.append((play.clock.time - before) // SECOND)
        assert pauses == [2, 4, 8, 16]
        play.answer()
        assert play.follower.info().error is None

    played(test, SOURCE)


def test_no_answer_is_a_refusal() -> None:
    def test(play: Played) -> None:
        play.wait(10)
        assert play.follower.phase is FollowerPhase.IDLE

        play.wait(2)

        assert len(play.asked) == 2

    played(test, SOURCE)


def test_flow_control_is_answered_when_all_before_it_is_stored() -> None:
    def test(play: Played) -> None:
        play.answer()
        play.deliver((1, 1), (2, 2))
        play.control(FLOW, b"$JS.FC.S.N.1")
        assert play.flows == []

        play.store()

        assert play.flows == [(b"$JS.FC.S.N.1", b"")]

    played(test, SOURCE)


def test_flow_control_before_the_answer_is_not_forgotten() -> None:
    def test(play: Played) -> None:
        play.deliver((1, 1))
        play.control(FLOW, b"$JS.FC.S.N.1")

        play.answer()
        play.store()

        assert play.flows == [(b"$JS.FC.S.N.1", b"")]

    played(test, SOURCE)


def test_stored_messages_are_acknowledged_to_a_durable_consumer() -> None:
    def test(play: Played) -> None:
        play.answer(acks="flow_control")
        play.deliver((5, 1), (7, 2))
        play.store()

        play.control(FLOW, b"$JS.FC.S.N.1")

        told = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 7\r\n\r\n"
        assert play.flows == [(b"$JS.FC.S.N.1", told)]

    played(test, SOURCE)


def test_a_durable_consumer_that_lost_its_position_gets_acks_for_its_own_messages_alone() -> None:
    """It ignores what it has not delivered yet, and with all it may have pending waits for ever."""

    def test(play: Played) -> None:
        play.answer(acks="flow_control")
        play.deliver((3, 1), (4, 2))
        assert play.store() == []

        play.control(FLOW, b"$JS.FC.S.N.1")

        told = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 4\r\n\r\n"
        assert play.flows == [(b"$JS.FC.S.N.1", told)]

    played(test, SOURCE, start=StartPosition(9, "one"))


def test_a_durable_consumer_that_went_on_starts_over() -> None:
    def test(play: Played) -> None:
        play.answer(acks="flow_control", cseq=9, behind=9)
        assert play.asked[-1][0].startswith(b"$JS.API.CONSUMER.RESET.S.JS_SRC_")
        play.deliver((10, 10))

        play.answer(acks="flow_control", behind=1)
        play.deliver((2, 1), (3, 2))

        assert play.store() == [3]

    played(test, SOURCE, start=StartPosition(2, "one"))


def test_a_consumer_that_is_reset_brings_nothing_twice() -> None:
    def test(play: Played) -> None:
        play.answer(acks="flow_control")
        play.deliver((1, 1), (2, 2))
        play.store()

        play.deliver((1, 1), (2, 2), (3, 3))

        assert play.store() == [3]

    played(test, SOURCE)


def test_another_stream_of_the_name_is_copied_from_its_beginning() -> None:
    def test(play: Played) -> None:
        play.refuse(10225)
        assert play.follower.forgets
        play.wait(2)
        play.answer(identity=b"two")
        assert play.follower.identity == "two"
        play.deliver((1, 1))
        assert play.store() == [1]
        assert not play.follower.forgets

    played(test, SOURCE)


def test_older_servers_are_asked_in_their_way() -> None:
    def test(play: Played) -> None:
        play.refuse(10025)
        play.wait(2)

        assert "sourcing" not in play.config
        assert play.asked[-1][3] == b""

    played(test, SOURCE)


def test_a_mirror_skips_what_the_origin_begins_behind() -> None:
    def test(play: Played) -> None:
        assert play.asked[0][3] == b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"

        play.answer(behind=41)

        found = play.follower.next_batch(100)
        assert found is not None
        assert (found[0].through, len(found[0])) == (41, 0)

    played(test, SOURCE, mirrors=True)


def test_a_consumer_made_beforehand_is_reset_and_must_acknowledge_by_flow() -> None:
    consumer = StreamConsumerSource(name="mine", deliver_subject="to.me")

    def test(play: Played) -> None:
        assert play.asked[0][0] == b"$JS.API.CONSUMER.RESET.S.mine"

        play.answer()

        error = play.follower.info().error
        assert error is not None
        assert error.err_code == 10217

    played(test, StreamSource(name="S", consumer=consumer))


def test_unreadable_messages_are_requested_again() -> None:
    def test(play: Played) -> None:
        play.answer()
        inbox: Any = play.follower._session
        inbox.out += [b"NONSENSE\r\n"]
        inbox.flush()

        assert play.follower.phase is FollowerPhase.IDLE
        play.wait(2)
        play.answer()
        play.deliver((1, 1))
        assert play.store() == [1]

    played(test, SOURCE)


@pytest.mark.parametrize("api", ["$JS.far.API", ""])
def test_an_origin_elsewhere_is_asked_by_its_prefix(api: str) -> None:
    external = ExternalStream(api=api, deliver="here")
    origin = Origin(StreamSource(name="S", external=external), "C", "$G", "d", mirrors=False)

    subject, _ = origin.create(StartPosition(), origin.deliver_subject(), plain=False)

    assert subject == f"{api or '$JS.API'}.CONSUMER.CREATE.S".encode()
    assert origin.deliver_subject().startswith("here.S.")
