"""Atomic batches where it could go wrong: kill -9, other publishers, readers, faults of storage."""

# Subject: batches

import asyncio
from typing import Any

import asyncpg
import pytest

from core.model.stream import StreamConfig
from core.node.runtime import RuntimeOptions
from tests.support.faults import FAULT
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.wire import Wire as BlockingWire

ROUNDS = 40
LENGTH = 25
# More than the group committer takes of ordinary publishes of one stream at once.
MANY = 5000


def message(batch: str, seq: int, subject: str, reply: str = "", *, ends: bool = False) -> bytes:
    """One message of a batch, as it goes over the wire; its id is unique."""
    lines = [
        f"Nats-Batch-Id: {batch}",
        f"Nats-Batch-Sequence: {seq}",
        f"Nats-Msg-Id: {batch}.{seq}",
    ]
    if ends:
        lines.append("Nats-Batch-Commit: 1")
    block = "\r\n".join(["NATS/1.0", *lines, "", ""])
    return f"HPUB {subject} {reply} {len(block)} {len(block) + 1}\r\n{block}x\r\n".encode()


def whole(batch: str, length: int, subject: str = "S.batch", inbox: str = "r") -> bytes:
    """A batch whose last message alone asks for an answer."""
    return b"".join(
        message(
            batch, seq, subject, f"{inbox}.{batch}" if seq == length else "", ends=seq == length
        )
        for seq in range(1, length + 1)
    )


async def add(node: Node, **more: Any) -> None:
    await add_stream(node, StreamConfig(name="S", subjects=("S.>",), allow_atomic=True, **more))


def info(wire: BlockingWire) -> Any:
    return wire.api("STREAM.INFO.S")["state"]


def test_a_kill_loses_what_is_open_and_nothing_that_is_acknowledged() -> None:
    with JetgateServer() as server:
        with BlockingWire(server.address) as wire:
            wire.hello()
            wire.send(b"SUB r.> 1\r\n")
            wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_atomic": True})
            wire.send(message("lost", 1, "S.a", "r.1") + message("lost", 2, "S.a", "r.2"))
            assert [wire.frame().payload for _ in range(2)] == [b"", b""]
            wire.send(whole("kept", 3))
            kept = {"stream": "S", "seq": 3, "batch": "kept", "count": 3}
            assert wire.frame().json() == kept
        server.restart()
        with BlockingWire(server.address) as wire:
            wire.hello()
            wire.send(b"SUB r.> 1\r\n")
            assert info(wire)["messages"] == 3

            wire.send(message("lost", 3, "S.a", "r.3", ends=True))
            assert wire.frame().json()["error"]["err_code"] == 10176
            wire.send(whole("kept", 3))
            assert wire.frame().json()["error"]["err_code"] == 10201
            wire.send(whole("lost", 2))
            assert wire.frame().json()["seq"] == 5
            assert info(wire)["messages"] == 5


def test_batches_and_other_publishes_at_the_same_time(database: str) -> None:
    """Each batch is in one piece, every other message once, and no reader sees a part."""

    async def batches(node: Node, name: str) -> list[tuple[int, int]]:
        wire = await Wire.connect(node, f"{name}.>")
        said = []
        for round_ in range(ROUNDS):
            wire.writer.write(whole(f"{name}{round_}", LENGTH, f"S.batch.{name}", name))
            ack = await wire.answer()
            said.append((ack["seq"] - LENGTH + 1, ack["seq"]))
        wire.close()
        return said

    async def other_batches(node: Node) -> None:
        wire = await Wire.connect(node, "o.>")
        wire.writer.write(b"PUB S.other o.o 1\r\nx\r\n" * ROUNDS * LENGTH)
        assert await wire.count(b'"seq":', ROUNDS * LENGTH) == ROUNDS * LENGTH
        wire.close()

    async def watch(node: Node, done: asyncio.Event) -> int:
        wire = await Wire.connect(node, "i.>")
        body = b'{"subjects_filter":"S.batch.>"}'
        looks = 0
        while not done.is_set():
            wire.writer.write(b"PUB $JS.API.STREAM.INFO.S i.i %d\r\n%b\r\n" % (len(body), body))
            state = (await wire.answer())["state"]
            for count in (state.get("subjects") or {}).values():
                assert count % LENGTH == 0
            looks += 1
        wire.close()
        return looks

    async def run() -> None:
        async with running_node(database) as node:
            await add(node)
            done = asyncio.Event()
            watching = asyncio.ensure_future(watch(node, done))
            one, two, _ = await asyncio.gather(
                batches(node, "a"), batches(node, "b"), other_batches(node)
            )
            done.set()
            assert await watching > 0
            found = await node.registry.stream("S").info(subjects={})
            assert found.state.messages == 3 * ROUNDS * LENGTH
        connection = await asyncpg.connect(database)
        try:
            for name, places in (("a", one), ("b", two)):
                rows = await connection.fetch(
                    "select seq from jetgate.messages where subject = $1 order by 1",
                    f"S.batch.{name}",
                )
                wanted = [seq for first, last in places for seq in range(first, last + 1)]
                assert [row["seq"] for row in rows] == wanted
        finally:
            await connection.close()

    asyncio.run(run())


def test_a_batch_is_one_commit_however_many_messages_it_has(database: str) -> None:
    async def run() -> None:
        options = RuntimeOptions(limits={"batch_messages": MANY})
        async with running_node(database, options=options) as node:
            await add(node)
            wire = await Wire.connect(node, "r.>")
            commits = node.committer.commits
            wire.writer.write(whole("large", MANY))

            assert await wire.answer() == {
                "stream": "S", "seq": MANY, "batch": "large", "count": MANY,
            }  # fmt: skip

            assert node.committer.commits == commits + 1
            wire.close()

    asyncio.run(run())


def test_a_batch_that_postgresql_refuses_is_refused_whole(database: str) -> None:
    async def run() -> None:
        admin = await asyncpg.connect(database)
        async with running_node(database) as node:
            await add(node)
            wire = await Wire.connect(node, "r.>")
            await admin.execute(FAULT.format(code="57014"))
            wire.writer.write(message("b", 1, "S.good") + message("b", 2, "S.bad"))
            wire.writer.write(message("b", 3, "S.good", "r.b", ends=True) + whole("c", 2))

            assert (await wire.answer())["error"]["err_code"] == 10077
            assert await wire.answer() == {"stream": "S", "seq": 2, "batch": "c", "count": 2}

            rows = await admin.fetch("select subject from jetgate.messages")
            assert [row["subject"] for row in rows] == ["S.batch", "S.batch"]
            wire.close()
        await admin.close()

    asyncio.run(run())


def test_answers_come_in_the_order_of_publishes(server: JetgateServer | NatsServer) -> None:
    """Whatever is put aside, stored, refused or known already: one write, and none overtakes."""
    with BlockingWire(server.address) as wire:
        wire.hello()
        wire.send(b"SUB r.> 1\r\n")
        wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_atomic": True})
        sent = b""
        for n in range(0, 800, 8):
            sent += b"PUB S.a r.%d 1\r\nx\r\n" % n
            sent += message(f"b{n}", 1, "S.a", f"r.{n + 1}")
            sent += b"PUB S.a r.%d 1\r\nx\r\n" % (n + 2)
            sent += message(f"b{n}", 2, "S.a", f"r.{n + 3}", ends=True)
            sent += b"PUB S.a r.%d 1\r\nx\r\n" % (n + 4)
            sent += message(f"b{n}", 3, "S.a", f"r.{n + 5}", ends=True)
            sent += message(f"b{n}", 1, "S.a", f"r.{n + 6}", ends=True)
            sent += b"PUB S.a r.%d 1\r\nx\r\n" % (n + 7)
        wire.send(sent)

        answered = [wire.frame() for _ in range(800)]

        assert [frame.subject for frame in answered] == [b"r.%d" % n for n in range(800)]
        kinds = [b"error" in f.payload if f.payload else None for f in answered]
        assert kinds == [False, None, False, False, False, True, True, False] * 100
        assert wire.api("STREAM.DELETE.S")["success"]


@pytest.mark.parametrize("deleted", [False, True])
def test_open_batches_are_forgotten_with_their_stream(database: str, deleted: bool) -> None:
    async def run() -> None:
        async with running_node(database) as node:
            await add(node)
            wire = await Wire.connect(node, "r.>")
            wire.writer.write(message("b", 1, "S.a"))
            await wire.flush()
            runner = node.registry.stream("S")
            quota = runner.services.batches
            await node.committer.drain()
            assert quota.batches == 1

            if deleted:
                await node.registry.delete_stream("S")
            else:
                await node.registry.update_stream(StreamConfig(name="S", subjects=("S.>",)))

            assert (quota.batches, quota.nbytes) == (0, 0)
            wire.close()

    asyncio.run(run())
