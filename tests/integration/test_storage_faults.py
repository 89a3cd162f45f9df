"""What PostgreSQL may say in the middle of a batch, and what clients may ask it to keep.

The faults are real errors with their real codes, raised by a trigger on the table of messages or
by the server itself. Whatever happens, an acknowledged message is there, a refused one is not, and
all goes on when the cause is gone.
"""

# Subject: storage faults

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import asyncpg
import pytest

from core.errors import ApiError, Unavailable
from core.jetstream.changes import Change
from core.model.api_errors import api_error
from core.model.consumer import AckPolicy, ConsumerConfig
from core.model.stream import StreamConfig, StreamSource
from core.rules.stream.plan import Position, StreamPlan
from core.rules.stream.schedules.pending import Pending
from core.storage.interface import ConsumerRow, StateWrite
from core.units import Epoch
from tests.support.faults import FAULT, NO_FAULT
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.wire import Wire as BlockingWire

_numbers = count(1)

Step = Callable[[Node, Wire, Any], Awaitable[None]]


@pytest.fixture(autouse=True)
def storage_wait() -> None:
    """That of the product: what waits too long for storage is refused."""


def scenario(dsn: str, step: Step) -> None:
    """Run a step with a node that has the streams S and T, a client, and a superuser's session."""

    async def run() -> None:
        admin = await asyncpg.connect(dsn)
        try:
            async with running_node(dsn) as node:
                for name in ("S", "T"):
                    await add_stream(node, StreamConfig(name=name, subjects=(f"{name}.>",)))
                wire = await Wire.connect(node, "r.*")
                try:
                    await step(node, wire, admin)
                finally:
                    wire.close()
        finally:
            await admin.close()

    asyncio.run(run())


async def publish(wire: Wire, *subjects: str) -> list[dict[str, Any]]:
    """Publish one message to each subject in one write; the answers in the order of subjects."""
    lines = (b"PUB %s r.%d 1\r\nx\r\n" % (s.encode(), n) for n, s in enumerate(subjects))
    wire.writer.write(b"".join(lines))
    answers: dict[int, dict[str, Any]] = {}
    while len(answers) < len(subjects):
        line = await wire.until(b"\r\n")
        if line.startswith(b"MSG r."):
            payload = await wire.reader.readexactly(int(line.split()[-1]) + 2)
            answers[int(line.split()[1][2:])] = json.loads(payload)
    return [answers[n] for n in range(len(subjects))]


async def stored(admin: Any) -> list[tuple[str, int, str]]:
    rows = await admin.fetch("select stream, seq, subject from jetgate.messages order by 1, 2")
    return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("code", "err_code"),
    [
        ("53100", 10023),  # disk full
        ("53200", 10023),  # out of memory
        ("57014", 10077),  # canceled: statement timeout
        ("40001", 10077),  # could not serialize
        ("40P01", 10077),  # deadlock
        ("23514", 10077),  # a constraint that somebody added
        ("XX001", 10077),  # data corrupted
    ],
)
def test_a_publish_that_postgresql_refuses_is_refused_and_the_rest_is_kept(
    database: str, code: str, err_code: int
) -> None:
    async def step(node: Node, wire: Wire, admin: Any) -> None:
        await admin.execute(FAULT.format(code=code))
        many = ["S.bad" if n == 20 else "S.a" for n in range(40)]
        answers = await publish(wire, "S.first", *many, "T.good", "T.good")
        await admin.execute(NO_FAULT)
        again = await publish(wire, "S.bad", "T.good")

        expected = []
        for subject, answer in zip(["S.first", *many, "T.good", "T.good"], answers, strict=True):
            if "error" in answer:
                assert answer["error"]["err_code"] == err_code
            else:
                expected.append((answer["stream"], answer["seq"], subject))
        refused = [answer for answer in answers if "error" in answer]
        assert refused
        assert [seq for stream, seq, _ in expected if stream == "T"] == [1, 2]
        assert "error" not in again[0]
        expected += [("S", again[0]["seq"], "S.bad"), ("T", 3, "T.good")]
        assert await stored(admin) == sorted(expected)
        assert not node.deposed.is_set()

    scenario(database, step)


def test_a_fault_of_one_message_alone(database: str) -> None:
    async def step(node: Node, wire: Wire, admin: Any) -> None:
        await admin.execute(FAULT.format(code="53100"))
        [refused] = await publish(wire, "S.bad")
        [kept] = await publish(wire, "S.good")

        assert refused["error"]["err_code"] == 10023
        assert kept == {"stream": "S", "seq": 1}
        assert await stored(admin) == [("S", 1, "S.good")]

    scenario(database, step)


def test_a_copy_that_is_refused_before_its_turn_is_stored_later(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while PostgreSQL is away for longer than publishes wait for it."""

    async def step(node: Node, wire: Wire, _admin: Any) -> None:
        await add_stream(node, StreamConfig(name="C", sources=(StreamSource(name="S"),)))
        copy = node.registry.stream("C")
        submit, is_refused = copy.sourcing._submit, False
        taken: asyncio.Queue[asyncio.Future[StreamPlan]] = asyncio.Queue()

        def refuse_once(change: Change) -> asyncio.Future[StreamPlan]:
            nonlocal is_refused
            if is_refused:
                taken.put_nowait(done := submit(change))
                return done
            is_refused, done = True, asyncio.get_running_loop().create_future()
            done.set_exception(api_error("JSClusterNotAvail"))
            return done

        monkeypatch.setattr(copy.sourcing, "_submit", refuse_once)
        await publish(wire, "S.only")
        async with asyncio.timeout(20):
            await (await taken.get())
        assert copy.machine.last_seq == 1

    scenario(database, step)


@pytest.mark.parametrize("end", ["pg_terminate_backend", "pg_cancel_backend"])
def test_the_writing_session_ends_again_and_again(database: str, end: str) -> None:
    async def step(node: Node, wire: Wire, admin: Any) -> None:
        asked = asyncio.create_task(publish(wire, *(f"S.{n}" for n in range(5000))))
        kill = f"select {end}(pid) from pg_stat_activity where application_name = 'jetgate commit'"
        for _ in range(60):  # sessions that just begin are among them
            await admin.execute(kill)
        answers = await asked
        kept = [
            ("S", answer["seq"], f"S.{n}")
            for n, answer in enumerate(answers)
            if "error" not in answer
        ]
        assert (await publish(wire, "S.last"))[0]["seq"] == len(kept) + 1
        assert await stored(admin) == [*kept, ("S", len(kept) + 1, "S.last")]
        assert not node.deposed.is_set()

    scenario(database, step)


def test_a_consumer_whose_creation_was_committed_without_an_answer(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def step(node: Node, wire: Wire, admin: Any) -> None:
        consumers, add = node.registry.streams["S"].consumers, node.directory_store.add_consumer
        config = ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT)

        async def unheard(row: ConsumerRow, epoch: Callable[[], Epoch]) -> tuple[int, int]:
            monkeypatch.undo()
            await add(row, epoch)
            raise Unavailable("the connection was lost")

        monkeypatch.setattr(node.directory_store, "add_consumer", unheard)
        with pytest.raises(ApiError):
            await consumers.create(config)
        created = await consumers.create(config)
        rows = await admin.fetch("select consumer from jetgate_store.consumer")
        assert [row["consumer"] for row in rows] == [created.consumer]

    scenario(database, step)


def test_a_database_that_becomes_read_only(database: str) -> None:
    """As after a fail-over to a server that is still a standby: sessions that meet it are left."""

    async def step(node: Node, wire: Wire, admin: Any) -> None:
        name = await admin.fetchval("select current_database()")
        end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1"
        assert (await publish(wire, "S.a"))[0]["seq"] == 1
        await admin.execute(f"alter database {name} set default_transaction_read_only = on")
        for purpose in ("commit", "write"):
            await admin.execute(end, f"jetgate {purpose}")
        refused = await publish(wire, "S.b", "S.b")
        with pytest.raises(ApiError):
            await add_stream(node, StreamConfig(name="U"))
        await admin.execute("set default_transaction_read_only = off")
        await admin.execute(f"alter database {name} reset default_transaction_read_only")

        assert {answer["error"]["err_code"] for answer in refused} <= {10008, 10077}
        async with asyncio.timeout(30):
            while "error" in (last := (await publish(wire, "S.c"))[0]):
                assert last["error"]["err_code"] in (10008, 10077)
        assert last["seq"] == 2
        assert await stored(admin) == [("S", 1, "S.a"), ("S", 2, "S.c")]
        await add_stream(node, StreamConfig(name="V"))

    scenario(database, step)


def test_a_node_ends_although_postgresql_does_not_answer(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.node.runtime._DRAIN_S", 0.05)

    async def step(node: Node, wire: Wire, admin: Any) -> None:
        consumers = node.registry.streams["S"].consumers
        await consumers.create(ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT))
        sessions = await admin.fetch(
            "select pid from pg_stat_activity where application_name = 'jetgate write'"
            " and datname = current_database()"
        )
        writing, written = asyncio.Event(), node.directory_store.write_states

        async def write(states: Sequence[StateWrite]) -> set[tuple[int, int]]:
            writing.set()
            return await written(states)

        monkeypatch.setattr(node.directory_store, "write_states", write)
        for row in sessions:
            os.kill(row["pid"], signal.SIGSTOP)
        try:
            node.states.sync(consumers["c"], lambda: None)
            await writing.wait()
            async with asyncio.timeout(10):
                await node.stop()
        finally:
            for row in sessions:
                os.kill(row["pid"], signal.SIGCONT)

    scenario(database, step)


def test_a_plan_that_leaves_the_head_alone_does_not_count_as_written(database: str) -> None:
    """When the answer to its COMMIT was lost, nothing tells; so it is written again."""

    async def step(node: Node, wire: Wire, admin: Any) -> None:
        runner = node.registry.streams["S"]
        next_due, position = runner.machine.unchanged(), runner.machine.unchanged()
        next_due.firings = [Pending(b"S.a", 1, 1)]
        position.positions = [Position("origin", 1, "")]

        assert (await node.runtime.recover([(runner, next_due.build())]))[0] == []
        assert (await node.runtime.recover([(runner, position.build())]))[0] == []

    scenario(database, step)


def test_a_connection_string_that_asks_for_a_server_to_write_to(database: str) -> None:
    async def run() -> None:
        more = "&" if "?" in database else "?"
        async with running_node(f"{database}{more}target_session_attrs=read-write") as node:
            await add_stream(node, StreamConfig(name="S"))

    asyncio.run(run())


@dataclass
class OwnStream:
    """A client and the stream of `k.>` that a test has for itself."""

    wire: BlockingWire
    stream: str


@pytest.fixture
def own(server: JetgateServer | NatsServer) -> Iterator[OwnStream]:
    with BlockingWire(server.address) as wire:
        wire.hello()
        # One that was deleted may still be there for one of the same name.
        name = f"K{next(_numbers)}"
        wire.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": ["k.>"], "allow_direct": True})
        yield OwnStream(wire, name)
        wire.api(f"STREAM.DELETE.{name}")


@pytest.mark.parametrize(
    "token",
    [
        b"it's", b'say"', b"back\\slash", b"\\x00", b"\\\\", b"%s", b"$1", b"$$", b"{}", b"--",
        b";drop", b"/*", b"E'\\'", b"\x01", "\u00e9".encode(), "\U0001f600".encode(),
        "\u202e".encode(), "\ufeff".encode(), b"a" * 900,
    ],
)  # fmt: skip
def test_subjects_that_sql_could_misread(own: OwnStream, token: bytes) -> None:
    wire, stream, subject = own.wire, own.stream, b"k." + token
    wire.send(b"SUB r 1\r\nPUB %b r 4\r\nbody\r\n" % subject)
    assert wire.frame().json()["seq"] == 1
    get = f"$JS.API.DIRECT.GET.{stream}"
    by_seq = wire.request(get, b'{"seq":1}')
    wire.send(b"SUB d 2\r\nPUB %b.%b d 0\r\n\r\n" % (get.encode(), subject))
    by_subject = wire.frame()
    info = wire.api(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})
    purged = wire.api(f"STREAM.PURGE.{stream}", {"filter": subject.decode()})

    assert b"Nats-Subject: %b\r\n" % subject in by_seq.headers
    assert by_seq.payload == by_subject.payload == b"body"
    assert info["state"]["subjects"] == {subject.decode(): 1}
    assert purged["purged"] == 1


@pytest.mark.parametrize("size", [65_535, 65_536, (1 << 20) - 10])
def test_large_headers(own: OwnStream, size: int) -> None:
    line = b"X-%05d: " + b"\xff\x01'\\" * 10 + b"\r\n"
    block = b"NATS/1.0\r\n" + b"".join(line % n for n in range(size // 51 - 2))
    block += b"Pad: %b\r\n\r\n" % (b"x" * (size - len(block) - 9))
    assert len(block) == size
    ack = own.wire.request("k.h", b"\0\xff", headers=block).json()

    if size > 65_535:
        assert ack["error"]["err_code"] == 10097
        return
    assert ack["seq"] == 1
    message = own.wire.request(f"$JS.API.DIRECT.GET.{own.stream}", b'{"seq":1}')
    assert message.headers.startswith(block.removesuffix(b"\r\n"))
    assert message.payload == b"\0\xff"
