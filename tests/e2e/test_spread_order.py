"""Publishers that wait for no acknowledgement keep their order while their stream moves."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.errors import Error

from tests.support.eventually import observed
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer
from tests.support.spread import PATIENT, At, at_each

LEAST = 5000
AT_ONCE = 200
TRIES = 5
LATE_MS = 400
"""A node whose loop stood still for so long may have been given up, or give its clients up."""


@pytest.fixture(scope="module")
def nodes(durable: PostgresServer) -> Iterator[Nodes]:
    with Nodes(durable.fresh_database(), 3) as nodes:
        yield nodes


class Pipeline:
    """Publishes to a subject until it is told to stop, and at least so many.

    It waits for its node to have read what it sends, never for an acknowledgement.

    Attributes:
        sent: how many messages.
        acks: what answered, in the order in which it came: the number of the message, and the body.
    """

    def __init__(self, at: At, subject: str) -> None:
        self._at, self._subject = at, subject
        self._inbox = at.client.new_inbox()
        self.sent = 0
        self.acks: list[tuple[int, dict[str, Any]]] = []
        self.is_over = False

    async def publish(self) -> None:
        """Publish; return when everything is answered."""
        client = self._at.client
        await client.subscribe(f"{self._inbox}.*", cb=self._note)
        while self.sent < LEAST or not self.is_over:
            for _ in range(AT_ONCE):
                reply = f"{self._inbox}.{self.sent}"
                await client.publish(self._subject, b"%d" % self.sent, reply=reply)
                self.sent += 1
            await client.flush(timeout=int(PATIENT))
        await observed(lambda: len(self.acks) >= self.sent, within=20)

    async def _note(self, message: Msg) -> None:
        number = int(message.subject.rpartition(".")[2])
        body = json.loads(message.data) if message.data else dict(message.headers or {})
        self.acks.append((number, body))

    def sequences(self) -> list[int]:
        """What was told: each message is stored once, and behind the one before it."""
        refused = [(number, ack) for number, ack in self.acks if not ack.get("seq")]
        assert refused == []
        assert not any("duplicate" in ack for _, ack in self.acks)
        assert [number for number, _ in self.acks] == [*range(self.sent)]
        found = [int(ack["seq"]) for _, ack in self.acks]
        assert found == sorted(set(found))
        return found


async def stored(at: At, stream: str) -> list[tuple[str, int]]:
    """Subject and body of all messages, in their order."""
    state = (await at.info(stream))["state"]
    assert (state["first_seq"], state["messages"]) == (1, state["last_seq"])
    found: list[tuple[str, int]] = []

    async def take(message: Msg) -> None:
        found.append((message.subject, int(message.data)))

    reader = await at.js.subscribe(f"{stream}.>", stream=stream, ordered_consumer=True, cb=take)
    await observed(lambda: len(found) == state["messages"], within=60)
    await reader.unsubscribe()
    return found


def stalls(nodes: Nodes) -> int:
    """How often a node has noticed that it stood still."""
    found = [re.findall(r"held up for (\d+) ms", node.log(1 << 20)) for node in nodes.all]
    return sum(int(each) >= LATE_MS for some in found for each in some)


async def moved_along(name: str, one: At, two: At, three: At) -> None:
    """Publish through the leader and through another node while a stream moves three times."""
    await one.stream(name)
    pipelines = {f"{name}.{at.name}": Pipeline(at, f"{name}.{at.name}") for at in (one, three)}

    async def move() -> None:
        for to in (two, three, one):
            before = {pipeline: len(pipeline.acks) for pipeline in pipelines.values()}
            await two.move(name, to.name)
            await observed(lambda: all(len(p.acks) > n for p, n in before.items()))  # noqa: B023
        for pipeline in pipelines.values():
            pipeline.is_over = True

    await asyncio.gather(move(), *(each.publish() for each in pipelines.values()))
    told = dict[int, tuple[str, int]]()
    for subject, pipeline in pipelines.items():
        told |= {seq: (subject, n) for n, seq in enumerate(pipeline.sequences())}
    assert sorted(told) == [*range(1, sum(each.sent for each in pipelines.values()) + 1)]
    assert await stored(two, name) == [told[seq] for seq in sorted(told)]


def test_pipelined_publishes_through_any_node_keep_their_order_while_their_stream_moves(
    nodes: Nodes,
) -> None:
    async def within_time(name: str) -> None:
        async with asyncio.timeout(90), at_each(nodes) as each:
            await moved_along(name, *each)

    for attempt in range(TRIES):
        before = stalls(nodes)
        try:
            asyncio.run(within_time(f"PIPE-{attempt}"))
        except (AssertionError, Error, TimeoutError):
            if attempt + 1 == TRIES or stalls(nodes) == before:
                raise
            nodes.settled()  # the machine was late
        else:
            return
