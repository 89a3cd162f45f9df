"""Deleting a stream that is being written costs the node nothing but the stream."""

# Subject: streams

import asyncio
import time

import pytest

from core.errors import ApiError
from core.model.stream import StreamConfig
from core.runtime.clock import SystemClock
from core.units import NANOS_PER_SECOND, Nanos
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


def test_a_stream_may_be_deleted_while_its_node_does_not_know_whether_it_leads(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after it stood still: then it looks at the heads of its streams, and one is gone."""

    async def scenario() -> None:
        async with running_node(database) as node, asyncio.timeout(30):
            for name in ("S", "T"):
                await add_stream(node, StreamConfig(name=name, subjects=(name,)))
            monkeypatch.setattr(node.committer, "_trusted", lambda: False)
            await node.registry.delete_stream("S")
            monkeypatch.undo()
            await node.registry.delete_stream("T")

    asyncio.run(scenario())


class _SetClock(SystemClock):
    """A clock that can be set forward."""

    ahead = 0

    def now(self) -> Nanos:
        return Nanos(time.time_ns() + self.ahead)


_LIVES_A_MINUTE = b"NATS/1.0\r\nNats-TTL: 60\r\n\r\n"


def test_a_stream_may_be_deleted_while_it_looks_for_what_expired(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the search finds has no head to go to, for which another node would be blamed."""

    async def scenario() -> bool:
        clock = _SetClock()
        async with running_node(database, clock=clock) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s",), allow_msg_ttl=True))
            await add_stream(node, StreamConfig(name="T", subjects=("t",)))
            runner, wire = node.registry.streams["S"], await Wire.connect(node)
            wire.writer.write(b"SUB in 1\r\nPUB s in 1\r\nx\r\n")
            await wire.until(b"}\r\n")
            size = len(_LIVES_A_MINUTE)
            wire.writer.write(b"HPUB s in %d %d\r\n%bx\r\n" % (size, size + 1, _LIVES_A_MINUTE))
            await wire.until(b"}\r\n")
            names, asked, go_on = runner.services.reader.names, asyncio.Event(), asyncio.Event()

            async def slow(*request: int) -> list[tuple[int, bytes]]:
                asked.set()
                await go_on.wait()
                return await names(*request)

            monkeypatch.setattr(runner.services.reader, "names", slow)
            clock.ahead = 100 * NANOS_PER_SECOND
            expiring = asyncio.create_task(runner.requests.trim())
            await asked.wait()
            await node.registry.delete_stream("S")
            go_on.set()
            with pytest.raises(ApiError):
                async with asyncio.timeout(30):
                    await expiring
            wire.writer.write(b"PUB t in 1\r\nx\r\n")
            await wire.until(b"}\r\n")
            wire.close()
            return node.deposed.is_set()

    assert asyncio.run(scenario()) is False
