"""What 10,000 messages cost in tasks, writes and commits: counts do not flake as times do."""

# Subject: costs

import asyncio

import pytest

from core.model.stream import StreamConfig
from core.runtime import tasks
from core.transport.session import ClientSession
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.pg import PostgresServer

pytestmark = pytest.mark.quiet

MESSAGES = 10_000
PAYLOAD = b"x" * 128


class Costs:
    """What was spent since this was made."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._before = self._now()

    def _now(self) -> tuple[int, int, int]:
        return tasks.counters["tasks"], self._node.hub.writes, self._node.committer.commits

    def spent(self) -> tuple[int, int, int]:
        """Return tasks, socket writes and commits."""
        after = self._now()
        return after[0] - self._before[0], after[1] - self._before[1], after[2] - self._before[2]


def test_ten_thousand_publishes_cost_no_task_and_few_writes_and_commits(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> tuple[int, int, int]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.>",)))
            wire = await Wire.connect(node, "_INBOX.a.*")
            costs = Costs(node)
            for start in range(0, MESSAGES, 500):
                batch = (
                    b"PUB s.%d _INBOX.a.%d 128\r\n%b\r\n" % (i % 10, i, PAYLOAD)
                    for i in range(start, start + 500)
                )
                wire.writer.write(b"".join(batch))
            assert await wire.count(b'"seq":', MESSAGES) == MESSAGES
            spent = costs.spent()
            wire.close()
            return spent

    made, writes, commits = asyncio.run(scenario())

    assert made == 0
    assert writes <= 200
    assert commits <= 100


def test_ten_thousand_deliveries_cost_no_task_per_message_and_no_log_commit(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> tuple[int, int, int]:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.>",)))
            wire = await Wire.connect(node)
            wire.writer.write(b"SUB _INBOX.a.* 1\r\nSUB _INBOX.b 2\r\n")
            create = (
                b'{"stream_name":"S","config":'
                b'{"durable_name":"C","ack_policy":"explicit","max_ack_pending":-1}}'
            )
            wire.writer.write(
                b"PUB $JS.API.CONSUMER.CREATE.S.C _INBOX.a.c %d\r\n%b\r\n" % (len(create), create)
            )
            await wire.until(b'"num_pending":0')
            for i in range(MESSAGES):
                wire.writer.write(b"PUB s.1 _INBOX.a.%d 128\r\n%b\r\n" % (i, PAYLOAD))
            assert await wire.count(b'"seq":', MESSAGES) == MESSAGES
            costs = Costs(node)
            pull = b'{"batch":500,"expires":20000000000}'
            for _ in range(0, MESSAGES, 500):
                wire.writer.write(
                    b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _INBOX.b %d\r\n%b\r\n" % (len(pull), pull)
                )
            assert await wire.count(b"\r\nMSG s.1 2 ", MESSAGES - 1) >= MESSAGES - 1
            spent = costs.spent()
            wire.close()
            return spent

    made, writes, commits = asyncio.run(scenario())

    assert made <= 2
    assert writes <= 100
    assert commits == 0


def test_a_firehose_publisher_does_not_starve_others(
    postgres: PostgresServer, database: str
) -> None:
    """While one connection publishes as fast as it can, another one's round trips go on.

    Ticks of the loop are counted, not time: between two PONGs of the quiet client the server may
    serve only a bounded number of reads of the loud one.
    """

    async def scenario() -> tuple[int, int]:
        async with running_node(database) as node:
            loud, quiet = await Wire.connect(node), await Wire.connect(node)
            buffer = b"".join(b"PUB core.x 128\r\n%b\r\n" % PAYLOAD for _ in range(2000))
            done = False

            async def flood() -> None:
                while not done:
                    loud.writer.write(buffer)
                    await loud.writer.drain()

            flooding = tasks.spawn(flood(), name="flood")
            session = next(s for s in node.hub.sessions.values() if isinstance(s, ClientSession))
            worst, rounds = 0, 0
            for _ in range(50):
                before = session.count().in_bytes
                await quiet.flush()
                worst = max(worst, session.count().in_bytes - before)
                rounds += 1
            total = session.count().in_bytes
            done = True
            await flooding
            loud.close()
            quiet.close()
            assert total > 1 << 20, "the firehose did not run"
            return rounds, worst

    rounds, worst = asyncio.run(scenario())

    assert rounds == 50
    assert worst < 8 << 20
