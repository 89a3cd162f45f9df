"""LeaseSession over a real PostgreSQL: one leader at a time, and nobody who was deposed writes."""

# Subject: leadership

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from core.errors import Unavailable
from core.node.lease_session import LeaseSession, PeerFollower
from core.node.lease_times import LeaseTimes
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import Command
from core.node.trust_window import TrustWindow
from core.runtime.clock import SystemClock
from core.runtime.subscribers import Subscribers
from core.storage.leases import NodeRow, PeerRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.locks import ALL_LEASE_GROUPS, LEASE_GROUPS
from core.units import LeaseGroup, Nanos
from tests.support.eventually import observed
from tests.support.lease_groups import by_group, lease_groups
from tests.support.leases import lead_again, lease_times
from tests.support.ownership import epochs_of, give, lost

MS = 1_000_000
# A machine that stands still for a while must depose nobody.
STEADY = lease_times(
    ttl=61_000 * MS, margin=1000 * MS, beat=50 * MS, poll=20 * MS, stale=60_000 * MS,
    answer=30_000 * MS,
)  # fmt: skip
# Heartbeats come too late for any test.
SELDOM = replace(STEADY, beat=Nanos(29_000 * MS))
# Who is silent is deposed soon.
HASTY = lease_times(
    ttl=1500 * MS, margin=100 * MS, beat=50 * MS, poll=20 * MS, stale=1400 * MS, answer=1000 * MS
)
ALL = frozenset(ALL_LEASE_GROUPS)
EPOCH = "select epoch from jetgate_store.head where stream = 0"
LOCKS = """
    select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 27239
       and database = (select oid from pg_database where datname = current_database())
"""


class Noted:
    """A follower that notes what it is told."""

    def __init__(self) -> None:
        self.rows: Sequence[PeerRow] = ()
        self.joined: Subscribers[[]] = Subscribers()

    def on_joined(self, call: Callable[[], None]) -> Callable[[], None]:
        return self.joined.subscribe(call)

    def links(self) -> tuple[str, ...]:
        return ()

    def met(self, rows: Sequence[PeerRow]) -> None:
        self.rows = rows


class MovedClock(SystemClock):
    """A clock that a test moves ahead; nanoseconds."""

    def __init__(self) -> None:
        self.ahead = 0

    def monotonic(self) -> Nanos:
        return Nanos(super().monotonic() + self.ahead)


class Cluster:
    """Nodes over one database, and a look into it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._nodes: list[LeaseSession] = []
        self.stores: dict[str, PostgresLeases] = {}

    def node(
        self,
        name: str,
        times: LeaseTimes = STEADY,
        follower: PeerFollower | None = None,
        clock: SystemClock | None = None,
    ) -> LeaseSession:
        store = self.stores[name] = PostgresLeases(Connector(self._dsn))
        leases = LeaseSession(
            store,
            clock or SystemClock(),
            NodeRow(name, route_port=1),
            Dispatch(),
            times=times,
            follower=follower,
        )
        self._nodes.append(leases)
        return leases

    async def leader(
        self, name: str, times: LeaseTimes = STEADY, groups: Collection[LeaseGroup] = ALL
    ) -> LeaseSession:
        """Return a node that has taken some groups."""
        node = self.node(name, times)
        await node.open()
        assert await node.acquire(groups) == frozenset(groups)
        return node

    async def end_session(self, name: str) -> None:
        """End the session of a node; return when PostgreSQL has let go of its locks."""
        pid = self.stores[name].pid
        await self.value(f"select pg_terminate_backend({pid}, 30000)")

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
    async def connected() -> AsyncIterator[Cluster]:
        cluster = Cluster(dsn)
        try:
            yield cluster
        finally:
            await cluster.close()

    async def go() -> None:
        async with asyncio.timeout(60), connected() as cluster:
            await run(cluster)

    asyncio.run(go())


async def gets(node: LeaseSession, groups: Collection[LeaseGroup] = ALL) -> None:
    """Take groups as soon as they are free."""
    left = set(groups)

    async def all_are_taken() -> bool:
        with contextlib.suppress(Unavailable):
            left.difference_update(await node.acquire(left))
        return not left

    await observed(all_are_taken)


# -- taking and giving ---------------------------------------------------------------------------


def test_the_first_node_leads_with_every_lock_and_a_new_epoch(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = cluster.node("a")

        await first.open()
        assert first.groups == frozenset()
        assert await cluster.value(EPOCH) == 0
        assert await first.acquire(ALL) == ALL

        assert first.trusted()
        assert first.groups == ALL
        assert await cluster.value(EPOCH) == 1
        assert await cluster.value(LOCKS) == LEASE_GROUPS
        assert await cluster.value("select node from jetgate_store.node") == "a"

    scenario(run, database)


def test_a_node_without_a_session_acquires_nothing(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        with pytest.raises(Unavailable):
            await cluster.node("a").acquire(ALL)
        with pytest.raises(Unavailable):
            await cluster.node("a").survey(ALL)

    scenario(run, database)


def test_a_node_acquires_free_groups_and_knows_the_owners_of_the_rest(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        await cluster.leader("a", groups=lease_groups(1, 2))
        second = cluster.node("b")
        await second.open()

        assert await second.acquire(lease_groups(0, 1, 2, 3)) == {0, 3}

        assert second.groups == {0, 3}
        holders = await second.survey(lease_groups(1, 3, 5))
        assert {group: holder.node for group, holder in holders.items()} == {1: "a", 3: "b"}
        assert await second.acquire(lease_groups(1, 2)) == frozenset()
        assert cluster.stores["a"].is_open

    scenario(run, database)


def test_a_transferred_group_can_be_acquired_by_another_node(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = await cluster.leader("a", groups=lease_groups(0, 1, 2))
        second = cluster.node("b")
        await second.open()
        gone: list[frozenset[LeaseGroup]] = []
        lost(first, gone.append)

        await give(first, lease_groups(1, 2))

        assert first.groups == {0}
        assert await second.acquire(lease_groups(0, 1, 2)) == {1, 2}
        assert gone == []  # it knew
        await first.renew()
        assert first.groups == {0}
        assert gone == []

    scenario(run, database)


def test_a_claim_is_higher_than_any_before(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = cluster.node("a"), cluster.node("b")
        await first.open()
        await second.open()
        claims = []
        for node in (first, second, first):
            await node.acquire(lease_groups(1))
            claims.append(epochs_of(node)[LeaseGroup(1)])
            await give(node, lease_groups(1))
        await second.acquire(lease_groups(1, 2))
        claims.append(epochs_of(second)[LeaseGroup(1)])
        assert epochs_of(second)[LeaseGroup(2)] == epochs_of(second)[LeaseGroup(1)]
        await second.renew()
        claims.append(epochs_of(second)[LeaseGroup(1)])

        assert claims == sorted(set(claims))

    scenario(run, database)


def test_a_group_that_another_node_leads_is_abandoned_at_once(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = await cluster.leader("a", groups=lease_groups(1, 2, 3))
        gone: list[frozenset[LeaseGroup]] = []
        lost(first, gone.append)

        first._ownership.peer_announced(
            "peer", by_group({2: epochs_of(first)[LeaseGroup(2)] + 1, 9: 1})
        )
        first._ownership.peer_announced("late", by_group({1: epochs_of(first)[LeaseGroup(1)] - 1}))

        assert first.groups == {1, 3}
        assert gone == [{2}]

    scenario(run, database)


def test_every_node_sees_all_others_where_the_database_sees_them(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        noted = Noted(), Noted()
        nodes = [cluster.node(name, follower=each) for name, each in zip("ab", noted, strict=True)]
        nodes[1].row.route_host, nodes[1].row.route_port = "10.0.0.1", 2
        for node, server_id in zip(nodes, ("A", "B"), strict=True):
            node.row.server_id = server_id
        for node in nodes:
            await node.open()

        def places(each: Noted) -> list[tuple[str, str, int]]:
            return sorted((row.server_id, row.host, row.port) for row in each.rows)

        # Tests reach PostgreSQL over a Unix socket: whoever does is on its machine.
        there = [("A", "127.0.0.1", 1), ("B", "10.0.0.1", 2)]
        await observed(lambda: [places(each) for each in noted] == [there, there])
        assert all(row.silence < row.age + MS for row in noted[0].rows)
        await nodes[0].release()
        await observed(lambda: places(noted[1]) == there[1:])

    scenario(run, database)


def test_a_node_that_joined_is_met_before_the_next_heartbeat(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        noted = Noted()
        for name, follower in (("a", noted), ("b", None)):
            node = cluster.node(name, SELDOM, follower)
            node.row.server_id = name.upper()
            await node.open()
        assert [row.node for row in noted.rows] == ["a"]
        noted.joined()
        await observed(lambda: {row.node for row in noted.rows} == {"a", "b"}, within=10)

    scenario(run, database)


def test_the_row_of_a_node_has_its_tags_and_groups(database: str) -> None:
    load = "select (lease_groups, streams)::text from jetgate_store.node"

    async def run(cluster: Cluster) -> None:
        noted = Noted()
        node = cluster.node("a", follower=noted)
        node.row.server_id, node.row.tags = "A", ("ssd", "eu")
        node.beating.subscribe(lambda row: setattr(row, "streams", 3))
        await node.open()
        assert [list(row.tags) for row in noted.rows] == [["ssd", "eu"]]
        assert await cluster.value(load) == "(0,3)"
        await node.acquire(lease_groups(*range(5)))
        node.row.tags = ("eu",)

        async def is_told() -> bool:
            return bool(await cluster.value(load) == "(5,3)")

        await observed(is_told)
        await observed(lambda: [list(row.tags) for row in noted.rows] == [["eu"]])

    scenario(run, database)


def test_another_node_leads_as_soon_as_the_leader_lets_go(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = await cluster.leader("a"), cluster.node("b")
        await second.open()

        assert await second.acquire(ALL) == frozenset()
        await first.release()
        assert await second.acquire(ALL) == ALL

        assert not first.trusted()
        assert first.groups == frozenset()
        assert second.trusted()
        assert await cluster.value(EPOCH) == 2

    scenario(run, database)


# -- outages -------------------------------------------------------------------------------------


def test_after_an_outage_the_former_leader_comes_first(database: str) -> None:
    """It alone knows what a database that went back has lost."""
    clock = MovedClock()

    async def run(cluster: Cluster) -> None:
        first = await cluster.leader("a")
        second = cluster.node("b", clock=clock)
        await second.open()
        assert second.may_acquire()
        pids = {name: cluster.stores[name].pid for name in "ab"}
        for name in "ba":
            await cluster.end_session(name)
        await observed(lambda: all(cluster.stores[name].pid != pids[name] for name in "ab"))
        await observed(lambda: cluster.stores["b"].is_open and first.trusted())

        assert not second.may_acquire()
        assert first.groups == ALL
        clock.ahead += STEADY.precedence
        assert second.may_acquire()
        assert await second.acquire(ALL) == frozenset()

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

        await cluster.leader("a")

        heads = "select array_agg(epoch order by stream) from jetgate_store.head"
        assert await cluster.value(heads) == [1, 41]
        assert await cluster.value("select epoch from jetgate_store.consumer") == 41

    scenario(run, database)


def test_the_session_of_a_stalled_leader_is_ended(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = await cluster.leader("a"), cluster.node("b", HASTY)
        gone: list[frozenset[LeaseGroup]] = []
        lost(first, gone.append)
        await second.open()
        assert first._heartbeats is not None
        first._heartbeats.cancel()  # as if the process were stopped; its session lives

        async def are_free() -> bool:
            with contextlib.suppress(Unavailable):  # a machine that stands still for a second
                return not await second.survey(ALL)
            return False

        await observed(are_free)
        await gets(second)

        await observed(lambda: not cluster.stores["a"].is_open)
        assert not first.trusted()
        await lead_again(first)
        assert gone == [ALL]
        assert first.groups == frozenset()

    scenario(run, database)


def test_a_leader_whose_session_ended_leads_on_if_no_other_node_led(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = await cluster.leader("a")
        again, gone = asyncio.Event(), list[frozenset[LeaseGroup]]()
        first._ownership.subscribe({Command.VERIFY: lambda _step: again.set()})
        lost(first, gone.append)
        claims, session = dict(epochs_of(first)), first.session

        await cluster.end_session("a")
        await again.wait()

        assert first.trusted()
        assert first.session != session
        assert epochs_of(first) == claims
        assert gone == []
        assert await cluster.value(LOCKS) == LEASE_GROUPS
        assert await cluster.value(EPOCH) == 1

    scenario(run, database)


def test_a_leader_notices_that_another_node_led_meanwhile(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = await cluster.leader("a"), cluster.node("b")
        await second.open()
        noticed: asyncio.Future[frozenset[LeaseGroup]] = asyncio.get_running_loop().create_future()
        lost(first, noticed.set_result)
        store = cluster.stores["a"]
        open_again = store.open

        async def open_behind_the_other() -> None:
            await gets(second, lease_groups(0, 5))
            await open_again()

        monkeypatch.setattr(store, "open", open_behind_the_other)
        await cluster.end_session("a")

        assert await noticed == {0, 5}
        await observed(first.trusted)
        assert first.groups == ALL - {0, 5}
        assert second.groups == {0, 5}

    scenario(run, database)


def test_a_group_that_another_node_has_led_since_is_abandoned_though_its_lock_is_free(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(cluster: Cluster) -> None:
        first, second = await cluster.leader("a"), cluster.node("b")
        await second.open()
        noticed: asyncio.Future[frozenset[LeaseGroup]] = asyncio.get_running_loop().create_future()
        lost(first, noticed.set_result)
        store = cluster.stores["a"]
        open_again = store.open

        async def open_behind_the_other() -> None:
            await gets(second, lease_groups(5))
            await give(second, lease_groups(5))
            await open_again()

        monkeypatch.setattr(store, "open", open_behind_the_other)
        await cluster.end_session("a")

        assert await noticed == {5}
        assert first.groups == ALL - {5}
        assert await second.acquire(lease_groups(5)) == {5}  # its lock was not kept

    scenario(run, database)


def test_leading_again_bumps_the_epochs_once_more(database: str) -> None:
    async def run(cluster: Cluster) -> None:
        first = await cluster.leader("a")

        await first.renew()

        assert await cluster.value(EPOCH) == 2
        assert first.groups == ALL
        assert first.trusted()

    scenario(run, database)


@pytest.mark.parametrize("is_first", [True, False], ids=["taking", "leading again"])
def test_a_bump_that_was_cut_off_does_not_depose_its_own_node(
    database: str, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    async def run(cluster: Cluster) -> None:
        first = cluster.node("a")
        await first.open()
        gone: list[frozenset[LeaseGroup]] = []
        lost(first, gone.append)
        if not is_first:
            await first.acquire(ALL)
        store = cluster.stores["a"]
        bump = store.bump

        async def bump_and_lose_the_answer(*arguments: Any) -> Any:
            await bump(*arguments)
            raise Unavailable("the answer got lost")

        with monkeypatch.context() as patch:
            patch.setattr(store, "bump", bump_and_lose_the_answer)
            with pytest.raises(Unavailable):
                await (first.acquire(ALL) if is_first else first.renew())
        assert first.groups == (frozenset() if is_first else ALL)
        assert not first.trusted()

        await (gets(first) if is_first else lead_again(first))

        assert await cluster.value(EPOCH) == (2 if is_first else 3)
        assert first.groups == ALL
        assert gone == []

    scenario(run, database)


# -- what the last leader has left ---------------------------------------------------------------


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
        leading = asyncio.ensure_future(cluster.leader("a"))
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
def test_a_new_leader_ends_abandoned_transactions(database: str, how: str) -> None:
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
        try:
            await cluster.leader("a")
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

    assert not window.trusted(Nanos(0))
    window.confirm(Nanos(10 * second))
    assert window.trusted(Nanos(14 * second - 1))
    assert not window.trusted(Nanos(14 * second))
    window.confirm(Nanos(9 * second))  # an answer that comes late moves nothing back
    assert window.trusted(Nanos(14 * second - 1))
    window.withdraw()
    assert not window.trusted(Nanos(10 * second))
