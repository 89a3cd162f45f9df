"""Mirrors and remotes of several nodes: who copies, whose origin it is, and who connects are three
different nodes.
"""

# Subject: several nodes

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error

from tests.support.eventually import observed
from tests.support.natsserver import NatsServer
from tests.support.node_clients import At, run
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer
from tests.support.remotes import leaf_url, remote, started_hub

SOON = 7
"""Seconds in which a mirror hears of its origin; to find out by itself takes ten and more."""


@pytest.fixture
def nodes(durable: PostgresServer) -> Iterator[Nodes]:
    with Nodes(durable.fresh_database(), 3) as nodes:
        yield nodes


@pytest.fixture
def hub() -> Iterator[NatsServer]:
    with started_hub() as server:
        yield server


@asynccontextmanager
async def client_of(server: NatsServer) -> AsyncIterator[Client]:
    client = await nats.connect(f"nats://{server.address[0]}:{server.address[1]}")
    try:
        yield client
    finally:
        await client.close()


async def answers(client: Client, subject: str) -> None:
    """Return when requests of a subject are answered."""

    async def look() -> bool:
        try:
            await client.request(subject, timeout=5)
        except Error:
            return False
        return True

    await observed(look, within=60)


async def answers_to(client: Client, subject: str, requests: int) -> int:
    """How many answers so many requests get in all, by the time that the last one is answered."""
    inbox = client.new_inbox()
    sub = await client.subscribe(inbox)
    await client.flush()
    for _ in range(requests):
        await client.publish(subject, b"", reply=inbox)
        await sub.next_msg(timeout=20)
    # Whoever else would answer gets all requests in the same order, and answers this one too.
    await client.request(subject, timeout=20)
    return requests + sub.pending_msgs


@pytest.mark.thorough
def test_one_node_answers_what_is_asked_through_a_leaf_node_also_once_it_is_gone(
    nodes: Nodes, hub: NatsServer
) -> None:
    added = remote("add", "gate", leaf_url(hub), on=nodes.dsn)
    assert added.returncode == 0, added.stderr

    async def scenario(_one: At, two: At, _three: At) -> None:
        async with client_of(hub) as there:
            await two.stream("OURS")
            for asked in ("STREAM.INFO.OURS", "INFO", "STREAM.NAMES"):
                await answers(there, f"$JS.gate.API.{asked}")
                assert await answers_to(there, f"$JS.gate.API.{asked}", 20) == 20
            # Every node has read the list more often than it takes to connect.
            nodes.leader.kill()
            await answers(there, "$JS.gate.API.STREAM.INFO.OURS")
            assert await answers_to(there, "$JS.gate.API.STREAM.INFO.OURS", 20) == 20

    run(nodes, scenario)


def test_a_mirror_learns_of_an_origin_that_another_node_creates_and_of_its_end(
    nodes: Nodes,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("COPY", mirror={"name": "LATER"})
        await one.move("COPY", one.name)
        await two.stream("LATER")
        await two.move("LATER", two.name)
        await three.js.publish("LATER.a", b"1")
        await one.holds("COPY", 1, within=SOON)

        await three.done("STREAM.DELETE.LATER")
        await two.stream("LATER")
        for body in (b"1", b"2", b"3"):
            await three.js.publish("LATER.a", body)
        await one.holds("COPY", 3, within=2 * SOON)

    run(nodes, scenario)


def test_a_mirror_goes_on_wherever_it_and_its_origin_go(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("ORIGIN")
        await two.stream("COPY", mirror={"name": "ORIGIN"})
        await three.stream("SUM", sources=[{"name": "COPY"}])
        count = 0
        for origin, copy in ((one, two), (two, three), (three, one)):
            await one.move("ORIGIN", origin.name)
            await one.move("COPY", copy.name)
            for _ in range(10):
                count += 1
                await two.js.publish("ORIGIN.a", b"%d" % count)
            await three.holds("COPY", count)
            await three.holds("SUM", count)
        found = [(await one.js.get_msg("COPY", seq)).data for seq in range(1, count + 1)]
        assert found == [b"%d" % seq for seq in range(1, count + 1)]

    run(nodes, scenario)
