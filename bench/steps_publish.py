"""Microseconds per message of each step of a publish: `python -m bench.steps_publish`.

The results are medians of seven runs, with 1000 messages of 128 bytes per batch. The commit is
measured on an embedded PostgreSQL, in wall-clock time and in processor time of its backend. The
latter is measured also for messages that replace an older one of their subject. The other steps are
in processor time of this process.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from core.jetstream.stream.acks import AckEmitter
from core.model.segment import Segment
from core.protocol.gather import CLIENT, GATHER_ALL, gather
from core.protocol.messages import MessageColumns
from core.protocol.server_parser import Parser
from core.pubsub.account import Subscription
from core.pubsub.batch import deliver_together
from core.rules.stream.plan import PlanBuilder
from core.storage.interface import StreamCommit
from core.storage.postgres.connect import Purpose
from core.storage.postgres.embedded import EmbeddedPostgres
from core.storage.postgres.migrate import migrate
from core.storage.postgres.stream_log import PostgresLog, rows_of
from core.storage.postgres.subjects import columns_of
from core.units import Epoch
from tests.support.sessions import ListSession, idle_hub

MESSAGES = 1000
ROUNDS = 7
PAYLOAD = b"x" * 128
SUBJECTS = [b"orders.%d.new" % (i % 1000) for i in range(MESSAGES)]
REPLIES = [b"_INBOX.bench.%d" % i for i in range(MESSAGES)]


class Sink:
    """A receiver of parsed protocol operations that does nothing."""

    headers = True

    @property
    def publisher(self) -> "Sink":
        """The receiver of messages: this object itself."""
        return self

    def on_batch(self, batch: MessageColumns) -> bool:
        """Receive the messages of one read, in columns."""
        return True

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Receive a message."""

    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Receive a message with a header that requests a message trace."""

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Receive consecutive messages of one subject."""

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """Receive a subscription."""

    def on_unsub(self, sid: bytes, limit: int) -> None:
        """Receive an UNSUB; `limit` is its number of messages, 0 if it ends at once."""

    def on_connect(self, body: bytes) -> None:
        """Receive the JSON of a client's CONNECT."""

    def on_ping(self) -> None:
        """Receive a PING."""

    def on_pong(self) -> None:
        """Receive a PONG."""


def per_message(step: Callable[[], object], count: int = MESSAGES) -> float:
    """Run a step seven times; return the median in microseconds per message."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(20):
            step()
        times.append((time.process_time() - began) / 20 / count * 1e6)
    return statistics.median(times)


def publishes(sizes: int = 1) -> bytes:
    """Return PUBs with reply subjects, whose payloads have `sizes` different sizes in rotation."""
    bodies = [PAYLOAD[: len(PAYLOAD) - i % sizes] for i in range(MESSAGES)]
    return b"".join(
        b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)
        for subject, reply, body in zip(SUBJECTS, REPLIES, bodies, strict=True)
    )


def parse(sizes: int) -> float:
    """Measure the parsing of PUBs to columns of messages (`MessageColumns`).

    The payloads have `sizes` different sizes in rotation. Returns microseconds per message.
    """
    data, parser, sink = publishes(sizes), Parser(1 << 20, 4096), Sink()
    parser.gathers = True
    return per_message(lambda: parser.feed(data, sink))


def receive_together() -> float:
    """Measure how the messages of one socket read are passed to the subscription of a stream.

    The look-up of the subscription is included. Returns microseconds per message.
    """
    hub = idle_hub()
    account = hub.accounts["$G"]
    batch, _, _ = gather(publishes(), 0, CLIENT, (1 << 20, 4096, GATHER_ALL))

    def accept_all(some: MessageColumns) -> None:
        MessageColumns().extend(some)

    account.subscribe(b"orders.>", lambda *_: None).batch = accept_all
    return per_message(lambda: deliver_together(account, batch))


def rows() -> float:
    """Measure the conversion of messages to rows for COPY, with checksums.

    Returns microseconds per message.
    """
    plan = plan_of(MESSAGES, 0)
    commit = StreamCommit(1, 0, Epoch(1), plan.build())
    assert plan.segment is not None
    subjects = plan.segment.subjects
    return per_message(lambda: sum(1 for _ in rows_of(commit, columns_of(subjects))))


def acks() -> float:
    """Measure how publish acks are written to the output of one client connection.

    Returns microseconds per ack.
    """
    hub = idle_hub()
    account = hub.accounts["$G"]
    session = ListSession()
    account.add(Subscription(session, b"_INBOX.bench.*", b"", b"1"))
    emitter = AckEmitter(account, hub.loop_tick, b"ORDERS")

    def step() -> None:
        session.out.clear()
        emitter.emit(REPLIES, 1_000_000)

    return per_message(step)


def plan_of(count: int, before: int) -> PlanBuilder:
    """Return the changes of a commit that stores `count` messages after sequence `before`."""
    subjects = [SUBJECTS[i % MESSAGES] for i in range(count)]
    payloads = [PAYLOAD] * count
    seqs = range(before + 1, before + count + 1)
    segment = Segment(seqs, seqs, subjects, None, payloads, 170 * count)
    return PlanBuilder(
        before=before,
        first_seq=1,
        last_seq=before + count,
        last_ts=before + count,
        msgs=before + count,
        nbytes=170 * (before + count),
        segment=segment,
    )


Commit = tuple[int, float, float, float]
"""Number of messages of a commit, then three times of the whole commit in microseconds.

The times are wall time, processor time of the PostgreSQL backend, and processor time of the backend
if each message replaces an older one.
"""


async def commits() -> list[Commit]:
    """Measure the times of commits with 1, 10, 100, 1000 and 4000 messages."""
    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedPostgres(Path(directory) / "pg")
        await server.start()
        try:
            await migrate(server.connector)
            return [measured async for measured in _commits(server)]
        finally:
            await server.stop()


async def _commits(server: EmbeddedPostgres) -> AsyncIterator[Commit]:
    admin = await server.connector.open(Purpose.WRITE)
    await admin.execute(
        "insert into jetgate_store.head select s, 1, 1, 0, 0, 0, 0 from generate_series(1, 2) s"
    )
    log = PostgresLog(lambda: server.connector.open(Purpose.COMMIT))
    lasts = {1: 0, 2: 0}
    await log.heads([1])
    backend = await admin.fetchval(
        "select pid from pg_stat_activity where application_name = 'jetgate commit'"
    )
    for count in (1, 10, 100, 1000, 4000):
        walls: list[float] = []
        cpus: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(300 if count < 1000 else 60):
            for stream in (1, 2) if turn % 2 else (2, 1):
                last = lasts[stream]
                plan = plan_of(count, last)
                if stream == 2:
                    plan.replaced = [max(seq - 10_000, 1) for seq in range(last, last + count)]
                commit = StreamCommit(stream, stream - 1, Epoch(1), plan.build())  # a table each
                began, cpu = time.perf_counter(), _cpu(backend)
                await log.commit([commit])
                cpus[stream].append((_cpu(backend) - cpu) / 1e3)
                if stream == 1:
                    walls.append((time.perf_counter() - began) * 1e6)
                lasts[stream] += count
        median = statistics.median
        yield count, median(walls), median(cpus[1]), median(cpus[2])
    await log.close()
    await admin.close()


def _cpu(pid: int) -> int:
    """Return the nanoseconds of processor time that a process has used."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def main() -> None:
    """Measure and print every step."""
    print("us per message")
    steps: tuple[tuple[str, Callable[[], float]], ...] = (
        ("parse, payloads of one size", lambda: parse(1)),
        ("parse, payloads of any size", lambda: parse(7)),
        ("take into a stream", receive_together),
        ("rows with checksums", rows),
        ("acknowledge", acks),
    )
    for name, step in steps:
        print(f"  {name:28} {step():6.2f}")
    print("one commit             wall us   per message   backend CPU us   of replacing messages")
    for count, wall, cpu, replacing in asyncio.run(commits()):
        walls = f"{wall:9.0f}     {wall / count:8.2f}"
        print(f"  {count:5} messages  {walls}        {cpu:9.0f}               {replacing:9.0f}")


if __name__ == "__main__":
    main()
