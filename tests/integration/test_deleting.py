"""Deleting a stream that is being written costs the node nothing but the stream."""

import asyncio

from core.model.stream import StreamConfig
from tests.support.node import Wire, add_stream, running_node
from tests.support.pg import PostgresServer


def test_a_stream_may_be_deleted_while_it_is_published_to(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> bool:
        async with running_node(database) as node:
            wire = await Wire.connect(node)
            for _ in range(20):
                await add_stream(node, StreamConfig(name="S", subjects=("s",)))
                publishing = True

                async def publish() -> None:
                    while publishing:  # noqa: B023
                        wire.writer.write(b"PUB s 1\r\nx\r\n" * 20)
                        await wire.flush()

                task = asyncio.ensure_future(publish())
                for _ in range(5):
                    await asyncio.sleep(0)
                await node.registry.delete_stream("S")
                publishing = False
                await task
            wire.close()
            return node.deposed.is_set()

    assert asyncio.run(scenario()) is False
