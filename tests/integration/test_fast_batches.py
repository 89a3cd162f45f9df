"""Fast-ingest batches where it could go wrong: limits, time, faults of storage, kill -9."""

# Subject: batches

import asyncio

import asyncpg
from msgspec.structs import replace

from core.model.stream import StreamConfig
from tests.support.faults import FAULT, NO_FAULT
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.wire import Wire as BlockingWire

START, APPEND, COMMIT, END, PING = range(5)
UNKNOWN, TOO_MANY = 10208, 10211


def message(
    batch: str, seq: int, op: int, *, subject: str = "S.a", flow: int = 10, gap: str = "fail"
) -> bytes:
    """One message of a batch, as it goes over the wire."""
    return f"PUB {subject} r.{batch}.{flow}.{gap}.{seq}.{op}.$FI 1\r\nx\r\n".encode()


async def connected(node: Node) -> Wire:
    await add_stream(node, StreamConfig(name="S", subjects=("S.>",), allow_batched=True))
    return await Wire.connect(node, "r.>")


def test_a_stream_has_a_thousand_batches_at_most(server: JetgateServer | NatsServer) -> None:
    with BlockingWire(server.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_batched": True})
        try:
            wire.send(b"".join(message(f"b{n}", 1, START) for n in range(1000)))
            wire.send(b"SUB r.more.> 1\r\nSUB r.b0.10.fail.2.> 2\r\n")
            wire.send(message("more", 1, START) + message("more", 1, COMMIT))
            wire.send(message("b0", 2, COMMIT) + message("more", 1, COMMIT))

            told = [wire.frame().json() for _ in range(4)]
            assert [one["error"]["err_code"] for one in told[:2]] == [TOO_MANY, TOO_MANY]
            assert [one["count"] for one in told[2:]] == [2, 1]
        finally:
            assert wire.api("STREAM.DELETE.S")["success"]


def test_nothing_is_acknowledged_before_it_is_stored(database: str) -> None:
    """Storage is held: neither the beginning nor an ack nor the end goes out until it is free."""

    async def run() -> None:
        lock = await asyncpg.connect(database)
        async with running_node(database) as node:
            wire = await connected(node)
            holding = lock.transaction()
            await holding.start()
            await lock.execute("lock table jetgate_store.head in exclusive mode")
            wire.writer.write(message("b", 1, START, flow=1) + message("b", 2, COMMIT))
            while not await lock.fetchval(
                "select count(*) from pg_locks where not granted and locktype = 'relation'"
            ):
                await wire.flush()  # answers would come before its PONG

            await holding.rollback()
            told = [await wire.answer() for _ in range(3)]
            assert [one.get("type", one.get("count")) for one in told] == ["ack", "ack", 2]
            wire.close()
        await lock.close()

    asyncio.run(run())


def test_a_batch_ends_where_storage_refused_a_message(database: str) -> None:
    """Nothing false is acknowledged, and what was counted and not stored is not gone on from."""

    async def run() -> None:
        admin = await asyncpg.connect(database)
        async with running_node(database) as node:
            wire = await connected(node)
            wire.writer.write(message("b", 1, START, flow=1))
            assert [(await wire.answer())["seq"] for _ in range(2)] == [0, 1]
            await admin.execute(FAULT.format(code="57014"))
            wire.writer.write(message("b", 2, APPEND) + message("b", 3, APPEND, subject="S.bad"))
            assert (await wire.answer())["error"]["err_code"] == 10077
            assert (await wire.answer())["error"]["err_code"] == 10077
            await admin.execute(NO_FAULT)

            wire.writer.write(message("b", 4, COMMIT) + message("c", 1, COMMIT))

            assert (await wire.answer())["error"]["err_code"] == UNKNOWN
            assert await wire.answer() == {"stream": "S", "seq": 2, "batch": "c", "count": 1}
            wire.close()
        await admin.close()

    asyncio.run(run())


def test_a_kill_loses_what_is_open_and_nothing_that_is_acknowledged() -> None:
    with JetgateServer() as server:
        with BlockingWire(server.address) as wire:
            wire.hello()
            wire.send(b"SUB r.> 1\r\n")
            wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_batched": True})
            sent = [message("b", seq, START if seq == 1 else APPEND) for seq in range(1, 31)]
            wire.send(b"".join(sent))
            assert [wire.frame().json()["seq"] for _ in range(4)] == [0, 10, 20, 30]
        server.restart()
        with BlockingWire(server.address) as wire:
            wire.hello()
            wire.send(b"SUB r.> 1\r\n")
            assert wire.api("STREAM.INFO.S")["state"]["messages"] == 30

            wire.send(message("b", 31, APPEND, gap="ok"))
            assert wire.frame().json()["error"]["err_code"] == UNKNOWN


def test_open_batches_are_forgotten_with_their_stream_and_their_permission(database: str) -> None:
    async def run() -> None:
        async with running_node(database) as node:
            wire = await connected(node)
            runner = node.registry.stream("S")
            quota, allowed = runner.services.batches, runner.config
            refused = replace(allowed, allow_batched=False)
            for end in (
                lambda: node.registry.update_stream(refused),
                lambda: node.registry.delete_stream("S"),
            ):
                await node.registry.update_stream(allowed)
                wire.writer.write(message("b", 1, START))
                assert await wire.answer() == {"type": "ack", "seq": 0, "msgs": 10}
                assert quota.fast == 1

                await end()

                assert quota.fast == 0
            wire.close()

    asyncio.run(run())
