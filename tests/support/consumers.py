"""A stream, a session and a clock for consumer tests: the real runner, no storage, no sockets."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from itertools import count
from types import SimpleNamespace
from typing import Any

from core.auth.grant import Guard
from core.consumer.machine import ConsumerMachine
from core.jetstream.advisories import Advisories
from core.jetstream.consumer_push import make_push
from core.jetstream.consumer_runner import ConsumerRunner
from core.jetstream.consumers import Consumers
from core.jetstream.timers import Timers
from core.model.consumer import AckPolicy, ConsumerConfig
from core.model.stream import StreamConfig
from core.pubsub.account import Subscription
from core.pubsub.server import Hub
from core.runtime.turn import Turn
from core.stream.segment import Segment
from core.subjects.subject import compile_filters

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


class FakeClock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.time = 1_000 * SECOND

    def now(self) -> int:
        return START + self.time

    def monotonic(self) -> int:
        return self.time


class FakeSession:
    """What a client would have received."""

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
        """Nothing is kept here."""


class FakeStates:
    """A state writer that commits when the test says so, or at once."""

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


class FakeStream:
    """A stream in memory: `publish` commits at once, `forget_tail` makes everything cold."""

    def __init__(self, *, name: str = "S") -> None:
        self.clock = FakeClock()
        self.turn = Turn()
        self.hub = Hub(self.turn, self.clock)
        self.account = self.hub.accounts["$G"]
        self.states = FakeStates()
        self.timers = Timers(self.clock)
        self.shell = SimpleNamespace(
            clock=self.clock,
            turn=self.turn,
            states=self.states,
            timers=self.timers,
            domain="",
            server_name="n",
            reader=SimpleNamespace(points=self._points),
        )
        self.stream, self.shelf, self.epoch = 1, 0, 1
        self.name, self.nameb = name, name.encode()
        self.config = StreamConfig(name=name, subjects=("s.>",))
        self.machine = SimpleNamespace(first_seq=1, last_seq=0, msgs=0)
        self.rows: dict[int, tuple[int, bytes, bytes | None, bytes]] = {}
        self.segments: list[Segment] = []
        self.tail_start = 1
        self.dead: set[int] = set()
        self.reads = 0
        self.advisories = Advisories(self.account, self.clock)
        self.settled: list[list[int]] = []
        self.consumers = Consumers(self)  # type: ignore[arg-type]  # a double

    # the stream's side

    def publish(self, *messages: tuple[bytes, bytes], header: bytes | None = None) -> None:
        """Commit messages given as (subject, payload)."""
        first = self.machine.last_seq + 1
        times = [self.clock.now() + i for i in range(len(messages))]
        subjects = [subject for subject, _ in messages]
        payloads = [payload for _, payload in messages]
        segment = Segment(
            range(first, first + len(messages)),
            times,
            subjects,
            None if header is None else [header] * len(messages),
            payloads,
            sum(map(len, payloads)),
        )
        for i, seq in enumerate(segment.seqs):
            self.rows[seq] = (times[i], subjects[i], header, payloads[i])
        self.machine.last_seq += len(messages)
        self.machine.msgs += len(messages)
        self.segments.append(segment)
        counts: dict[bytes, int] = {}
        for subject in subjects:
            counts[subject] = counts.get(subject, 0) + 1
        for consumer in self.consumers.values():
            consumer.on_stored(segment, counts)

    def remove(self, *seqs: int) -> None:
        """Delete single messages; the tail still holds them."""
        pairs = [(seq, self.rows.pop(seq)[1]) for seq in seqs]
        self.dead.update(seqs)
        self.machine.msgs -= len(seqs)
        self.machine.first_seq = min(self.rows, default=self.machine.last_seq + 1)
        for consumer in self.consumers.values():
            consumer.on_removed(pairs)

    def purge(self, below: int | None = None) -> None:
        """Remove everything, or everything below a sequence."""
        first = below or self.machine.last_seq + 1
        self.rows = {seq: row for seq, row in self.rows.items() if seq >= first}
        self.machine.first_seq = first
        self.machine.msgs = len(self.rows)
        for consumer in self.consumers.values():
            consumer.on_purged(first)

    def forget_tail(self) -> None:
        """From here on older messages have to be read."""
        self.segments.clear()
        self.tail_start = self.machine.last_seq + 1

    def tail_at(self, seq: int) -> tuple[Segment, int] | None:
        if seq < self.tail_start:
            return None
        for segment in self.segments:
            if segment.last >= seq:
                return segment, segment.index(seq)
        return None

    def is_live(self, seq: int) -> bool:
        return seq >= self.machine.first_seq and seq not in self.dead

    def live(self, segment: Segment) -> Segment | None:
        return self._segment([seq for seq in segment.seqs if self.is_live(seq)])

    async def read(self, seq: int, limit: int) -> Segment | None:
        self.reads += 1
        await asyncio.sleep(0)
        return self._segment([s for s in sorted(self.rows) if s >= seq][:limit])

    async def _points(self, stream: int, shelf: int, seqs: Sequence[int]) -> Segment | None:
        self.reads += 1
        await asyncio.sleep(0)
        return self._segment([seq for seq in seqs if seq in self.rows])

    def _segment(self, seqs: Iterable[int]) -> Segment | None:
        seqs = list(seqs)
        if not seqs:
            return None
        rows = [self.rows[seq] for seq in seqs]
        return Segment(
            seqs,
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows] if any(row[2] for row in rows) else None,
            [row[3] for row in rows],
            0,
        )

    def count_at_once(self, match: object, filters: object) -> None:
        """Have everything counted behind."""

    async def first_message(self) -> None:
        """What makes `first_seq` exact; here it always is."""

    async def count_from(
        self, seq: int, match: Callable[[bytes], bool] | None, filters: Sequence[bytes]
    ) -> int:
        return sum(1 for s, row in self.rows.items() if s >= seq and (not match or match(row[1])))

    async def subjects_matching(self, filters: Sequence[bytes]) -> list[tuple[bytes, int, int]]:
        match = compile_filters(filters)
        found: dict[bytes, tuple[int, int]] = {}
        for seq, row in sorted(self.rows.items()):
            if match is None or match(row[1]):
                found[row[1]] = (found.get(row[1], (0, 0))[0] + 1, seq)
        return [(subject, count, last) for subject, (count, last) in found.items()]

    async def first_at_time(self, ns: int) -> int:
        found = (seq for seq, row in sorted(self.rows.items()) if row[0] >= ns)
        return next(found, self.machine.last_seq + 1)

    def on_acked(self, consumer: ConsumerRunner, sseqs: Sequence[int]) -> None:
        self.settled.append(list(sseqs))

    async def less_wanted(self) -> None:
        """Retention is not part of these tests."""

    async def save_consumer(self, name: str, created: int, config: str, state: bytes) -> int:
        return len(self.consumers) + 1

    async def change_consumer(self, consumer: int, config: str) -> None:
        """The catalogue is not part of these tests."""

    async def caught_up(self) -> None:
        """Nothing has to go."""

    async def remove_consumer(self, consumer: int) -> None:
        """The catalogue is not part of these tests."""

    # the test's side

    def client(self, *subjects: bytes, queue: bytes = b"") -> FakeSession:
        """A session that listens on subjects, with sids 1, 2, ..."""
        session = FakeSession()
        for sid, subject in enumerate(subjects, 1):
            self.account.add(Subscription(session, subject, queue, b"%d" % sid))
        return session

    async def create(self, **config: Any) -> ConsumerRunner:
        """Create a consumer named "c" unless told otherwise, explicit acks."""
        self.consumers.start()
        given = {"name": "c", "durable_name": "c", "ack_policy": AckPolicy.EXPLICIT} | config
        return await self.consumers.create(ConsumerConfig(**given))

    def pull(self, body: bytes = b"", reply: bytes = b"in.1", consumer: str = "c") -> None:
        """Send a pull request."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.{consumer}".encode()
        self.account.publish(subject, reply, b"", body)

    def ack(self, subject: bytes, payload: bytes = b"", reply: bytes = b"") -> None:
        """Send an acknowledgement."""
        self.account.take_ack(None, subject, reply, b"", payload)

    async def settle(self) -> None:
        """Let everything happen that is ready to happen."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass, in steps, waking whoever is due."""
        end = self.clock.time + round(seconds * SECOND)
        while self.clock.time < end:
            self.clock.time = min(self.clock.time + 10_000_000, end)
            self.timers.run()
            await self.settle()


class Frames:
    """Reads what a session received, once: (subject, reply, headers, payload)."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.at = 0

    def take(self) -> list[tuple[bytes, bytes, bytes, bytes]]:
        """Return the frames since the last call."""
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
    """A bare machine, explicit acks."""
    defaults = {"ack_policy": AckPolicy.EXPLICIT, "max_waiting": 512, "max_deliver": -1}
    given: dict[str, Any] = defaults | config
    complete = ConsumerConfig(**given)
    pins = map(str, count(1))
    return ConsumerMachine(
        complete, next_seq, push=make_push(complete, b"S", "c"), new_pin=partial(next, pins)
    )


def running(test: Callable[..., Any]) -> Callable[..., None]:
    """Run an async test to its end."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
