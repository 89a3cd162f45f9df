"""The consumer, from pull request to frame, against a model of sets.

Rules publish, remove, pull for two clients, listen, acknowledge in every way, move time, pause,
unpin, lose the node with its newest state or with an older one. After each step every frame must
be one that the model allows, nothing that is due may be left, and the info must agree.
"""

# Subject: acks, random histories

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core.jetstream.consumer.runner import ConsumerRunner
from core.model.consumer import AckPolicy, PriorityPolicy
from core.pubsub.account import Subscription
from core.storage.interface import ConsumerRow
from core.units import Epoch
from tests.property.consumer_model import ConsumerModel
from tests.support.consumers import SECOND, FakeSession, FakeStream, Frames

T = TypeVar("T")
SUBJECTS = [b"s.a", b"s.b"]
CLIENTS = (b"a", b"b")
PRIORITY = {b"a": 1, b"b": 2}

shared = {
    "ack_policy": st.sampled_from([AckPolicy.EXPLICIT, AckPolicy.EXPLICIT, AckPolicy.ALL]),
    "max_deliver": st.sampled_from([-1, -1, 2, 3]),
    "max_ack_pending": st.sampled_from([-1, 1000, 3, 1]),
    "filter_subject": st.sampled_from(["", "s.a"]),
    "ack_wait": st.just(SECOND),
}
pulls = st.fixed_dictionaries(
    {**shared, "priority_policy": st.sampled_from(PriorityPolicy), "max_waiting": st.just(512)}
)
pushes = st.fixed_dictionaries(
    {
        **shared,
        "ack_policy": st.sampled_from(AckPolicy).filter(lambda p: p is not AckPolicy.FLOW_CONTROL),
        "deliver_subject": st.just("to.me"),
        "flow_control": st.booleans(),
    }
)


class ConsumerRules(RuleBasedStateMachine):
    """Both sides, driven by the same steps."""

    @initialize(config=st.one_of(pulls, pushes))
    def create(self, config: dict[str, Any]) -> None:
        self.loop = asyncio.new_event_loop()
        if config["ack_policy"] is AckPolicy.NONE:
            config = {**config, "max_ack_pending": 0, "max_deliver": -1, "ack_wait": 0}
        policy = config.get("priority_policy", PriorityPolicy.NONE)
        if policy is not PriorityPolicy.NONE:
            config = {**config, "priority_groups": ("g",)}
        if policy is PriorityPolicy.PINNED_CLIENT:
            config = {**config, "priority_timeout": 2 * SECOND}
        if config.get("flow_control"):
            config = {**config, "idle_heartbeat": 5 * SECOND}
        self.policy, self.is_push = policy, "deliver_subject" in config
        self.stream = FakeStream()
        self.clients = {c: Frames(self.stream.client(b"in." + c)) for c in CLIENTS}
        self.ear = FakeSession()
        self.subscription: Subscription | None = None
        self.heard = Frames(self.ear)
        self.run(self.stream.create(**config))
        self.model = ConsumerModel(
            wants=config["filter_subject"].encode(),
            acks=str(config["ack_policy"]),
            ack_wait=SECOND,
            max_deliver=config["max_deliver"],
            max_pending=config["max_ack_pending"] or -1,
        )
        self.demand = dict.fromkeys(CLIENTS, 0)
        self.paused_until = 0
        self.pins: dict[bytes, bytes] = {}
        self.replies: dict[int, bytes] = {}
        self.saved = self._snapshot()
        self.publish([b"s.a", b"s.b", b"s.a", b"s.a", b"s.a"], False)
        if self.is_push:
            self.listen_or_not()
        else:
            self.pull(b"a", 3, 0, False)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.loop.run_until_complete(wait())

    def do(self, call: Callable[..., Any], *args: Any) -> None:
        """Call something that wants the event loop to run."""

        async def wait() -> None:
            call(*args)

        self.loop.run_until_complete(wait())

    @property
    def now(self) -> int:
        return self.stream.clock.monotonic()

    @property
    def runner(self) -> ConsumerRunner:
        return self.stream.consumers["c"]

    # -- rules -------------------------------------------------------------------------------

    @rule(subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6), cold=st.booleans())
    def publish(self, subjects: list[bytes], cold: bool) -> None:
        first = self.stream.machine.last_seq + 1
        for seq, subject in enumerate(subjects, first):
            self.model.stored(seq, subject)
        self.do(self.stream.publish, *((subject, b"x") for subject in subjects))
        if cold:
            self.stream.forget_tail()
        self.observe()

    @precondition(lambda self: not self.is_push)
    @rule(
        client=st.sampled_from(CLIENTS),
        batch=st.integers(1, 5),
        expires=st.sampled_from([0, SECOND // 2, 30 * SECOND]),
        more=st.booleans(),
    )
    def pull(self, client: bytes, batch: int, expires: int, more: bool) -> None:
        body: dict[str, Any] = {"batch": batch}
        if expires:
            body["expires"] = expires
        if self.policy is not PriorityPolicy.NONE:
            body["group"] = "g"
        if self.policy is PriorityPolicy.PRIORITIZED:
            body["priority"] = PRIORITY[client]
        if self.policy is PriorityPolicy.OVERFLOW and more:
            body["min_pending"] = 3
        if self.policy is PriorityPolicy.PINNED_CLIENT and more:
            body["id"] = next((p.decode() for p, c in self.pins.items() if c == client), "")
        self.demand[client] += batch
        self.do(self.stream.pull, json.dumps(body).encode(), b"in." + client)
        self.observe()

    @precondition(lambda self: self.is_push)
    @rule()
    def listen_or_not(self) -> None:
        if self.subscription is None:
            self.subscription = Subscription(self.ear, b"to.me", b"", b"9")
            self.do(self.stream.account.add, self.subscription)
        else:
            self.do(self.stream.account.remove, self.subscription)
            self.subscription = None
        self.observe()

    @precondition(lambda self: self.replies)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["+ACK", "+ACK", "+ACK", "-NAK", "delay", "+WPI", "+TERM"]),
        again=st.booleans(),
    )
    def acknowledge(self, data: st.DataObject, kind: str, again: bool) -> None:
        seq = data.draw(st.sampled_from(sorted(self.replies)))
        cseq, floor = int(self.replies[seq].split(b".")[6]), self._floor()
        body = b'-NAK {"delay":600000000}' if kind == "delay" else kind.encode()
        self.do(self._acknowledge, self.replies[seq], body, 2 if again else 1)
        if kind in ("+ACK", "+TERM"):
            self.model.acked(seq, cseq, floor)
        elif kind == "+WPI":
            self.model.worked_on(seq, self.now)
        elif self.model.open.get(seq):
            self.model.refused(seq, cseq, floor, self.now, 600_000_000 * (kind == "delay"))
        self.observe()

    def _acknowledge(self, reply: bytes, body: bytes, times: int) -> None:
        for _ in range(times):
            self.stream.ack(reply, body)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        model = self.model
        # Where one removal acknowledges others, it must be known which still wait.
        seqs = [s for s in sorted(model.live) if model.acks != "all" or not self._may_be_over(s)]
        if seqs:
            seq = data.draw(st.sampled_from(seqs))
            if model.acks == "all" and seq in model.open:
                model.acked(seq, model.open[seq].cseq, self._floor())
            model.removed([seq])
            self.do(self.stream.remove, seq)
            self.observe()

    def _may_be_over(self, seq: int) -> bool:
        entry = self.model.open.get(seq)
        return entry is not None and self.model.is_over(entry, self.now)

    @precondition(lambda self: self.model.live)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        below = data.draw(st.sampled_from(sorted(self.model.live)))
        self.model.removed([s for s in {**self.model.live, **self.model.open} if s < below])
        self.do(self.stream.purge, below)
        self.observe()

    @rule(seconds=st.sampled_from([0.05, 0.4, 1.3, 3.0]))
    def let_time_pass(self, seconds: float) -> None:
        for _ in range(2):
            self.stream.clock.time += round(seconds * SECOND / 2)
            self.observe()

    @rule(seconds=st.sampled_from([0, 0, 1]))
    def pause(self, seconds: int) -> None:
        until = self.stream.clock.now() + seconds * SECOND
        self.run(self.stream.consumers.pause("c", until))
        self.paused_until = self.now + seconds * SECOND
        self.observe()

    @precondition(lambda self: self.policy is PriorityPolicy.PINNED_CLIENT)
    @rule()
    def unpin(self) -> None:
        self.runner.machine.unpin("g")
        self.do(self.runner.wake)
        self.observe()

    @rule()
    def save(self) -> None:
        """The state writer writes."""
        self.saved = self._snapshot()

    @rule(fresh=st.booleans())
    def crash(self, fresh: bool) -> None:
        """A new leader finds the log as it is, and the newest state or an older one."""
        if fresh:
            self.save()
        state, model = self.saved
        old = self.runner
        self.do(partial(old.close, deleted=False))
        self.stream.consumers.clear()
        self._forget_frames()
        model = copy.deepcopy(model)
        model.restarted(self.model.live)
        self.saved = state, copy.deepcopy(model)
        self.model = model
        model.removed([seq for seq in model.open if not self.stream.log.is_live(seq)])
        row = ConsumerRow(1, old.consumer, "c", old.created, Epoch(1), "", state)
        self.run(self.stream.consumers.restore(row, old.config))
        self.do(self.stream.consumers.start)
        self.do(self.stream.timers.at, self.runner, self.runner.deadline())
        self.demand = dict.fromkeys(CLIENTS, 0)
        self.observe()

    # -- what must hold ----------------------------------------------------------------------

    def observe(self) -> None:
        """Let everything happen that can, and check every frame that comes of it."""
        for _ in range(4):
            self.do(self.stream.timers.run)
            self.run(self.stream.rest())
            if not self._receive():
                break
        if self._waits() and self.now >= self.paused_until + SECOND // 100:
            assert not self.model.due(self.now), "somebody waits and something is due"

    def _waits(self) -> bool:
        if self.is_push:
            return self.subscription is not None
        served = self.policy in (PriorityPolicy.NONE, PriorityPolicy.PRIORITIZED)
        return served and any(self.demand.values())

    def _receive(self) -> int:
        found = [(frame, client) for client in CLIENTS for frame in self.clients[client].drain()]
        found += [(frame, b"") for frame in self.heard.drain()]
        messages = []
        for frame, client in found:
            if frame[1].startswith(b"$JS.ACK."):
                messages.append((int(frame[1].split(b".")[6]), frame, client))
            else:
                self._status(frame, client)
        for _, frame, client in sorted(messages, key=lambda message: message[0]):
            self._message(frame, client)
        return len(found)

    def _message(self, frame: tuple[bytes, bytes, bytes, bytes], client: bytes) -> None:
        subject, reply, headers, _ = frame
        assert self.now >= self.paused_until, "a paused consumer is silent"
        count, seq, cseq, _, left = (int(text) for text in reply.split(b".")[4:])
        assert self.model.live[seq] == subject
        self.model.delivered(seq, cseq, count, left, self.now)
        self.replies[seq] = reply
        if client:
            assert self.demand[client] > 0, "nobody asked for that many"
            self.demand[client] -= 1
        if self.policy is PriorityPolicy.PRIORITIZED and client == b"b":
            assert not self.demand[b"a"], "who has priority is served first"
        if self.policy is PriorityPolicy.PINNED_CLIENT:
            pin = headers.partition(b"Nats-Pin-Id: ")[2].split(b"\r\n")[0]
            assert pin
            assert self.pins.setdefault(pin, client) == client, "a pin has one client"

    def _status(self, frame: tuple[bytes, bytes, bytes, bytes], client: bytes) -> None:
        _, reply, headers, _ = frame
        if b"FlowControl Request" in headers:
            self.do(self.stream.account.publish, reply, b"", b"", b"")
        left = headers.partition(b"Nats-Pending-Messages: ")[2].split(b"\r\n")[0]
        if left:
            self.demand[client] -= int(left)
        elif client and b" 100 " not in headers:
            assert b" 423 " in headers, headers
            # The request ends without a word about what it wanted.
            self.demand[client] = max(self.demand[client], 1 << 20)

    def _forget_frames(self) -> None:
        self.run(self.stream.rest())
        for frames in (*self.clients.values(), self.heard):
            frames.drain()

    def _floor(self) -> tuple[int, int]:
        floor = self.runner.info().ack_floor
        return floor.stream_seq, floor.consumer_seq

    def _snapshot(self) -> tuple[bytes, ConsumerModel]:
        write = self.runner.state_write()
        assert write is not None
        return write.state, copy.deepcopy(self.model)

    @invariant()
    def info_agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        info, model = self.runner.info(), self.model
        assert info.num_pending == len(model.wanted())
        least, most = model.pending(self.now)
        assert least <= info.num_ack_pending <= most
        assert model.max_pending < 0 or least <= model.max_pending
        assert info.delivered.consumer_seq == model.cseq
        floor = info.ack_floor.stream_seq
        assert floor <= info.delivered.stream_seq
        assert all(seq > floor for seq in model.waiting(self.now))
        if model.acks == "all":
            assert floor >= model.floor
        elif not model.open and model.max_deliver < 0:
            assert floor == info.delivered.stream_seq
        assert info.paused == (self.now < self.paused_until)


TestConsumer = ConsumerRules.TestCase
TestConsumer.settings = settings(
    max_examples=200,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_the_model_sees_a_message_that_comes_after_its_acknowledgement() -> None:
    """The judge itself: what must not come is refused."""
    model = ConsumerModel(ack_wait=SECOND)
    model.stored(1, b"s.a")
    model.delivered(1, 1, 1, 0, 0)
    model.acked(1, 1, (0, 0))
    with pytest.raises(AssertionError, match="acknowledged"):
        model.delivered(1, 2, 2, 0, 5 * SECOND)
