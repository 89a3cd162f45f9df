"""Fakes for tests of consumers: a stream, a client session, a clock, a state writer and a store.

The consumer runner and the log of the stream are those of the product; no test opens a socket.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any

from msgspec.structs import replace

from core.auth.grant import Guard
from core.cluster.replica_groups import stream_group
from core.jetstream.advisories import Advisories
from core.jetstream.consumer.consumers import Consumers
from core.jetstream.consumer.listeners import make_push
from core.jetstream.consumer.runner import ConsumerRunner
from core.jetstream.log.stream_log import StreamLog
from core.model.consumer import AckPolicy, ConsumerConfig
from core.model.segment import Segment
from core.model.stream import StreamConfig
from core.protocol.messages import MessageColumns
from core.pubsub.account import Subscription
from core.pubsub.server import Hub
from core.rules.consumer.machine import ConsumerMachine
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import PlanBuilder, StreamPlan
from core.rules.stream.plans.planner import decide
from core.runtime.loop_tick import LoopTick
from core.storage.interface import Head
from core.units import Epoch, LeaseGroup, Nanos
from tests.support.memory_store import MemoryStore, Row
from tests.support.streams import services

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


class FakeClock:
    """A clock that stands still until a test advances it. Its times are in nanoseconds."""

    def __init__(self) -> None:
        self.time = 1_000 * SECOND

    def now(self) -> Nanos:
        return Nanos(START + self.time)

    def monotonic(self) -> Nanos:
        return Nanos(self.time)


class FakeSession:
    """A client connection without a socket: collects in `received` the bytes for the client."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.blocked = False
        self.on_writable: list[Callable[[], None]] = []
        self.closed = False
        self.headers = True
        self.echo = True
        self.client_id = 1
        self.user = ""
        self.guard: Guard | None = None
        self.received = b""

    def flush(self) -> None:
        self.received += b"".join(self.out)
        self.out.clear()

    def forget(self, subscription: Subscription) -> None:
        """Do nothing: this session keeps no subscriptions."""


class FakeStates:
    """A writer of consumer states that commits only when the test calls `commit`."""

    def __init__(self) -> None:
        self.marked: dict[Any, None] = {}
        self.waiting: list[Callable[[], None]] = []

    def mark(self, consumer: Any) -> None:
        self.marked[consumer] = None

    def sync(self, consumer: Any, done: Callable[[], None]) -> None:
        self.mark(consumer)
        self.waiting.append(done)

    def commit(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.marked.clear()
        for done in waiting:
            done()


class SlowStore(MemoryStore):
    """An in-memory store that counts reads of messages; each read takes one event-loop tick."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.reads = 0

    async def range(self, stream: int, partition: int, seq: int, limit: int) -> Segment | None:
        self.reads += 1
        await asyncio.sleep(0)
        return await super().range(stream, partition, seq, limit)

    async def points(self, stream: int, partition: int, seqs: Sequence[int]) -> Segment | None:
        self.reads += 1
        await asyncio.sleep(0)
        return await super().points(stream, partition, seqs)


class FakeStream:
    """A `ConsumedStream` (the interface of a stream for its consumers) over an in-memory store.

    `publish` commits at once. The log keeps the newest messages in memory (the tail);
    `forget_tail` empties it, so that consumers read messages from the store.
    """

    def __init__(self, *, name: str = "S") -> None:
        self.clock = FakeClock()
        self.loop_tick = LoopTick()
        self.hub = Hub(self.loop_tick, self.clock)
        self.account = self.hub.accounts["$G"]
        self.states = FakeStates()
        self.store = SlowStore(Head(Epoch(1), 0, 0, 0, 0, 0))
        self.services = services(self.store, self.clock, self.loop_tick, states=self.states)
        self.timers = self.services.timers
        self.epoch = Epoch(1)
        self.name = name
        self.config = StreamConfig(name=name, subjects=("s.>",))
        self.machine = StreamMachine(replace(self.config, max_msg_size=-1))
        self.log = StreamLog(
            1,
            0,
            name,
            self.machine,
            self.services.reader,
            self.services.tails,
            self.services.committer,
            self.services.janitor,
        )
        self.group = stream_group(1, LeaseGroup(0), self.config)
        self.advisories = Advisories(self.account, self.clock)
        self.settled: list[list[int]] = []
        self.consumers = Consumers(self)

    # The interface for consumers.

    @property
    def rows(self) -> dict[int, Row]:
        """The stored messages, by sequence."""
        return self.store.rows

    @property
    def reads(self) -> int:
        """The number of reads of messages from the store since the beginning."""
        return self.store.reads

    def publish(self, *messages: tuple[bytes, bytes], header: bytes | None = None) -> None:
        """Commit messages given as (subject, payload), and notify the consumers of them.

        `header` is the header block of each message.
        """
        columns = MessageColumns()
        for subject, payload in messages:
            columns.add(subject, b"", header or b"", payload)
        plan = decide(self.machine, columns, self.clock.now()).build()
        segment = plan.segment
        assert segment is not None, "nothing is refused here"
        self._commit(plan)
        self.log.tail.append(segment)
        counts = Counter(segment.subjects)
        for consumer in self.consumers.values():
            consumer.on_stored(segment, counts)

    def _commit(self, plan: StreamPlan) -> None:
        self.store.commit(plan)
        self.machine.apply(plan)

    def _without(self, seqs: Iterable[int]) -> PlanBuilder:
        """Return the uncommitted change that removes messages from state and storage."""
        plan = self.machine.unchanged()
        for seq in seqs:
            row = self.rows[seq]
            size = self.machine.record_size.of(row.subject, row.headers, len(row.payload))
            self.machine.remove(plan, seq, row.subject, size)
            plan.erased.append(seq)
        left = self.rows.keys() - set(plan.erased)
        plan.first_seq = min(left, default=self.machine.last_seq + 1)
        return plan

    def remove(self, *seqs: int, told: bool = True) -> None:
        """Delete single messages; the in-memory tail still contains them.

        With `told=False` the consumers are not notified of the removal, as after a crash.
        """
        plan = self._without(seqs).build()
        self._commit(plan)
        self.log.removed.hide(seqs, plan.record)
        pairs = [(seq, subject) for seq, subject, _ in plan.removed]
        for consumer in self.consumers.values() if told else ():
            consumer.on_removed(pairs)

    def purge(self, below: int | None = None) -> None:
        """Remove all messages, or those below a sequence, and notify the consumers."""
        first = below or self.machine.last_seq + 1
        plan = self._without([seq for seq in self.rows if seq < first])
        plan.first_seq = first
        self._commit(plan.build())
        for consumer in self.consumers.values():
            consumer.on_purged(first)

    def forget_tail(self) -> None:
        """Empty the in-memory tail, so that consumers read stored messages from the store."""
        self.log.tail.clear(self.machine.last_seq + 1)

    def mark_settled(self, sseqs: Sequence[int]) -> None:
        """Append the stream sequences that a consumer has finished to `settled`."""
        self.settled.append(list(sseqs))

    async def less_wanted(self, start: int = 0) -> None:
        """Do nothing: retention is not part of these tests."""

    async def caught_up(self) -> None:
        """Return at once: no message has to be removed."""

    # The interface for tests.

    def client(self, *subjects: bytes, queue: bytes = b"") -> FakeSession:
        """Return a new session that subscribes to these subjects with sids 1, 2, ...

        `queue` is the queue group of each subscription; empty for none.
        """
        session = FakeSession()
        for sid, subject in enumerate(subjects, 1):
            self.account.add(Subscription(session, subject, queue, b"%d" % sid))
        return session

    async def create(self, **config: Any) -> ConsumerRunner:
        """Create a consumer; by default its name is "c" and its acks are explicit."""
        self.consumers.start()
        given = {"name": "c", "durable_name": "c", "ack_policy": AckPolicy.EXPLICIT} | config
        return await self.consumers.create(ConsumerConfig(**given))

    def pull(self, body: bytes = b"", reply: bytes = b"in.1", consumer: str = "c") -> None:
        """Send a pull request; messages go to the subject `reply`."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.{consumer}".encode()
        self.account.publish(subject, reply, b"", body)

    def ack(self, subject: bytes, payload: bytes = b"", reply: bytes = b"") -> None:
        """Send an acknowledgement to `subject`, the reply subject of the delivered message."""
        self.account.deliver_ack(None, subject, reply, b"", payload)

    async def rest(self) -> None:
        """Run the event loop for 20 ticks, which is enough for all pending work."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Advance the clock by some seconds, in steps of 10 ms, and run the timers that are due."""
        end = self.clock.time + round(seconds * SECOND)
        while self.clock.time < end:
            self.clock.time = min(self.clock.time + 10_000_000, end)
            self.timers.run()
            await self.rest()


class Frames:
    """A decoder of the MSG and HMSG frames that a `FakeSession` has received."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.at = 0

    def drain(self) -> list[tuple[bytes, bytes, bytes, bytes]]:
        """Return the frames since the last call, as (subject, reply, headers, payload)."""
        data, frames = self.session.received, []
        while self.at < len(data):
            end = data.index(b"\r\n", self.at)
            verb, subject, _, *rest = data[self.at : end].split(b" ")
            numbers = 2 if verb == b"HMSG" else 1
            reply = rest[0] if len(rest) > numbers else b""
            total = int(rest[-1])
            cut = int(rest[-2]) if verb == b"HMSG" else 0
            body = data[end + 2 : end + 2 + total]
            frames.append((subject, reply, body[:cut], body[cut:]))
            self.at = end + 2 + total + 2
        return frames


def machine(next_seq: int = 1, **config: Any) -> ConsumerMachine:
    """Return the state machine of a consumer; acks are explicit unless `config` differs.

    Its pin ids are "1", "2", ...; `next_seq` is the first stream sequence to deliver.
    """
    defaults = {"ack_policy": AckPolicy.EXPLICIT, "max_waiting": 512, "max_deliver": -1}
    given: dict[str, Any] = defaults | config
    complete = ConsumerConfig(**given)
    pins = map(str, count(1))
    return ConsumerMachine(
        complete, next_seq, push=make_push(complete, b"S", "c"), new_pin=partial(next, pins)
    )
