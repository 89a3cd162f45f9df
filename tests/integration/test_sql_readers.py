"""What the views and functions for SQL readers show, whatever waits for its deletion."""

# Subject: SQL

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import Any

import asyncpg
import nats
import pytest
from nats.aio.client import Client as NATS
from nats.js.client import JetStreamContext

from core.jetstream.stream.runner import StreamRunner
from core.model.stream import Retention, StreamConfig
from core.runtime.clock import SystemClock
from core.storage.interface import Head
from core.storage.postgres.connect import Connector
from core.storage.postgres.stored_messages import PostgresMessages
from core.storage.postgres.subjects import columns_of, text_of
from core.units import Epoch
from tests.support.memory_store import MemoryStore, Row
from tests.support.node import Node, add_stream, running_node
from tests.support.sql import MINUTE, on, stored

SECOND = 1_000_000_000
LONG = "s." + "0123456789abcdef" * 240
"""Longer than what an index entry may have."""
_SUBJECTS = [b"s.0", b"s.1", b"s.\xff", LONG.encode()]


def test_the_view_shows_messages_within_the_head(database: str) -> None:
    assert stored(database, first=3) == [3, 4, 5, 6]


def test_view_hides_what_is_too_old(database: str) -> None:
    age = f'{{"max_age": {int(2.5 * MINUTE)}}}'

    assert stored(database, config=age) == [4, 5, 6]


def test_view_hides_what_an_unfinished_purge_removes(database: str) -> None:
    purge = "insert into jetgate_store.purge values (7, 1, '{s.1,x.>}', 4)"

    assert stored(database, more=purge) == [2, 4, 5, 6]


def test_view_hides_what_newer_messages_replace(database: str) -> None:
    rows = "(7, 8, '{1}'), (7, 10, '{2}'), (8, 8, '{5}')"
    replaced = f"insert into jetgate_store.replaced values {rows}"
    limit = '{"max_msgs_per_subject": 2}'

    assert stored(database, config=limit, more=replaced) == [3, 4, 5, 6]


def test_views_show_columns_that_people_can_read(database: str) -> None:
    stored(database, config='{"description": "a \\u0000 in it"}', last=1)

    shown = on(
        database,
        "select stream, subject, text, data, size, headers, time > now() - interval '1 minute'"
        " from jetgate.messages",
    )
    assert shown == [("S", "s.1", "m1", b"m1", 2, None, True)]
    streams = on(database, "select name, last_seq, config ->> 'description' from jetgate.streams")
    assert streams == [("S", 1, "a ␀ in it")]


def test_a_page_has_the_head_and_raw_messages(database: str) -> None:
    stored(database, first=2, last=4)
    on(database, "update jetgate_store.head set msgs = 3, bytes = 99, last_ts = 4", "select 1")
    on(database, "update jetgate_store.message set ts = seq, hdr = 'NATS'", "select 1")

    head = "select id, stream, account, incarnation, first_seq, last_seq, last_ts, messages, bytes"
    assert on(database, f"{head} from jetgate.heads") == [(7, "S", "$G", 0, 2, 4, 4, 3, 99)]
    log = "select seq, subject, ts, headers, data, size, crc from jetgate.log where id = 7"
    assert on(database, log) == [
        (2, "s.0", 2, b"NATS", b"m2", 2, 0),
        (3, "s.1", 3, b"NATS", b"m3", 2, 0),
        (4, "s.0", 4, b"NATS", b"m4", 2, 0),
    ]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("first_seq = 0, last_seq = 0, msgs = 0", 0),
        ("first_seq = 3, last_seq = 6, msgs = 0", 7),
        ("first_seq = 1, last_seq = 6, msgs = 4", 3),
        ("first_seq = 5, last_seq = 6, msgs = 2", 5),
    ],
)
def test_the_first_sequence_is_that_of_the_first_message(
    database: str, head: str, expected: int
) -> None:
    """As STREAM.INFO tells it: the head row has a lower bound."""
    stored(database)
    on(database, "delete from jetgate_store.message where seq < 3", "select 1")
    on(database, f"update jetgate_store.head set {head} where stream = 7", "select 1")

    assert on(database, "select first_seq from jetgate.heads") == [(expected,)]


def test_a_time_is_found_as_the_first_sequence_at_or_after_it(database: str) -> None:
    stored(database, first=2, more="insert into jetgate_store.replaced values (7, 8, '{4}')")
    [(now,)] = on(database, "select max(ts) from jetgate.log where id = 7")

    def at(ns: int) -> Any:
        return on(database, "select jetgate.seq_at('S', $1::bigint)", arguments=(ns,))[0][0]

    assert at(0) == 2
    assert at(now - 3 * MINUTE) == 3
    assert at(now - 3 * MINUTE + 1) == 5  # 4 is replaced
    assert at(now + 1) == 7
    assert on(database, "select jetgate.seq_at('S', now() - interval '5 days')") == [(2,)]
    assert on(database, "select jetgate.seq_at('NONE', 0)") == [(None,)]


def test_consumers_are_shown_by_the_name_of_their_stream_with_their_lag(database: str) -> None:
    stored(database)
    on(
        database,
        "insert into jetgate_store.consumer"
        " (stream, consumer, name, created, epoch, config, delivered_stream_seq,"
        " ack_floor_stream_seq) values (7, 1, 'C', 0, 1, '{}', 4, 2), "
        " (7, 2, 'D', 0, 1, '{}', 6, 6)",
        "select 1",
    )

    shown = on(
        database,
        "select stream, name, delivered_stream_seq, lag, ack_lag, round(extract(epoch from"
        " lag_time) / 60)::int from jetgate.consumers order by name",
    )

    assert shown == [("S", "C", 4, 2, 4, 1), ("S", "D", 6, 0, 0, None)]


# -- against the same rule in Python -----------------------------------------------------------

_BLOCKS = [
    None,
    "X-Other: 1",
    *(f"Nats-TTL: {ttl}" for ttl in ("5", "100", "1h", "0", "00", "05", "never", "2s", "1.5m")),
    *("Nats-TTL:5", "nats-ttl: 5", "A: b\r\nNats-TTL: 5\r\nC: d", "Nats-TTL:   5", "Nats-TTL: 1 2"),
    *("Nats-TTL:", "Nats-TTL: x", "Nats-TTL: 9999999999999", "Nats-TTL: 18446744073709551621"),
]


def _random_stream(rng: random.Random, now: int) -> tuple[StreamConfig, MemoryStore]:
    """A stream of some thirty rows, with everything that may hide one of them."""
    last = rng.randint(10, 30)
    config = StreamConfig(
        name="S",
        max_age=rng.choice([0, 0, 60 * SECOND]),
        allow_msg_ttl=rng.random() < 0.5,
        max_msgs_per_subject=rng.choice([-1, 1, 3]),
    )
    store = MemoryStore(Head(Epoch(1), rng.randint(1, 5), last, now, last, 0))
    for seq in range(1, last + 3):
        if rng.random() < 0.8:
            text = rng.choice(_BLOCKS)
            block = None if text is None else f"NATS/1.0\r\n{text}\r\n\r\n".encode()
            age = (last + 2 - seq) * 10 * SECOND - rng.randrange(SECOND)
            store.rows[seq] = Row(now - age, rng.choice(_SUBJECTS), block, b"m%d" % seq)
    if config.max_msgs_per_subject == 1:
        _replace_all_but_the_last(store)
    elif config.max_msgs_per_subject > 0:
        store.replaced_rows = {seq: 1 for seq in store.rows if rng.random() < 0.3}
    for pattern in (b"s.1", b"*.2", b"s.>", b"t.>"):
        if rng.random() < 0.2:
            store.purges.append(((pattern, b"x.y"), rng.randint(1, last)))
    return config, store


def _replace_all_but_the_last(store: MemoryStore) -> None:
    last = {row.subject: seq for seq, row in store.rows.items() if seq <= store.head.last_seq}
    store.replaced_rows = dict.fromkeys(store.rows.keys() - last.values(), 1)


async def _insert(connection: Any, n: int, config: StreamConfig, store: MemoryStore) -> None:
    text = (
        f'{{"max_age": {config.max_age}, "allow_msg_ttl": {str(config.allow_msg_ttl).lower()},'
        f' "max_msgs_per_subject": {config.max_msgs_per_subject}}}'
    )
    await connection.execute(
        "insert into jetgate_store.stream"
        " (stream, account, name, shelf, created, lease_group, config)"
        " values ($1, '$G', $2, $1 % 2, 0, 0, $3)", n, f"S{n}", text,
    )  # fmt: skip
    head = store.head
    await connection.execute(
        "insert into jetgate_store.head values ($1, 1, $2, $3, $4, $5, 0)",
        n, head.first_seq, head.last_seq, head.last_ts, head.msgs,
    )  # fmt: skip
    for i, (filters, up_to) in enumerate(store.purges):
        await connection.execute(
            "insert into jetgate_store.purge values ($1, $2, $3, $4)",
            n, i, [text_of(pattern) for pattern in filters], up_to,
        )  # fmt: skip
    for seq, record in store.replaced_rows.items():
        await connection.execute(
            "insert into jetgate_store.replaced values ($1, $2, $3)", n, record, [seq]
        )
    texts, long = columns_of([row.subject for row in store.rows.values()])
    rows = zip(store.rows.items(), texts, long or repeat(None), strict=False)
    await connection.executemany(
        "insert into jetgate_store.message"
        " (seq, ts, stream, shelf, crc, subject, hdr, data, long_subject)"
        " values ($1, $2, $3, $3 % 2, 0, $4, $5, $6, $7)",
        [(s, r.ts, n, text, r.headers, r.payload, whole) for (s, r), text, whole in rows],
    )


def test_views_and_functions_show_the_messages_of_the_rule(database: str) -> None:
    async def scenario() -> None:
        connection = await asyncpg.connect(database)
        rng = random.Random(10)
        now = await connection.fetchval("select (extract(epoch from now()) * 1e9)::bigint")
        for n in range(1, 81):
            config, store = _random_stream(rng, now)
            await _insert(connection, n, config, store)
            async with connection.transaction():
                at = await connection.fetchval("select (extract(epoch from now()) * 1e9)::bigint")
                there = store.shown(config, at)
                await _compare(connection, n, store, there)
        await connection.close()

    asyncio.run(scenario())


async def _compare(connection: Any, n: int, store: MemoryStore, there: list[int]) -> None:
    async def ask(statement: str, *arguments: object) -> list[Any]:
        return [row[0] for row in await connection.fetch(statement, *arguments)]

    name = f"S{n}"
    assert await ask("select seq from jetgate.log where id = $1", n) == there
    by_name = "select seq from jetgate.messages where stream = $1 order by seq"
    assert await ask(by_name, name) == there
    assert await ask("select seq from jetgate.latest($1, 5)", name) == there[::-1][:5]
    first = await ask("select first_seq from jetgate.heads where id = $1", n)
    assert first == [there[0] if there else store.head.last_seq + 1]
    middle = store.head.last_seq // 2
    for pattern, up_to in ((">", None), ("s.*", middle), ("s.1", None)):
        last: dict[bytes, int] = {}
        for seq in there:
            subject = store.rows[seq].subject
            if seq <= (up_to or seq) and (pattern != "s.1" or subject == b"s.1"):
                last[subject] = seq
        lasts = "select seq from jetgate.last_by_subject($1, $2, $3)"
        assert await ask(lasts, name, pattern, up_to) == sorted(last.values())


# -- against what NATS clients see ---------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "log": {},
    "last": {"max_msgs_per_subject": 1},
    "history": {"max_msgs_per_subject": 3},
    "expiring": {"allow_msg_ttl": True, "max_msgs_per_subject": 2},
    "bounded": {"max_msgs": 20, "max_msgs_per_subject": 5},
    "work queue": {"retention": Retention.WORKQUEUE},
    "interest": {"retention": Retention.INTEREST, "max_msgs_per_subject": 4},
}


_OF_DIRECT_GET = {
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    "Nats-Last-Sequence",
}


class History:
    """Changes of a stream by chance, and the comparison of both ways to read it."""

    def __init__(
        self, node: Node, nc: NATS, js: JetStreamContext, stored: PostgresMessages, seed: int
    ) -> None:
        self.stored = stored
        self.runner: StreamRunner = node.registry.streams["S"]
        self.nc = nc
        self.js = js
        self.rng = random.Random(seed)
        self.config = self.runner.config

    async def step(self) -> None:
        """Change something."""
        actions: list[Callable[[], Awaitable[object]]] = [self.publish] * 5
        actions += [self.burst, self.burst, self.delete, self.purge, self.roll_up, self.consume]
        with contextlib.suppress(nats.js.errors.Error):  # there may be nothing to delete
            await self.rng.choice(actions)()

    def _subject(self) -> str:
        return self.rng.choice(["s.0", "s.1", "s.2", "s.3", LONG, f"{LONG}.a"])

    async def publish(self) -> None:
        headers = {"Nats-TTL": self.rng.choice(["1h", "7200", "never"])}
        expires = self.config.allow_msg_ttl and self.rng.random() < 0.5
        await self.js.publish(self._subject(), b"one", headers=headers if expires else None)

    async def burst(self) -> None:
        await asyncio.gather(*(self.js.publish(self._subject(), b"") for _ in range(30)))

    async def delete(self) -> None:
        await self.js.delete_msg("S", self.rng.randint(1, self.runner.machine.last_seq or 1))

    async def purge(self) -> None:
        await self.js.purge_stream("S", subject=self.rng.choice(["s.*", "s.*.a", "s.1", LONG]),
                                   keep=self.rng.choice([None, 2, 5]))  # fmt: skip

    async def roll_up(self) -> None:
        kind = self.rng.choice(["sub", "sub", "all"])
        await self.js.publish(self._subject(), b"rolled", headers={"Nats-Rollup": kind})

    async def consume(self) -> None:
        if not self.runner.consumers:
            return
        subscription = await self.js.pull_subscribe_bind("C", "S")
        for message in await subscription.fetch(5, timeout=5):
            await message.ack_sync(timeout=30)
        await subscription.unsubscribe()

    async def compare(self, connection: Any) -> None:
        """All ways to read show the same messages and the same head."""
        info = (await self.js.stream_info("S")).state
        head = await connection.fetchrow(
            "select first_seq, last_seq, messages, bytes from jetgate.heads"
        )
        assert tuple(head) == (info.first_seq, info.last_seq, info.messages, info.bytes)
        rows = await connection.fetch("select seq, subject, data, headers from jetgate.log")
        seen = await self._all_by_direct_get()
        assert [(r[0], r[1], r[2], r[3] is not None) for r in rows] == seen
        if self.config.retention is Retention.LIMITS:
            expected = {row[0]: tuple(row) for row in rows}
            assert await self._all_from_storage() == expected

    async def _all_from_storage(self) -> dict[int, tuple[object, ...]]:
        """What a node would say that does not lead, sequence by sequence."""
        wanted = [("S", seq) for seq in range(self.runner.machine.last_seq + 2)]
        answers = [each async for some in self.stored.read("$G", wanted) for each in some]
        assert sorted(place for place, _ in answers) == [seq for _, seq in wanted]
        return {
            row[0]: (row[0], row[2].decode(), row[4], row[3] or None)
            for _, row in answers
            if row is not None
        }

    async def _all_by_direct_get(self) -> list[tuple[int, str, bytes, bool]]:
        inbox = self.nc.new_inbox()
        subscription = await self.nc.subscribe(inbox)
        await self.nc.publish("$JS.API.DIRECT.GET.S", b'{"seq": 1, "batch": 1000}', inbox)
        seen = []
        while True:
            message = await subscription.next_msg(timeout=30)
            headers = message.headers or {}
            if "Status" in headers:
                break
            own = {name for name in headers if name not in _OF_DIRECT_GET}
            seq = int(headers["Nats-Sequence"])
            seen.append((seq, headers["Nats-Subject"], message.data, bool(own)))
        await subscription.unsubscribe()
        return seen


@pytest.mark.parametrize("sweeps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sql_shows_what_clients_see_after_every_change(
    database: str, kind: str, sweeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the janitor stopped nothing that is gone leaves storage."""
    monkeypatch.setattr("core.jetstream.stream.commands._AT_ONCE", 4)
    monkeypatch.setattr("core.jetstream.janitor._SCATTERED_ROWS", 7)

    async def scenario() -> int:
        async with running_node(database) as node:
            allowed = {"allow_rollup_hdrs": True, "subjects": ("s.>",), "allow_direct": True}
            await add_stream(node, StreamConfig(name="S", **{**allowed, **KINDS[kind]}))
            nc = await nats.connect(node.nats_address)
            js = nc.jetstream(timeout=30)
            if "retention" in KINDS[kind]:
                await js.pull_subscribe("s.>", "C", stream="S")
            if not sweeps:
                monkeypatch.setattr(node.janitor, "_sweep_at_leisure", _stopped)
            connection = await asyncpg.connect(database)
            stored = PostgresMessages(Connector(database), None, SystemClock())
            history = History(node, nc, js, stored, seed=len(kind))
            for _ in range(40):
                await history.step()
                await history.compare(connection)
            left = await connection.fetchval("select count(*) from jetgate_store.message")
            stored.close()
            await connection.close()
            await nc.close()
            return int(left) - history.runner.machine.msgs

    waiting = asyncio.run(scenario())

    assert sweeps or waiting > 0 or kind in ("work queue",)


async def _stopped(_log: object) -> None:
    """Sweep nothing at leisure; what a change of the log waits for is deleted."""


@pytest.mark.parametrize("limit", [3, 1])
def test_sql_shows_the_same_over_a_restart_and_records_go_with_their_rows(
    database: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a smaller limit was saved, but not enforced, when the node went down."""
    config = StreamConfig(name="S", subjects=("s.*",), max_msgs_per_subject=3, allow_direct=True)
    log = "select seq from jetgate.log order by seq"
    waiting = "select coalesce(sum(cardinality(seqs)), 0)::int from jetgate_store.replaced"
    save = (
        "update jetgate_store.stream set config = replace(config, '_subject\":3', '_subject\":{}')"
    )
    left = list(range(21 - 2 * limit, 21))
    monkeypatch.setattr("core.jetstream.janitor.Janitor._sweep_at_leisure", _nothing)

    async def scenario() -> None:
        connection = await asyncpg.connect(database)

        async def seqs() -> list[int]:
            return [row[0] for row in await connection.fetch(log)]

        async with running_node(database) as node:
            await add_stream(node, config)
            nc = await nats.connect(node.nats_address)
            for i in range(20):
                await nc.jetstream(timeout=30).publish(f"s.{i % 2}", b"")
            await nc.close()
        assert await seqs() == list(range(15, 21))
        assert await connection.fetchval(waiting) == 14
        await connection.execute(save.format(limit))
        async with running_node(database) as node:
            stream = node.registry.streams["S"]
            assert await seqs() == left
            assert stream.machine.msgs == len(left)
            assert len(stream.log.removed.rows) == await connection.fetchval(waiting)
            await node.janitor.finish(stream.log)
        assert await seqs() == left
        assert await connection.fetchval(waiting) == 0
        assert await connection.fetchval("select count(*) from jetgate_store.message") == len(left)
        await connection.close()

    asyncio.run(scenario())


async def _nothing(_janitor: object, _log: object) -> None:
    """Sweep nothing at leisure."""
