"""Consumers of streams that are purged while messages come in."""

# Subject: purge

import asyncio
from typing import Any

import nats
import pytest

from core.errors import Unavailable
from core.jetstream.log.message import Message
from core.jetstream.log.stream_log import StreamLog
from core.model.stream import StreamConfig
from tests.support.eventually import observed
from tests.support.node import add_stream, running_node
from tests.support.pg import PostgresServer


def test_messages_stored_while_a_purge_ends_are_delivered(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer of a purged subject goes on behind the purge, not behind what came after it."""

    async def scenario() -> list[bytes]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.*",)))
            nc = await nats.connect(f"nats://127.0.0.1:{node.hub.port}")
            js, runner = nc.jetstream(timeout=30), node.registry.streams["S"]
            consumer = await js.pull_subscribe("s.a", durable="d", stream="S")
            await js.publish("s.a", b"purged")
            await js.publish("s.b", b"other")
            look, late = runner.log.first_message, []

            async def slow() -> Message | None:
                late.append(await js.publish("s.a", b"late"))
                return await look()

            monkeypatch.setattr(runner.log, "first_message", slow)
            await js.purge_stream("S", subject="s.a")
            assert [ack.seq for ack in late] == [3], "nothing was stored while the purge ended"
            messages = await consumer.fetch(1, timeout=30)
            await nc.close()
            return [message.data for message in messages]

    assert asyncio.run(scenario()) == [b"late"]


def test_a_purge_behind_which_storage_goes_away_is_one(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed: an error would say that nothing went."""

    async def scenario() -> tuple[bool, int, int]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.*",)))
            nc = await nats.connect(node.nats_address)
            js, runner = nc.jetstream(timeout=30), node.registry.streams["S"]
            await js.pull_subscribe("s.a", durable="d", stream="S")
            for subject in ("s.a", "s.b"):
                await js.publish(subject, b"")
            look, failures = runner.log.first_message, [Unavailable("gone"), Unavailable("gone")]

            async def failing() -> Message | None:
                if failures:
                    raise failures.pop()
                return await look()

            monkeypatch.setattr(runner.log, "first_message", failing)
            is_purged = await js.purge_stream("S", subject="s.a")
            state = (await js.stream_info("S")).state
            await nc.close()
            return is_purged, state.messages, len(failures)

    assert asyncio.run(scenario()) == (True, 1, 0)


def test_a_purge_that_keeps_some_does_not_keep_what_a_large_one_left_in_storage(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a recorded purge leave later, a part at a time; nobody may count them meanwhile."""
    monkeypatch.setattr("core.jetstream.stream.commands._AT_ONCE", 2)
    monkeypatch.setattr("core.jetstream.janitor._SCATTERED_ROWS", 2)

    async def scenario() -> tuple[int, int, bytes]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.*",)))
            nc = await nats.connect(node.nats_address)
            js, runner = nc.jetstream(timeout=30), node.registry.streams["S"]
            sweeper, janitor, asked = runner.services.sweeper, node.janitor, asyncio.Event()
            delete_rows, finish = sweeper.delete_rows, janitor.finish

            async def sweep(stream: int, partition: int, seqs: list[int], *more: Any) -> None:
                await asked.wait()
                if 5 in seqs:
                    for _ in range(50):
                        await nc.flush()  # whoever does not wait for this gets far
                await delete_rows(stream, partition, seqs, *more)

            async def note(stream: StreamLog) -> None:
                asked.set()
                await finish(stream)

            monkeypatch.setattr(janitor, "finish", note)
            monkeypatch.setattr(sweeper, "delete_rows", sweep)
            for subject in ("s.a", "s.b", "s.x", "s.x", "s.x"):
                await js.publish(subject, subject.encode())
            await js.purge_stream("S", subject="s.x")
            await js.purge_stream("S", keep=1)
            state = (await js.stream_info("S")).state
            left = await js.get_msg("S", seq=state.first_seq)
            await nc.close()
            return state.messages, state.first_seq, left.data or b""

    assert asyncio.run(scenario()) == (1, 2, b"s.b")


def test_a_large_purge_that_passes_over_a_wildcard_token_keeps_it_over_a_restart(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage finishes large purges by another rule for `*`."""
    monkeypatch.setattr("core.jetstream.stream.commands._AT_ONCE", 2)

    async def left(*, purges: bool) -> list[str]:
        async with running_node(database) as node:
            nc = await nats.connect(node.nats_address)
            js = nc.jetstream(timeout=30)
            if purges:
                await add_stream(node, StreamConfig(name="S", subjects=("s.>",)))
                for subject in ("s.a", "s.b", "s.>", "s.c", "s.d"):
                    await js.publish(subject, b"x")
                await js.purge_stream("S", subject="s.*")
            state = (await js.stream_info("S", subjects_filter=">")).state
            await nc.close()
            return list(state.subjects or {})

    assert asyncio.run(left(purges=True)) == ["s.>"]
    assert asyncio.run(left(purges=False)) == ["s.>"]


def test_a_purge_waits_for_no_reader(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waited for another stream would hold up the group committer, and with it all."""

    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="KEPT", subjects=("k",)))
            config = StreamConfig(name="PURGED", subjects=("p",), max_msgs_per_subject=1)
            await add_stream(node, config)
            nc = await nats.connect(node.nats_address)
            js, kept = nc.jetstream(timeout=30), node.registry.streams["KEPT"]
            purged, reader = node.registry.streams["PURGED"], kept.services.reader
            pool, held, go = reader._pool, asyncio.Event(), asyncio.Event()  # type: ignore[attr-defined]  # PostgreSQL's

            class SlowPool:
                async def fetch(self, *request: Any) -> list[Any]:
                    if request[1] == kept.stream:
                        held.set()
                        await go.wait()
                    return list(await pool.fetch(*request))

            monkeypatch.setattr(reader, "_pool", SlowPool())
            reading = asyncio.create_task(reader.range(kept.stream, kept.partition, 1, 1))
            await held.wait()
            for _ in range(2):
                await js.publish("p", b"")
            await js.purge_stream("PURGED", seq=2)
            await js.publish("k", b"")
            assert not purged.log.removed.rows
            assert purged.log.removed.deleted == {1}
            go.set()
            await reading
            await observed(lambda: not purged.log.removed.deleted)
            await nc.close()

    asyncio.run(scenario())
