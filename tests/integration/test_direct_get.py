"""Direct Get with many answers: both servers alike, from memory and from storage, paced."""

# Subject: slow consumers, message get

import asyncio
import json
import random
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from core.model.segment import Segment
from core.model.stream import StreamConfig
from core.storage.interface import StreamCommit
from core.subjects.subject import matches
from tests.support.best import slowness
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.pg import PostgresServer

Answer = tuple[list[tuple[str, int, bytes]], str, dict[str, str]]


async def _ask(nc: Client, stream: str, request: dict[str, Any]) -> Answer:
    """Return ((subject, sequence, payload) of the messages, status, headers of the end)."""
    inbox = nc.new_inbox()
    sub = await nc.subscribe(inbox)
    await nc.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox)
    messages: list[tuple[str, int, bytes]] = []
    try:
        while True:
            message = await sub.next_msg(timeout=30)
            headers = {str(k): v for k, v in (message.headers or {}).items()}
            if "Status" in headers:
                return messages, headers["Status"], headers
            place = int(headers["Nats-Sequence"])
            messages.append((headers["Nats-Subject"], place, message.data))
    finally:
        await sub.unsubscribe()


def _pending(answer: Answer) -> tuple[int, str, str, str, str | None]:
    messages, status, end = answer
    return (
        len(messages),
        status,
        end.get("Nats-Num-Pending", ""),
        end.get("Nats-Last-Sequence", ""),
        end.get("Nats-UpTo-Sequence"),
    )


def test_1024_subjects_are_answered_and_not_one_more(server: JetgateServer | NatsServer) -> None:
    async def scenario() -> list[Any]:
        nc = await nats.connect("nats://{}:{}".format(*server.address))
        js = nc.jetstream(timeout=30)
        await js.add_stream(name="MANY", subjects=["many.>"], allow_direct=True)
        try:
            for i in range(1023):
                await nc.publish(f"many.{i}", b"x")
            await js.publish("many.1023", b"x")
            found = [_pending(await _ask(nc, "MANY", {"multi_last": ["many.*"]}))]
            await js.publish("many.1024", b"x")
            for request in (
                {"multi_last": ["many.*"]},
                {"multi_last": ["many.*"], "batch": 2},
                {"multi_last": ["many.*"], "seq": 1020},
                {"multi_last": ["many.*"], "up_to_seq": 1024},
                {"multi_last": ["many.*"], "up_to_seq": 1026},
                {"multi_last": [f"many.{i}" for i in range(1025)]},
                {"multi_last": [f"many.{i}" for i in range(1025)], "up_to_seq": 3},
                {"seq": 1, "batch": 5000},
                {"seq": 1, "batch": -2},
                {"seq": 5000, "batch": -2},
                {"next_by_subj": "nope", "batch": -2},
            ):
                found.append(_pending(await _ask(nc, "MANY", request)))
            return found
        finally:
            await js.delete_stream("MANY")
            await nc.close()

    assert asyncio.run(scenario()) == [
        (1024, "204", "0", "1024", "1024"),
        (0, "413", "", "", None),
        (0, "413", "", "", None),
        (0, "413", "", "", None),
        (1024, "204", "0", "1024", "1024"),
        (0, "404", "", "", None),
        (0, "413", "", "", None),
        (3, "204", "0", "3", "3"),
        (1025, "204", "0", "1025", None),
        (0, "204", "1025", "0", None),
        (0, "204", "0", "0", None),
        (0, "204", "0", "0", None),
    ]


class Model:
    """What the stream holds, as a list; every answer is a walk through it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.rows: list[tuple[int, str, bytes]] = []

    def add(self, seq: int, subject: str, data: bytes) -> None:
        self.rows.append((seq, subject, data))
        mine = [row for row in self.rows if row[1] == subject]
        if self.limit and len(mine) > self.limit:
            self.rows.remove(mine[0])

    def batch(self, seq: int, pattern: str, count: int) -> list[tuple[str, int, bytes]]:
        return [
            (s, n, d)
            for n, s, d in self.rows
            if n >= seq and (not pattern or matches(s.encode(), pattern.encode()))
        ][:count]

    def multi(self, patterns: list[str], up_to: int) -> list[tuple[str, int, bytes]]:
        last: dict[str, tuple[str, int, bytes]] = {}
        for n, s, d in self.rows:
            if n <= up_to and any(matches(s.encode(), p.encode()) for p in patterns):
                last[s] = (s, n, d)
        return sorted(last.values(), key=lambda row: row[1])


async def _compare(node: Node, limit: int, chance: random.Random) -> None:
    name = f"M{limit}"
    await add_stream(
        node,
        StreamConfig(
            name=name,
            subjects=(f"{name}.>",),
            allow_direct=True,
            max_msgs_per_subject=limit or -1,
        ),
    )
    nc = await nats.connect(node.nats_address)
    js, model = nc.jetstream(timeout=30), Model(limit)
    runner = node.registry.streams[name]
    patterns = [f"{name}.>", f"{name}.1.*", f"{name}.*.a", f"{name}.2.b", f"{name}.9.z", ">"]
    for step in range(12):
        for _ in range(40):
            subject = f"{name}.{chance.randrange(6)}.{chance.choice('abcd')}"
            data = b"%d" % chance.randrange(1000)
            ack = await js.publish(subject, data)
            model.add(ack.seq, subject, data)
        gone = chance.choice(model.rows)
        await runner.requests.delete_message(gone[0])
        model.rows.remove(gone)
        if step % 3 == 0:
            runner.log.tail.clear(runner.machine.last_seq + 1)  # everything is cold from here on
        last = runner.machine.last_seq
        for _ in range(8):
            pattern, count = chance.choice(["", *patterns]), chance.randrange(1, 60)
            seq = chance.randrange(1, last + 3)
            request = {"seq": seq, "next_by_subj": pattern, "batch": count}
            messages, status, end = await _ask(nc, name, request)
            assert messages == model.batch(seq, pattern, count), request
            if messages:
                left = len(model.batch(seq, pattern, 10**6)) - len(messages)
                assert (status, end["Nats-Num-Pending"]) == ("204", str(left)), request
            some = chance.sample(patterns, 2)
            up_to = chance.randrange(1, last + 1)
            multi, *_ = await _ask(nc, name, {"multi_last": some, "up_to_seq": up_to})
            assert multi == model.multi(some, up_to), (some, up_to)
            multi, *_ = await _ask(nc, name, {"multi_last": some})
            assert multi == model.multi(some, last), some
    await nc.close()


def test_answers_are_those_of_a_naive_model(postgres: PostgresServer, database: str) -> None:
    async def scenario() -> None:
        async with running_node(database) as node:
            for limit in (0, 1, 3):
                await _compare(node, limit, random.Random(limit))

    asyncio.run(scenario())


@pytest.mark.parametrize("swept", [False, True], ids=["row-left", "row-gone"])
@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("LAST.k", b""),
        ("LAST.k", b'{"no_hdr":true}'),
        ("LAST", b'{"last_by_subj":"k"}'),
        ("LAST", b'{"last_by_subj":"*"}'),
        ("LAST", b'{"next_by_subj":"k"}'),
    ],
)
def test_the_last_message_is_found_while_it_is_replaced(
    postgres: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    subject: str,
    body: bytes,
    swept: bool,
) -> None:
    """A reader of a cold key is never told that there is none because a newer value came."""

    async def scenario() -> bytes:
        async with running_node(database) as node:
            config = StreamConfig(
                name="LAST", subjects=("k",), max_msgs_per_subject=1, allow_direct=True
            )
            await add_stream(node, config)
            nc = await nats.connect(f"nats://127.0.0.1:{node.hub.port}")
            js, runner = nc.jetstream(timeout=30), node.registry.streams["LAST"]
            await js.publish("k", b"old")
            runner.log.tail.clear(runner.machine.last_seq + 1)
            read = runner.services.reader.points
            asked: list[list[int]] = []

            async def slow(stream: int, partition: int, seqs: list[int]) -> Segment | None:
                asked.append(seqs)
                await js.publish("k", b"new")
                if swept:
                    await runner.services.janitor.finish(runner.log)
                return await read(stream, partition, seqs)

            monkeypatch.setattr(runner.services.reader, "points", slow)
            answer = await nc.request(f"$JS.API.DIRECT.GET.{subject}", body, timeout=30)
            await nc.close()
            assert asked == [[1]], "storage was not asked for the older message"
            return answer.data

    assert asyncio.run(scenario()) == b"new"


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("LAST.k", b""),
        ("LAST", b'{"last_by_subj":"*"}'),
        ("LAST", b'{"next_by_subj":"k"}'),
        ("LAST", b'{"next_by_subj":"*","seq":2}'),
    ],
)
def test_the_last_message_is_found_when_storage_knows_of_its_replacement_first(
    postgres: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    subject: str,
    body: bytes,
) -> None:
    """A roll-up takes rows with its commit: between that and its answer no subject is empty."""

    async def scenario() -> bytes:
        async with running_node(database) as node:
            config = StreamConfig(
                name="LAST", subjects=("k",), allow_direct=True, allow_rollup_hdrs=True
            )
            await add_stream(node, config)
            nc = await nats.connect(node.nats_address)
            js, runner = nc.jetstream(timeout=30), node.registry.streams["LAST"]
            written, read, shown = asyncio.Event(), asyncio.Event(), asyncio.Event()
            commit, fetch = node.writer.commit, runner.services.reader._pool.fetch  # type: ignore[attr-defined]  # PostgreSQL's

            async def slow(commits: Sequence[StreamCommit]) -> None:
                await commit(commits)
                written.set()
                await shown.wait()

            async def note(*request: Any) -> list[Any]:
                rows = await fetch(*request)
                read.set()
                return list(rows)

            for text in (b"older", b"old"):
                last = (await js.publish("k", text)).seq
            runner.log.tail.clear(last + 1)
            monkeypatch.setattr(node.writer, "commit", slow)
            rolling = asyncio.create_task(js.publish("k", b"new", headers={"Nats-Rollup": "sub"}))
            await written.wait()
            monkeypatch.setattr(runner.services.reader, "_pool", SimpleNamespace(fetch=note))
            direct = f"$JS.API.DIRECT.GET.{subject}"
            asking = asyncio.create_task(nc.request(direct, body, timeout=30))
            await read.wait()
            for _ in range(10):
                await nc.flush()  # the answer gets as far as it may
            shown.set()
            found = await asking
            await rolling
            await nc.close()
            return found.data

    assert asyncio.run(scenario()) == b"new"


def test_a_replaced_row_stays_unseen_while_it_leaves_storage(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that began before the row left does not bring its message back."""

    async def scenario() -> list[int]:
        async with running_node(database) as node:
            config = StreamConfig(
                name="GONE", subjects=("k",), max_msgs_per_subject=1, allow_direct=True
            )
            await add_stream(node, config)
            nc = await nats.connect(node.nats_address)
            js, runner = nc.jetstream(timeout=30), node.registry.streams["GONE"]
            services, held, left = runner.services, asyncio.Event(), asyncio.Event()
            pool, delete_rows = services.reader._pool, services.sweeper.delete_rows  # type: ignore[attr-defined]  # PostgreSQL's

            async def sweep(stream: int, partition: int, seqs: list[int], *more: Any) -> None:
                await held.wait()
                await delete_rows(stream, partition, seqs, *more)
                left.set()

            class SlowPool:
                async def fetch(self, *request: Any) -> list[Any]:
                    rows = await pool.fetch(*request)
                    held.set()
                    await left.wait()
                    for _ in range(10):
                        await nc.flush()  # the janitor goes on meanwhile, as far as it may
                    return list(rows)

            monkeypatch.setattr(services.sweeper, "delete_rows", sweep)
            await js.publish("k", b"old")
            await js.publish("k", b"new")
            runner.log.tail.clear(runner.machine.last_seq + 1)
            monkeypatch.setattr(services.reader, "_pool", SlowPool())
            sweeping = asyncio.create_task(services.janitor.finish(runner.log))
            messages, *_ = await _ask(nc, "GONE", {"seq": 1, "batch": 10})
            await sweeping
            assert not runner.log.removed.hidden
            await nc.close()
            return [seq for _, seq, _ in messages]

    assert asyncio.run(scenario()) == [2]


def test_a_recorded_purge_stays_unseen_while_memory_forgets_its_messages(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a purge by filter wait for their removal; the tail may let them go before."""
    monkeypatch.setattr("core.jetstream.stream.commands._AT_ONCE", 2)

    async def scenario() -> list[int]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="P", subjects=("p.*",), allow_direct=True))
            nc = await nats.connect(node.nats_address)
            js, runner = nc.jetstream(timeout=30), node.registry.streams["P"]
            sweeper, gate = runner.services.sweeper, asyncio.Event()
            delete_rows = sweeper.delete_rows

            async def sweep(stream: int, partition: int, seqs: list[int], *more: Any) -> None:
                await gate.wait()
                await delete_rows(stream, partition, seqs, *more)

            monkeypatch.setattr(sweeper, "delete_rows", sweep)
            for subject in ("p.keep", "p.x", "p.x", "p.x"):
                last = (await js.publish(subject, b"")).seq
            await js.purge_stream("P", subject="p.x")
            (segment, _), *_ = runner.log.tail.since(1)
            runner.log.tail.drop(segment)
            assert runner.log.tail.start == last + 1
            messages, *_ = await _ask(nc, "P", {"seq": 1, "batch": 10})
            gate.set()
            while runner.log.removed.purges:
                await nc.flush()
            assert not runner.log.removed.hidden
            await nc.close()
            return [seq for _, seq, _ in messages]

    assert asyncio.run(scenario()) == [1]


def test_a_large_batch_waits_for_a_receiver_that_does_not_read(
    postgres: PostgresServer, database: str
) -> None:
    """The rest of a batch stays in storage: the session is never cut as a slow consumer."""

    async def scenario() -> tuple[int, int, int]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="B", subjects=("b",), allow_direct=True))
            nc = await nats.connect(node.nats_address)
            js = nc.jetstream(timeout=30)
            for _ in range(400):
                await nc.publish("b", bytes(100_000))
            last = (await js.publish("b", bytes(100_000))).seq
            node.registry.streams["B"].log.tail.clear(last + 1)
            wire = await Wire.connect(node)
            wire.reader._transport.pause_reading()  # type: ignore[attr-defined]  # of a socket
            request = b'{"seq":1,"batch":1000}'
            wire.writer.write(
                b"SUB in 1\r\nPUB $JS.API.DIRECT.GET.B in %d\r\n%b\r\n" % (len(request), request)
            )
            await wire.writer.drain()
            session = list(node.hub.sessions.values())[-1]
            async with asyncio.timeout(60):
                while not session.blocked:
                    await nc.flush()
                for _ in range(20):
                    await nc.flush()  # others are served meanwhile
            held = sum(map(len, session.out)) + session._transport.get_write_buffer_size()  # type: ignore[attr-defined]  # of a socket
            wire.reader._transport.resume_reading()  # type: ignore[attr-defined]  # of a socket
            count = await wire.count(b"HMSG in 1 ", last + 1)
            await nc.close()
            wire.close()
            return count, held, node.hub.slow_consumers

    count, held, cut = asyncio.run(scenario())
    assert count == 402
    assert held < 40_000_000
    assert cut == 0


def test_a_thousand_of_very_many_subjects_come_in_milliseconds(
    postgres: PostgresServer, database: str
) -> None:
    """Once the subjects are sorted, a wildcard does not look at all of them."""

    async def scenario() -> tuple[int, float]:
        async with running_node(database) as node:
            await add_stream(
                node,
                StreamConfig(
                    name="KV", subjects=("kv.>",), allow_direct=True, max_msgs_per_subject=1
                ),
            )
            wire = await Wire.connect(node)
            for start in range(0, 100_000, 1000):
                lines = (
                    b"PUB kv.%d.%d 1\r\nx\r\n" % (i % 100, i) for i in range(start, start + 1000)
                )
                wire.writer.write(b"".join(lines))
            await wire.flush()
            nc = await nats.connect(node.nats_address)
            # It is stored behind all of them.
            await nc.jetstream(timeout=60).publish("kv.last", b"x")
            await _ask(nc, "KV", {"multi_last": ["kv.17.*"]})
            times = []
            for key in range(20, 25):
                started = time.perf_counter()
                messages, *_ = await _ask(nc, "KV", {"multi_last": [f"kv.{key}.*"]})
                times.append((time.perf_counter() - started) / slowness())
            await nc.close()
            wire.close()
            return len(messages), min(times)

    count, seconds = asyncio.run(scenario())
    assert count == 1000
    assert seconds < 0.2  # a generous bound; some tens of milliseconds
