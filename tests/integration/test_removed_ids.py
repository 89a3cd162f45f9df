"""Message ids outlive their messages: what was removed is a duplicate for the next leader too."""

# Subject: deduplication

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import PubAck

from core.model.stream import Discard, Retention, StreamConfig
from core.rules.stream.headers import MSG_ID, find
from core.runtime.clock import SystemClock
from core.units import Nanos
from tests.support.node import Node, add_stream, running_node

WINDOW = 120_000_000_000
HEADER = "Nats-Msg-Id"


async def acknowledged(js: JetStreamContext) -> None:
    pull = await js.pull_subscribe("s.*", durable="d", stream="S")
    for message in await pull.fetch(3, timeout=30):
        await message.ack_sync(timeout=30)


async def acknowledged_but_the_first(js: JetStreamContext) -> None:
    pull = await js.pull_subscribe("s.*", durable="d", stream="S")
    for message in (await pull.fetch(3, timeout=30))[1:]:
        await message.ack_sync(timeout=30)


async def purged(js: JetStreamContext) -> None:
    await js.purge_stream("S")


async def purged_by_filter(js: JetStreamContext) -> None:
    await js.purge_stream("S", subject="s.b")


async def deleted(js: JetStreamContext) -> None:
    for seq in (1, 2):
        await js.delete_msg("S", seq)


async def nothing(js: JetStreamContext) -> None:
    """It is the stream that removes them."""


WORK = {"retention": Retention.WORKQUEUE}
CASES: dict[str, tuple[dict[str, Any], Callable[[JetStreamContext], Awaitable[None]]]] = {
    "acknowledged": (WORK, acknowledged),
    "acknowledged out of order": (WORK, acknowledged_but_the_first),
    "wanted by nobody": ({"retention": Retention.INTEREST}, nothing),
    "purged": ({}, purged),
    "purged by filter": ({}, purged_by_filter),
    "deleted": ({}, deleted),
    "more than max_msgs": ({"max_msgs": 1}, nothing),
    "replaced": ({"max_msgs_per_subject": 1}, nothing),
    "more than max_bytes": ({"max_bytes": 100, "discard": Discard.OLD}, nothing),
}


async def publish(js: JetStreamContext) -> list[PubAck]:
    """The same messages each time; those on one subject replace each other."""
    subjects = ("s.a", "s.b", "s.b")
    return [
        await js.publish(subject, b"x", timeout=30, headers={HEADER: f"id-{number}"})
        for number, subject in enumerate(subjects, 1)
    ]


async def swept(node: Node) -> None:
    """Have the rows of whatever is removed deleted."""
    await node.janitor.finish(node.registry.streams["S"].log)


@pytest.mark.parametrize("case", CASES)
def test_a_message_that_was_removed_is_a_duplicate_for_the_next_leader(
    database: str, case: str
) -> None:
    options, remove = CASES[case]

    async def scenario() -> None:
        config = StreamConfig(name="S", subjects=("s.*",), duplicate_window=WINDOW, **options)
        for term in range(3):
            async with running_node(database) as node:
                if not term:
                    await add_stream(node, config)
                client = await nats.connect(node.nats_address)
                js = client.jetstream(timeout=30)
                acks = await publish(js)
                shown = [(ack.seq, bool(ack.duplicate)) for ack in acks]
                assert shown == [(seq, term > 0) for seq in (1, 2, 3)]
                if not term:
                    await remove(js)
                left = (await js.stream_info("S")).state.messages
                assert left < 3
                await client.close()
                if term:  # the second leader finds the rows as the first one has left them
                    await swept(node)
        admin = await asyncpg.connect(database)
        rows = await admin.fetchval("select count(*) from jetgate_store.message")
        await admin.close()
        assert rows == left

    asyncio.run(scenario())


class Later(SystemClock):
    """The time after the window."""

    @staticmethod
    def now() -> Nanos:
        return Nanos(time.time_ns() + 2 * WINDOW)


def test_an_id_is_new_again_after_the_window_and_what_was_kept_of_it_is_deleted(
    database: str,
) -> None:
    async def scenario() -> None:
        config = StreamConfig(name="S", subjects=("s.*",), duplicate_window=WINDOW, max_msgs=1)
        async with running_node(database) as node:
            await add_stream(node, config)
            client = await nats.connect(node.nats_address)
            await publish(client.jetstream(timeout=30))
            await client.close()
            await swept(node)
        admin = await asyncpg.connect(database)
        kept = "select array_agg(convert_from(u.id, 'utf8') order by u.seq)"
        kept += " from jetgate_store.removed_ids r, unnest(r.seqs, r.ids) as u(seq, id)"
        assert await admin.fetchval(kept) == ["id-1", "id-2"]
        async with running_node(database, clock=Later()) as node:
            client = await nats.connect(node.nats_address)
            js = client.jetstream(timeout=30)
            acks = await publish(js)
            assert [(ack.seq, bool(ack.duplicate)) for ack in acks] == [
                (seq, False) for seq in (4, 5, 6)
            ]
            await swept(node)
            log = node.registry.streams["S"].log
            await node.janitor.forget_ids(log)
            assert await admin.fetchval(kept) == ["id-1", "id-2"]  # those of now
            await js.delete_stream("S")
            await client.close()
        await admin.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (b"NATS/1.0\r\nNats-Msg-Id: a b\r\n\r\n", b"a b"),
        (b"NATS/1.0\r\nNats-Msg-Id:  two\r\nX: y\r\n\r\n", b"two"),
        (b"NATS/1.0\r\nX: y\r\nNats-Msg-Id:bare\r\nNats-Msg-Id: second\r\n\r\n", b"bare"),
        (b"NATS/1.0\r\nNats-Msg-Id: \x00\xff\r\n\r\n", b"\x00\xff"),
        (b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n", None),
        (b"NATS/1.0\r\nX-Nats-Msg-Id: x\r\nnats-msg-id: y\r\n\r\n", None),
    ],
)
def test_the_database_reads_an_id_as_the_server_does(
    database: str, block: bytes, found: bytes | None
) -> None:

    async def scenario() -> None:
        admin = await asyncpg.connect(database)
        read = await admin.fetchval("select jetgate_store.message_id($1)", block)
        await admin.close()
        assert read == found == (find(block, MSG_ID) or None)

    asyncio.run(scenario())
