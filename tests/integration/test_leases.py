"""Leadership over a real PostgreSQL: one leader at a time, and nobody who was deposed writes."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from core.cluster.leadership import Follower, Leadership
from core.cluster.lease import LeaseTimes, TrustWindow
from core.errors import Fenced, Unavailable
from core.runtime.clock import SystemClock
from core.storage.leases import NodeRow, PeerRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.locks import LEASE_GROUPS
from tests.support.eventually import observed

MS = 1_000_000
# A machine that stands still for a while must depose nobody.
STEADY = LeaseTimes(
    ttl=61_000 * MS, margin=1000 * MS, beat=50 * MS, poll=20 * MS, stale=60_000 * MS,
    answer=30_000 * MS,
)  # fmt: skip
# Who is silent is deposed soon.
HASTY = LeaseTimes(
    ttl=1500 * MS, margin=100 * MS, beat=50 * MS, poll=20 * MS, stale=1400 * MS, answer=1000 * MS
)
LOCKS = """
    select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 27239
       and database = (select oid from pg_database where datname = current_database())
"""


class Noted:
    """A follower that notes what it is told."""

    def __init__(self) -> None:
        self.has_stood_by = False
        self.rows: Sequence[PeerRow] = ()
        self.reached: tuple[str, ...] = ()
        self.hurry = asyncio.Event()

    def stands_by(self) -> None:
        self.has_stood_by = True

    def links(self) -> tuple[str, ...]:
        return self.reached

    def met(self, rows: Sequence[PeerRow]) -> None:
        self.rows = rows

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.hurry.wait()


class Cluster:
    """Nodes over one database, and a look into it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._nodes: list[Leadership] = []
        self.stores: dict[str, PostgresLeases] = {}

    def node(
        self,
        name: str,
        times: LeaseTimes = STEADY,
        follower: Follower | None = None,
    ) -> Leadership:
        store = self.stores[name] = PostgresLeases(Connector(self._dsn))
        leadership = Leadership(
            store,
            SystemClock(),
            NodeRow(name, route_port=1),
            range(LEASE_GROUPS),
            times=times,
            follower=follower,
        )
        self._nodes.append(leadership)
        return leadership

    async def value(self, statement: str) -> Any:
        connection = await asyncpg.connect(self._dsn)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def close(self) -> None:
        for node in self._nodes:
            await node.release()


def scenario(run: Callable[[Cluster], Awaitable[None]], dsn: str) -> None:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Cluster]:
        cluster = Cluster(dsn)
        try:
            yield cluster
        finally:
            await cluster.close()

    async def go() -> None:
        async with asyncio.timeout(60), opened() as cluster:
            await run(cluster)

    asyncio.run(go())


def test_the_first_node_leads_with_every_lock_and_a_new_epoch(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = cluster.node("a")

        await first.acquire()

        assert first.trusted()
        assert first.is_leading
        assert first.epoch == 1
        assert await cluster.value(LOCKS) == LEASE_GROUPS
        assert await cluster.value("select node from jetgate_store.node") == "a"

    scenario(run, database)


def test_who_does_not_lead_at_once_is_told_so(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        noted = Noted(), Noted()
        first, second = (
            cluster.node(name, follower=each) for name, each in zip("ab", noted, strict=True)
        )
        await first.acquire()
        waiting = asyncio.ensure_future(second.acquire())
        await observed(lambda: noted[1].has_stood_by)
        await first.release()
        noted[1].hurry.set()
        await waiting

        assert not noted[0].has_stood_by

    scenario(run, database)


def test_every_node_sees_all_others_where_the_database_sees_them(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        noted = Noted(), Noted()
        nodes = [cluster.node(name, follower=each) for name, each in zip("ab", noted, strict=True)]
        nodes[1].row.route_host, nodes[1].row.route_port = "10.0.0.1", 2
        for node, server_id in zip(nodes, ("A", "B"), strict=True):
            node.row.server_id = server_id
        await nodes[0].acquire()
        waiting = asyncio.ensure_future(nodes[1].acquire())

        def places(each: Noted) -> list[tuple[str, str, int]]:
            return sorted((row.server_id, row.host, row.port) for row in each.rows)

        # Tests reach PostgreSQL over a Unix socket: whoever does is on its machine.
        there = [("A", "127.0.0.1", 1), ("B", "10.0.0.1", 2)]
        await observed(lambda: [places(each) for each in noted] == [there, there])
        assert all(row.silence < row.age + MS for row in noted[0].rows)
        await nodes[0].release()
        await waiting
        await observed(lambda: places(noted[1]) == there[1:])

    scenario(run, database)


def test_a_standby_leads_as_soon_as_the_leader_lets_go(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = cluster.node("a"), cluster.node("b")
        await first.acquire()
        waiting = asyncio.ensure_future(second.acquire())
        await observed(lambda: cluster.stores["b"].is_open)

        assert not second.trusted()
        await first.release()
        await waiting

        assert not first.trusted()
        assert second.trusted()
        assert second.epoch == 2

    scenario(run, database)


def test_after_an_outage_the_node_that_led_leads_again(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It alone knows what a database that went back has lost."""
    slow = dataclasses.replace(STEADY, beat=500 * MS)  # the other would be there first
    modest = dataclasses.replace(STEADY, poll=1 * MS, precedence=3_600_000 * MS)

    async def run(cluster: Cluster) -> None:
        first, second = cluster.node("a", slow), cluster.node("b", modest)
        first.row.nats = "nats://a"
        await first.acquire()
        waiting = asyncio.ensure_future(second.acquire())
        await observed(lambda: "standing by: a" in caplog.text)
        pids = [cluster.stores[name].pid for name in "ab"]
        for pid in reversed(pids):
            await cluster.value(f"select pg_terminate_backend({pid})")
        await observed(lambda: all(cluster.stores[n].pid not in pids for n in "ab"))
        await observed(lambda: cluster.stores["b"].is_open and first.trusted())

        assert not waiting.done()
        assert not first.lost.is_set()
        waiting.cancel()

    with caplog.at_level("INFO", "jetgate.cluster"):
        scenario(run, database)


def test_every_head_and_consumer_gets_the_epoch_of_the_new_leader(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        await cluster.value(
            "insert into jetgate_store.stream"
            " (stream, account, name, shelf, created, lease_group, config)"
            " values (5, '$G', 'S', 0, 0, 7, '{}')"
        )
        await cluster.value("insert into jetgate_store.head values (5, 40, 1, 0, 0, 0, 0)")
        await cluster.value(
            "insert into jetgate_store.consumer (stream, consumer, name, created, epoch, config)"
            " values (5, 1, 'C', 0, 40, '{}')"
        )

        await cluster.node("a").acquire()

        heads = "select array_agg(epoch order by stream) from jetgate_store.head"
        assert await cluster.value(heads) == [1, 41]
        assert await cluster.value("select epoch from jetgate_store.consumer") == 41

    scenario(run, database)


def test_a_stalled_leader_is_deposed(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = cluster.node("a"), cluster.node("b", HASTY)
        await first.acquire()
        assert first._heartbeats is not None
        first._heartbeats.cancel()  # as if the process were stopped; its session lives

        await second.acquire()

        # Its next heartbeat confirms it again where this one took too long.
        await observed(second.trusted)
        # Its locks go before its connection does.
        await observed(lambda: not cluster.stores["a"].is_open)
        assert not first.trusted()
        with pytest.raises(Fenced):
            await first.acquire()
        assert first.lost.is_set()

    scenario(run, database)


def test_a_leader_whose_session_ended_leads_on_if_nobody_else_did(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = cluster.node("a")
        await first.acquire()

        pid = cluster.stores["a"].pid
        await cluster.value(f"select pg_terminate_backend({pid})")
        await observed(lambda: cluster.stores["a"].pid != pid and first.trusted())

        # The first lock decides; the others follow in a moment.
        async def has_all() -> bool:
            return bool(await cluster.value(LOCKS) == LEASE_GROUPS)

        await observed(has_all)

        assert not first.lost.is_set()
        assert first.epoch == 1

    scenario(run, database)


def test_a_leader_notices_that_another_node_led_meanwhile(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = cluster.node("a"), cluster.node("b")
        await first.acquire()
        waiting = asyncio.ensure_future(second.acquire())
        await observed(lambda: cluster.stores["b"].is_open)
        store = cluster.stores["a"]
        open_again = store.open

        async def open_behind_the_other() -> None:
            await asyncio.shield(waiting)
            await open_again()

        monkeypatch.setattr(store, "open", open_behind_the_other)
        await cluster.value(f"select pg_terminate_backend({store.pid})")
        await waiting
        await first.lost.wait()

        assert not first.trusted()
        assert second.trusted()

    scenario(run, database)


def test_leading_again_bumps_the_epochs_once_more(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = cluster.node("a")
        await first.acquire()

        await first.acquire()

        assert first.epoch == 2
        assert first.trusted()

    scenario(run, database)


def test_a_bump_that_was_cut_off_does_not_depose_its_own_node(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(cluster: Cluster) -> None:
        first = cluster.node("a")
        await first.acquire()
        store = cluster.stores["a"]
        bump = store.bump

        async def bump_and_lose_the_answer(*arguments: Any) -> Any:
            await bump(*arguments)
            raise Unavailable("the answer got lost")

        with monkeypatch.context() as patch:
            patch.setattr(store, "bump", bump_and_lose_the_answer)
            with pytest.raises(Unavailable):
                await first.acquire()

        async def leads() -> bool:
            # Refused for as long as PostgreSQL has not noticed the end of the session before.
            with contextlib.suppress(Unavailable):
                await first.acquire()
            return first.epoch > 1

        await observed(leads)

        assert first.epoch == 3
        assert not first.lost.is_set()

    scenario(run, database)


def test_a_new_leader_waits_for_what_the_last_one_has_in_flight(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        writer, busy = await asyncpg.connect(database), await asyncpg.connect(database)
        await busy.execute("select pg_advisory_lock(1, 1)")
        transaction = writer.transaction()
        await transaction.start()
        writing = asyncio.ensure_future(
            writer.execute(
                "update jetgate_store.head set last_seq = 9 where stream = 0 and epoch = 0;"
                "select pg_advisory_lock(1, 1)"
            )
        )
        waiting = "select count(*) > {} from pg_locks where not granted"
        await observed(lambda: cluster.value(waiting.format(0)))
        first = cluster.node("a")
        leading = asyncio.ensure_future(first.acquire())
        await observed(lambda: cluster.value(waiting.format(1)))

        assert not leading.done()
        await busy.close()
        await writing
        await transaction.commit()
        await leading

        assert await cluster.value("select last_seq from jetgate_store.head where stream = 0") == 9
        stale = await writer.execute(
            "update jetgate_store.head set last_seq = 10 where stream = 0 and epoch = 0"
        )
        assert stale == "UPDATE 0"
        await writer.close()

    scenario(run, database)


@pytest.mark.parametrize("how", ["between statements", "in a COPY"])
def test_a_new_leader_ends_what_nobody_goes_on_with(database: str, how: str) -> None:
    """The last leader may stand still for ever, and its machine keeps its sessions alive."""

    async def run(cluster: Cluster) -> None:
        await cluster.value("create table filler (text text)")
        writer = await asyncpg.connect(database)
        await writer.execute("begin; update jetgate_store.head set last_seq = 9 where stream = 0")
        silent = asyncio.Event()

        async def rows() -> AsyncIterator[tuple[str]]:
            yield ("first",)
            await silent.wait()

        work: asyncio.Future[Any] = asyncio.Future()
        if how == "in a COPY":
            copy = writer.copy_records_to_table("filler", records=rows())
            work = asyncio.ensure_future(copy)
        first = cluster.node("a")
        try:
            await first.acquire()
            head = "select last_seq from jetgate_store.head where stream = 0"
            assert await cluster.value(head) == 0
        finally:
            work.cancel()
            await asyncio.wait([work])
            writer.terminate()

    scenario(run, database)


def test_trust_is_anchored_where_the_check_began() -> None:
    window = TrustWindow(LeaseTimes())
    second = 1_000_000_000

    assert not window.trusted(0)
    window.confirm(10 * second)
    assert window.trusted(14 * second - 1)
    assert not window.trusted(14 * second)
    window.confirm(9 * second)  # an answer that comes late moves nothing back
    assert window.trusted(14 * second - 1)
    window.withdraw()
    assert not window.trusted(10 * second)
