"""Republishing of whole batches: nothing is skipped, and nothing leaves before COMMIT."""

# Subject: transforms

import asyncio
import re

import pytest

from core.model.stream import RePublish, StreamConfig
from tests.support.node import Wire, add_stream, running_node
from tests.support.pg import PostgresServer


def test_a_batch_that_supersedes_its_own_messages_is_republished_whole(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> bytes:
        async with running_node(database) as node:
            config = StreamConfig(
                name="S",
                subjects=("s.*",),
                max_msgs_per_subject=1,
                republish=RePublish(src="s.*", dest="rep.$1"),
            )
            await add_stream(node, config)
            wire = await Wire.connect(node)
            wire.writer.write(b"SUB rep.* 1\r\nSUB in 2\r\n")
            await wire.flush()
            wire.writer.write(b"".join(b"PUB s.%d in 1\r\nx\r\n" % (i % 2) for i in range(60)))
            data = b""
            async with asyncio.timeout(30):
                while data.count(b'"seq":') < 60:
                    data += await wire.reader.read(1 << 16)
            assert node.registry.streams["S"].machine.msgs == 2
            wire.close()
            return data

    data = asyncio.run(scenario())
    found = re.findall(rb"Nats-Sequence: (\d+)\r\n.*?\r\nNats-Last-Sequence: (\d+)\r\n", data)
    assert [(int(seq), int(last)) for seq, last in found] == [
        (seq, max(seq - 2, 0)) for seq in range(1, 61)
    ]
    assert data.find(b"HMSG rep.0") < data.find(b"MSG in 2"), "before the acknowledgement"


def test_nothing_is_republished_without_a_subscription(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr("core.jetstream.stream.republish.format_time", made.append)

    async def scenario() -> None:
        async with running_node(database) as node:
            config = StreamConfig(
                name="S", subjects=("s.*",), republish=RePublish(src=">", dest="rep.>")
            )
            await add_stream(node, config)
            wire = await Wire.connect(node)
            wire.writer.write(b"SUB other.* 1\r\nSUB in 2\r\n")
            await wire.flush()
            wire.writer.write(b"PUB s.1 in 1\r\nx\r\n")
            await wire.until(b'"seq":1}\r\n')
            wire.close()

    asyncio.run(scenario())
    assert made == []
