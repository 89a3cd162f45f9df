"""Lease groups over a real PostgreSQL: which one a stream gets, and how some are led and lost."""

# Subject: leadership

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg
import pytest

from core.cluster.directory import StreamDirectory
from core.node.lease_session import LeaseSession
from core.node.ownership.dispatch import Dispatch
from core.runtime.clock import SystemClock
from core.storage.interface import NewStream
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.directory_source import read_news
from core.storage.postgres.directory_store import PostgresDirectoryStore
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.locks import ALL_LEASE_GROUPS
from core.units import LeaseGroup
from tests.support.eventually import observed
from tests.support.lease_groups import lease_groups
from tests.support.leases import lead_again, lease_times
from tests.support.ownership import epochs_of, lost
from tests.support.sql import on

_SECOND = 1_000_000_000
# No heartbeat runs by itself, and no session counts as stalled.
_STILL = lease_times(
    ttl=3_700 * _SECOND, margin=_SECOND, beat=3_600 * _SECOND, stale=3_699 * _SECOND,
    answer=60 * _SECOND,
)  # fmt: skip
_LOAD = (
    "insert into jetgate_store.stream"
    " (stream, account, name, shelf, created, lease_group, config)"
    " select g, '$G', 'S' || g, 0, 0, g, '{}' from generate_series(1, 4) as g",
    "insert into jetgate_store.head select g, 10 * g, 1, 0, 0, 0, 0 from generate_series(1, 4) g",
    "insert into jetgate_store.consumer (stream, consumer, name, created, epoch, config)"
    " select g, 1, 'C', 0, 10 * g, '{}' from generate_series(1, 4) as g",
    "select 1",
)
_EPOCHS = "select array_agg(epoch order by stream) from jetgate_store.head"
_OF_CONSUMERS = "select array_agg(epoch order by stream) from jetgate_store.consumer"
_LED = "select lease_group, token, node from jetgate_store.lease where token > 0 order by 1"


class Place:
    """Sessions that hold locks, and one that looks."""

    def __init__(self, dsn: str, looks: Any) -> None:
        self.dsn, self._looks = dsn, looks
        self.stores: list[PostgresLeases] = []

    async def store(self) -> PostgresLeases:
        store = PostgresLeases(Connector(self.dsn))
        self.stores.append(store)
        await store.open()
        return store

    async def leader(
        self, name: str, groups: frozenset[LeaseGroup]
    ) -> tuple[LeaseSession, PostgresLeases]:
        """Return a node that has taken some groups, and its session."""
        store = PostgresLeases(Connector(self.dsn))
        self.stores.append(store)
        leases = LeaseSession(store, SystemClock(), NodeRow(name), Dispatch(), times=_STILL)
        await leases.open()
        assert await leases.acquire(groups) == groups
        return leases, store

    async def value(self, statement: str) -> Any:
        return await self._looks.fetchval(statement)

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._looks.fetch(statement)]


def at(dsn: str, run: Callable[[Place], Awaitable[None]]) -> None:
    """Run a scenario over streams 1 to 4, each in the group of its number."""

    @contextlib.asynccontextmanager
    async def connected() -> AsyncIterator[Place]:
        looks = await asyncpg.connect(dsn)
        place = Place(dsn, looks)
        try:
            yield place
        finally:
            for store in place.stores:
                store.close()
            await looks.close()

    async def go() -> None:
        async with asyncio.timeout(60), connected() as place:
            await run(place)

    on(dsn, *_LOAD)
    asyncio.run(go())


def test_locks_are_taken_and_given_by_groups(database: str) -> None:
    async def run(place: Place) -> None:
        first, second = await place.store(), await place.store()

        assert await first.acquire(tuple(map(LeaseGroup, (3, 1, 2)))) == {1, 2, 3}
        assert await second.acquire(lease_groups(*range(1, 6))) == {4, 5}
        await first.release(lease_groups(2))
        assert await second.acquire(lease_groups(1, 2)) == {2}

        holders = await first.holders(lease_groups(*range(8)))
        assert {group: holder.pid for group, holder in holders.items()} == (
            dict.fromkeys((1, 3), first.pid) | dict.fromkeys((2, 4, 5), second.pid)
        )

    at(database, run)


def test_a_bump_gives_new_epochs_to_the_streams_of_its_groups_alone(database: str) -> None:
    async def run(place: Place) -> None:
        store = await place.store()

        bumped = await store.bump(lease_groups(1, 3), 77, None, "a")

        assert bumped.groups == {1, 3}
        assert await place.value(_EPOCHS) == [0, 11, 20, 31, 40]
        assert await place.value(_OF_CONSUMERS) == [11, 20, 31, 40]
        assert await place.rows(_LED) == [(1, 77, "a"), (3, 77, "a")]
        bumped = await store.bump(lease_groups(0, 2), 78, None, "b")
        assert bumped.groups == {0, 2}
        assert await place.value(_EPOCHS) == [1, 11, 21, 31, 40]

    at(database, run)


def test_raising_epochs_again_leaves_out_groups_that_another_node_has_led_since(
    database: str,
) -> None:
    async def run(place: Place) -> None:
        first, second = await place.store(), await place.store()
        since = "select since from jetgate_store.lease where lease_group = 1"
        await first.bump(lease_groups(1, 2, 3), 77, None, "a")
        began = await place.value(since)
        await second.bump(lease_groups(2), 78, None, "b")

        bumped = await first.bump(lease_groups(1, 2, 3), 77, 77, "a")

        assert bumped.groups == {1, 3}
        assert await place.value(_EPOCHS) == [0, 12, 22, 32, 40]
        assert await place.rows(_LED) == [(1, 77, "a"), (2, 78, "b"), (3, 77, "a")]
        assert await place.value(since) == began
        assert await first.tokens(lease_groups(1, 2, 4)) == {1: 77, 2: 78, 4: 0}

    at(database, run)


def test_of_two_nodes_that_bump_at_once_the_later_one_sees_the_other(database: str) -> None:
    """The one that led before waits, and finds what it still leads when the other is done."""

    async def run(place: Place) -> None:
        first, second = await place.store(), await place.store()
        await first.bump(lease_groups(1, 2), 77, None, "a")
        writer = await asyncpg.connect(place.dsn)
        try:
            transaction = writer.transaction()
            await transaction.start()
            await writer.execute("update jetgate_store.head set last_seq = 9 where stream = 2")
            taking = asyncio.ensure_future(second.bump(lease_groups(2), 78, None, "b"))
            waiting = "select count(*) from pg_locks where not granted"
            await observed(lambda: place.value(waiting))
            again = asyncio.ensure_future(first.bump(lease_groups(1, 2), 77, 77, "a"))
            await observed(lambda: _is(place.value(f"{waiting} having count(*) > 1")))
            await transaction.commit()
        finally:
            await writer.close()

        assert (await taking).groups == {2}
        assert (await again).groups == {1}
        assert await place.value(_EPOCHS) == [0, 12, 22, 30, 40]
        assert await place.value("select last_seq from jetgate_store.head where stream = 2") == 9

    at(database, run)


def test_a_bump_that_begins_first_and_ends_last_has_the_higher_claim(database: str) -> None:
    """Else peers would believe the node that led before."""

    async def run(place: Place) -> None:
        first, second = await place.store(), await place.store()
        writer = await asyncpg.connect(place.dsn)
        try:
            transaction = writer.transaction()
            await transaction.start()
            await writer.execute("select from jetgate_store.lease where lease_group = 2 for share")
            later = asyncio.ensure_future(first.bump(lease_groups(1, 2, 3), 77, None, "a"))
            waiting = "select count(*) from pg_locks where not granted"
            await observed(lambda: place.value(waiting))
            earlier = asyncio.ensure_future(second.bump(lease_groups(3), 78, None, "b"))
            ended = "select count(*) from jetgate_store.lease where token = 78"
            both = f"{waiting} having count(*) > 1 or ({ended}) > 0"
            await observed(lambda: _is(place.value(both)))
            await transaction.commit()
        finally:
            await writer.close()
        claims = {77: (await later).fencing_token, 78: (await earlier).fencing_token}

        last = await place.value("select token from jetgate_store.lease where lease_group = 3")
        assert claims[last] == max(claims.values())
        assert len(set(claims.values())) == 2

    at(database, run)


async def _takes(store: PostgresLeases, group: LeaseGroup) -> bool:
    return bool(await store.acquire([group]))


async def _is(found: Awaitable[Any]) -> bool:
    return bool(await found)


def test_a_bump_waits_for_a_change_of_the_directory_and_sees_its_stream(database: str) -> None:
    async def run(place: Place) -> None:
        store = await place.store()
        writer = await asyncpg.connect(place.dsn)
        try:
            transaction = writer.transaction()
            await transaction.start()
            await writer.execute("update jetgate_store.head set last_seq = 1 where stream = 0")
            await writer.execute(
                "insert into jetgate_store.stream"
                " (stream, account, name, shelf, created, lease_group, config)"
                " values (9, '$G', 'NEW', 0, 0, 1, '{}')"
            )
            await writer.execute("insert into jetgate_store.head values (9, 5, 1, 0, 0, 0, 0)")
            bumping = asyncio.ensure_future(store.bump(lease_groups(1), 77, None, "a"))
            await observed(lambda: place.value("select count(*) from pg_locks where not granted"))
            await transaction.commit()
        finally:
            await writer.close()
        await bumping

        assert await place.value("select epoch from jetgate_store.head where stream = 9") == 6

    at(database, run)


def test_a_node_takes_free_groups_alone_with_new_epochs_for_their_streams(database: str) -> None:
    async def run(place: Place) -> None:
        first, _ = await place.leader("a", lease_groups(1, 2))
        second, _ = await place.leader("b", frozenset())

        assert await second.acquire(lease_groups(0, 2, 3)) == {0, 3}

        assert first.groups == {1, 2}
        assert second.groups == {0, 3}
        assert await place.value(_EPOCHS) == [1, 11, 21, 31, 40]
        led = [(0, "b"), (1, "a"), (2, "a"), (3, "b")]
        assert [(group, node) for group, _, node in await place.rows(_LED)] == led
        for leases in (first, second):
            await leases.release()

    at(database, run)


def test_a_node_that_lost_some_groups_leads_the_others_on(database: str) -> None:
    async def run(place: Place) -> None:
        first, store = await place.leader("a", lease_groups(0, 1, 2, 3))
        gone: list[frozenset[LeaseGroup]] = []
        lost(first, gone.append)
        claims = dict(epochs_of(first))
        store.close()
        other = await place.store()
        await observed(lambda: _takes(other, LeaseGroup(2)))  # its lock is held by another node
        theirs = await other.bump(lease_groups(2), 78, None, "b")
        await observed(lambda: _takes(other, LeaseGroup(3)))  # and that of 3 is free again
        await other.bump(lease_groups(3), 78, None, "b")
        await other.release(lease_groups(3))

        await lead_again(first)

        assert gone == [{2, 3}]
        assert first.groups == {0, 1}
        assert first.trusted()
        assert theirs.fencing_token > claims[LeaseGroup(2)]
        assert all(epochs_of(first)[group] > claims[group] for group in lease_groups(0, 1))
        assert await place.value(_EPOCHS) == [2, 12, 22, 32, 40]
        assert set(await other.holders(lease_groups(*range(8)))) == {0, 1, 2}
        await first.release()

    at(database, run)


@pytest.mark.parametrize("taken", [{0}, {0, 1, 2}], ids=["the stream directory", "all"])
def test_without_the_directory_or_any_group_a_node_goes_on(
    database: str, taken: set[LeaseGroup]
) -> None:
    """What it has lost it can take again, like any other node."""

    async def run(place: Place) -> None:
        first, store = await place.leader("a", lease_groups(0, 1, 2))
        gone: list[frozenset[LeaseGroup]] = []
        lost(first, gone.append)
        store.close()
        other = await place.store()
        for group in taken:
            await observed(partial(_takes, other, group))
        await other.bump(taken, 78, None, "b")

        await lead_again(first)

        assert gone == [taken]
        assert first.groups == {0, 1, 2} - taken
        assert first.trusted()
        assert await first.acquire(taken) == frozenset()
        await other.release(taken)
        assert await first.acquire(taken) == taken
        assert first.groups == {0, 1, 2}
        await first.release()

    at(database, run)


def test_a_new_stream_gets_the_group_that_has_the_fewest(database: str) -> None:
    """Streams being deleted do not count, those being created do; of several it is the lowest."""
    on(
        database,
        "insert into jetgate_store.stream (account, name, shelf, created, lease_group, config)"
        " select 'A', 'S' || g, 0, 0, g % 256, '{\"name\":\"S\"}' from generate_series(0, 300) as g"
        " where g not in (2, 200)",
        "update jetgate_store.stream set dropped = true where name in ('S7', 'S299')",
        "select 1",
    )

    async def run() -> None:
        pool = await Connector(database).pool(Purpose.WRITE, 3)
        try:
            known = StreamDirectory()
            known.apply(await read_news(pool.fetch, known.version))
            leases = dict.fromkeys(ALL_LEASE_GROUPS, 0)
            directory_store = PostgresDirectoryStore(pool, lambda _why: None, known, lambda: leases)
            new = [NewStream("B", f"N{n}", 0, 0, n + 1, '{"name":"N"}', 1) for n in range(6)]
            await asyncio.gather(*(directory_store.add_stream(each, lambda: None) for each in new))
        finally:
            pool.terminate()

    asyncio.run(run())

    # 200 has none at first; 2, 7, 43 and those from 45 have one, the others two.
    groups = on(
        database,
        "select lease_group from jetgate_store.stream where account = 'B' order by lease_group",
    )
    assert [group for (group,) in groups] == [2, 7, 43, 45, 46, 200]
