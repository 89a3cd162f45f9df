"""Consumers of streams that are purged while messages come in."""

import asyncio

import nats
import pytest

from core.jetstream.queries import Message
from core.model.stream import StreamConfig
from tests.support.node import add_stream, running_node
from tests.support.pg import PostgresServer


def test_what_is_stored_while_a_purge_ends_is_delivered(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer of a purged subject goes on behind the purge, not behind what came after it."""

    async def scenario() -> list[bytes]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=["s.*"]))
            nc = await nats.connect(f"nats://127.0.0.1:{node.hub.port}")
            js, runner = nc.jetstream(), node.registry.streams["S"]
            consumer = await js.pull_subscribe("s.a", durable="d", stream="S")
            await js.publish("s.a", b"purged")
            await js.publish("s.b", b"other")
            look, late = runner.first_message, []

            async def slow() -> Message | None:
                late.append(await js.publish("s.a", b"late"))
                return await look()

            monkeypatch.setattr(runner, "first_message", slow)
            await js.purge_stream("S", subject="s.a")
            assert [ack.seq for ack in late] == [3], "nothing was stored while the purge ended"
            messages = await consumer.fetch(1, timeout=5)
            await nc.close()
            return [message.data for message in messages]

    assert asyncio.run(scenario()) == [b"late"]
