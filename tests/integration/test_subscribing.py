"""`core.client.subscribe` does what ADR-15 says: at both servers, and inside a node's process.

The table is in `subscribing/`, a row for each sentence.
"""

# Subject: gateway client

import asyncio
from functools import partial

import pytest

from core.client import JetStream, Link, attach, connect, dial
from core.client.link import Closed, Receive
from core.client.subscribe import OrderedSettings, SubscriptionTarget, ordered
from core.model.stream import StreamConfig
from core.transport.loopback import connect_loopback
from tests.integration.subscribing import (
    acknowledging,
    binding,
    creating,
    ordering,
    statuses,
    unsubscribing,
)
from tests.integration.subscribing.table import ROWS, Row, play_row, taken
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import running_node

Server = JetgateServer | NatsServer
SECTIONS = (creating, binding, acknowledging, statuses, unsubscribing, ordering)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_sentence_holds(row: Row, server: Server) -> None:
    asyncio.run(play_row(dial("{}:{}".format(*server.address)), row))


def test_every_section_has_rows_of_its_own() -> None:
    modules = {row.body.__module__ for row in ROWS}
    assert modules == {section.__name__ for section in SECTIONS}
    assert len({row.name for row in ROWS}) == len({row.sentence for row in ROWS}) == len(ROWS)


def test_the_sentences_hold_inside_the_process_of_a_node(database: str) -> None:
    async def scenario() -> None:
        async with running_node(database) as node:
            for row in ROWS:
                await play_row(attach(partial(connect_loopback, node.hub)), row)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["nats-server", "jetgate"])
def test_an_ordered_subscription_goes_on_over_a_restart_of_the_server(kind: str) -> None:
    with NatsServer() if kind == "nats-server" else JetgateServer(in_memory=True) as server:
        asyncio.run(_restarted(server))


async def _restarted(server: Server) -> None:
    async def dialed(receive: Receive, closed: Closed) -> Link:
        return await dial("{}:{}".format(*server.address))(receive, closed)  # the port may change

    js = JetStream(await connect(dialed), timeout=30)
    await js.create_stream(StreamConfig(name="S", subjects=("s",)))
    for _ in range(3):
        await js.publish(b"s", b"before")
    sub = await ordered(js, SubscriptionTarget(subject="s"), OrderedSettings(heartbeat=1.0))
    assert [msg.stream_seq for msg in await taken(sub, 3)] == [1, 2, 3]
    incarnation = sub.incarnation
    await asyncio.to_thread(server.restart)
    await js.client.wait_connected()
    for _ in range(3):
        await js.publish(b"s", b"after")
    assert [msg.stream_seq for msg in await taken(sub, 3)] == [4, 5, 6]
    assert (sub.recovered, sub.incarnation) == (True, incarnation)
    await sub.unsubscribe()
    await js.client.close()
