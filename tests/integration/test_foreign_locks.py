"""Other roles hold up no lease group, no start and no migration, whatever they lock.

The server's role is no superuser. `analyst` was made as a reader, `app` may connect and no more.
"""

# Subject: leadership

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

import migrations
from core.errors import OperatorError
from core.node.lease_session import LeaseSession
from core.node.ownership.dispatch import Dispatch
from core.runtime.clock import SystemClock
from core.storage.leases import NodeRow
from core.storage.postgres import preflight as checks
from core.storage.postgres import unblocking
from core.storage.postgres.connect import Connector
from core.storage.postgres.doctor import examine
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.locks import ALL_LEASE_GROUPS, LEASE_GROUPS, LOCK_CLASS
from core.storage.postgres.migrate import migrate
from core.storage.postgres.preflight import preflight
from core.storage.postgres.readers import PostgresReaders, ReadLimits
from core.storage.postgres.status import read_status
from core.units import LeaseGroup
from jetgate.status import _members, _text
from tests.integration.test_migrations import at_revision
from tests.support.eventually import observed
from tests.support.lease_groups import lease_groups
from tests.support.leases import lease_times
from tests.support.pg import PostgresServer

_SECOND = 1_000_000_000
# No heartbeat runs by itself, and no session counts as stalled.
_STILL = lease_times(
    ttl=3_700 * _SECOND, margin=_SECOND, beat=3_600 * _SECOND, stale=3_699 * _SECOND,
    answer=60 * _SECOND,
)  # fmt: skip
ALL = frozenset(ALL_LEASE_GROUPS)
KEYS = f"""
    select objid::bigint as key from pg_locks
     where locktype = 'advisory' and granted and classid = {LOCK_CLASS} and objsubid = 2
       and database = (select oid from pg_database where datname = current_database())
       and pid <> pg_backend_pid()
"""
ROLES = ("analyst", "app")


class Place:
    """A database of role `jet`, its nodes, and sessions of anybody."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._nodes: list[LeaseSession] = []
        self._sessions: list[Any] = []

    def dsn_of(self, role: str) -> str:
        return self.dsn.replace("jet@", f"{role}@")

    async def session(self, role: str) -> Any:
        session = await asyncpg.connect(self.dsn_of(role))
        self._sessions.append(session)
        return session

    async def node(self, name: str) -> tuple[LeaseSession, PostgresLeases]:
        store = PostgresLeases(Connector(self.dsn))
        leases = LeaseSession(store, SystemClock(), NodeRow(name), Dispatch(), times=_STILL)
        self._nodes.append(leases)
        await leases.open()
        return leases, store

    async def end(self, store: PostgresLeases) -> None:
        """Let the session of a node end as `kill -9` ends it; return when its locks are free."""
        admin = await self.session("postgres")
        await admin.execute("select pg_terminate_backend($1, 30000)", store.pid)

    async def close(self) -> None:
        for node in self._nodes:
            await node.release()
        for session in self._sessions:
            session.terminate()


@pytest.fixture(scope="module")
def roles(postgres: PostgresServer) -> Iterator[PostgresServer]:
    postgres.execute("create role jet login createrole; create role app login")
    yield postgres
    postgres.execute("drop role app; drop role jet")


class Databases:
    """Databases of `jet`, dropped at the end, and with them the reader of the last one."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._dsns: list[str] = []

    def make(self, revision: str = "") -> str:
        """Create one, at a revision; by default empty."""
        dsn = at_revision(self._server, revision, owner="jet") if revision else self._empty()
        self._dsns.append(dsn)
        return dsn

    def _empty(self) -> str:
        admin = self._server.fresh_database(migrated=False)
        name = admin.partition("@/")[2].partition("?")[0]
        self._server.execute(f"alter database {name} owner to jet")
        return admin.replace("postgres@", "jet@")

    def close(self) -> None:
        for dsn in self._dsns:
            self._server.drop(dsn.replace("jet@", "postgres@"))
        self._server.execute("drop role if exists analyst")


@pytest.fixture
def databases(roles: PostgresServer) -> Iterator[Databases]:
    found = Databases(roles)
    yield found
    found.close()


@pytest.fixture
def dsn(databases: Databases) -> str:
    """A database that `jet` owns and has migrated; `analyst` is a reader of it."""
    dsn = databases.make()
    asyncio.run(migrate(Connector(dsn)))
    asyncio.run(_reader(dsn))
    return dsn


async def _reader(dsn: str) -> None:
    session = await asyncpg.connect(dsn)
    try:
        await PostgresReaders(session).create("analyst", "", "$G", ["*"], ReadLimits())
    finally:
        await session.close()


def at(dsn: str, run: Callable[[Place], Awaitable[None]]) -> None:
    @contextlib.asynccontextmanager
    async def connected() -> AsyncIterator[Place]:
        place = Place(dsn)
        try:
            yield place
        finally:
            await place.close()

    async def go() -> None:
        async with asyncio.timeout(60), connected() as place:
            await run(place)

    asyncio.run(go())


# -- lease groups --------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_locks_that_others_hold_before_a_node_starts_are_passed_over(
    dsn: str, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(place: Place) -> None:
        session = await place.session(role)
        await session.execute(
            f"select pg_try_advisory_lock({LOCK_CLASS}, g) from generate_series(-2, 255) g"
        )
        node, _ = await place.node("a")

        assert await node.survey(ALL) == {}
        assert await node.acquire(ALL) == ALL

        pid = session.get_server_pid()
        told = f"role '{role}' (pid {pid}) holds 258 and waits for 0 advisory locks of jetgate"
        assert [told in text for text in caplog.messages] == [True]
        await node.survey(ALL)
        assert len(caplog.messages) == 1  # once

    with caplog.at_level(logging.WARNING, "core"):
        at(dsn, run)


def test_a_lock_queued_behind_a_leader_may_be_granted_after_its_request_was_abandoned(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(place: Place) -> None:
        first, store = await place.node("a")
        second, other = await place.node("b")
        await first.acquire(lease_groups(*range(8)))
        looker = await place.session("app")
        keys = [row["key"] for row in await looker.fetch(KEYS)]
        assert len(keys) == 8
        queue = [await place.session(ROLES[key % 2]) for key in keys]
        waiting = [
            asyncio.ensure_future(each.execute(f"select pg_advisory_lock({LOCK_CLASS}, {key})"))
            for each, key in zip(queue, keys, strict=True)
        ]
        count = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        await observed(lambda: _is(looker.fetchval(count), 8))
        foreign = await other.foreign()
        assert {(each.pid, each.held, each.awaited) for each in foreign} == {
            (each.get_server_pid(), 0, 1) for each in queue
        }
        assert sorted(group for each in foreign for group in each.groups) == [*range(8)]

        await place.end(store)
        await asyncio.gather(*waiting)

        assert await second.survey(ALL) == {}
        for each in queue:
            assert f"(pid {each.get_server_pid()}) holds 1 and waits for 0" in caplog.text
        assert await second.acquire(ALL) == ALL
        assert {holder.node for holder in (await second.survey(ALL)).values()} == {"b"}
        await first.renew()
        assert first.groups == frozenset()

    at(dsn, run)


def test_a_role_that_locks_every_key_within_moments_keeps_no_node_from_a_group(dsn: str) -> None:
    """Groups go to and fro between two nodes, and some are lost with their session."""

    async def run(place: Place) -> None:
        hunters = [await place.session(role) for role in ROLES for _ in range(2)]
        got = 0

        async def hunt(session: Any) -> None:
            nonlocal got
            await session.execute("set lock_timeout = '50ms'")
            while True:
                for row in await session.fetch(f"{KEYS} order by random() limit 1"):
                    with contextlib.suppress(asyncpg.LockNotAvailableError):
                        await session.execute(f"select pg_advisory_lock({LOCK_CLASS}, {row[0]})")
                        got += 1

        hunts = [asyncio.ensure_future(hunt(each)) for each in hunters]
        groups = lease_groups(*range(16))
        try:
            for number in range(12):
                node, store = await place.node(f"n{number}")
                assert await node.acquire(groups) == groups
                if number % 2:
                    await place.end(store)
                else:
                    await node.release_groups(groups)
            last, _ = await place.node("last")
            assert await last.acquire(ALL) == ALL
            assert got, "nobody has got a key that a node had"
        finally:
            for each in hunts:
                each.cancel()
            await asyncio.wait(hunts)

    at(dsn, run)


def test_of_nodes_that_take_at_once_each_group_has_one(dsn: str) -> None:
    async def run(place: Place) -> None:
        nodes = [await place.node(name) for name in "abcd"]
        taken: list[frozenset[LeaseGroup]] = [frozenset()] * 4
        for _ in range(6):
            for index, found in enumerate(
                await asyncio.gather(*(store.acquire(ALL) for _, store in nodes))
            ):
                assert found >= taken[index]
                taken[index] = found
            held = await nodes[0][1].holders(ALL)
            assert sum(map(len, taken)) == LEASE_GROUPS == len(frozenset().union(*taken))
            assert all(
                held[group].pid == store.pid
                for (_, store), found in zip(nodes, taken, strict=True)
                for group in found
            )
            for index, (_, store) in enumerate(nodes):
                some = frozenset(group for group in taken[index] if group % 3)
                await store.release(some)
                taken[index] -= some

    at(dsn, run)


def test_a_session_with_the_process_id_and_key_of_a_dead_leader_is_no_node(dsn: str) -> None:
    async def run(place: Place) -> None:
        thief, admin = await place.session("analyst"), await place.session("postgres")
        await thief.execute(f"select pg_advisory_lock({LOCK_CLASS}, 77)")
        await admin.execute(
            "update jetgate_store.lease_holder set lock_key = 77, session_pid = $1,"
            " session_role = 'jet'::regrole where lease_group = 3",
            thief.get_server_pid(),
        )
        node, store = await place.node("a")

        assert await store.holders(ALL) == {}
        assert [(each.role, each.groups) for each in await store.foreign()] == [("analyst", [3])]
        assert await node.acquire(ALL) == ALL

    at(dsn, run)


def test_a_prepared_transaction_holds_nothing_up_and_is_named(dsn: str) -> None:
    async def run(place: Place) -> None:
        first, store = await place.node("a")
        await first.acquire(lease_groups(5))
        app = await place.session("app")
        (row,) = await app.fetch(KEYS)
        await place.end(store)
        await app.execute(
            f"begin; select pg_advisory_xact_lock({LOCK_CLASS}, {row['key']});"
            " prepare transaction 'of app'"
        )
        try:
            second, other = await place.node("b")
            (found,) = await other.foreign()
            assert (found.role, found.pid, found.prepared) == ("app", 0, "of app")
            assert (found.held, found.awaited, found.groups) == (1, 0, [5])
            assert await second.acquire(ALL) == ALL
        finally:
            await app.execute("rollback prepared 'of app'")

    at(dsn, run)


def test_applications_keep_advisory_locks_of_their_own(dsn: str) -> None:
    async def run(place: Place) -> None:
        app, other = await place.session("app"), await place.session("app")
        assert await app.fetchval("select pg_try_advisory_lock(1, 2)")
        assert await app.fetchval("select pg_try_advisory_lock(12)")
        node, store = await place.node("a")
        assert await node.acquire(ALL) == ALL
        assert await store.foreign() == []
        assert not await other.fetchval("select pg_try_advisory_lock(1, 2)")
        assert await app.fetchval("select pg_advisory_unlock(12)")
        assert await other.fetchval("select pg_try_advisory_lock(12)")

    at(dsn, run)


def test_a_lock_of_a_reader_on_the_heads_keeps_no_leader_from_being_ended(
    dsn: str, roles: PostgresServer
) -> None:
    """Who may read a view may lock its tables, in a mode that a statement for writing takes."""

    async def run(place: Place) -> None:
        admin, app = await place.session("postgres"), await place.session("app")
        await admin.execute("grant usage on schema jetgate to app")
        await app.execute("begin; prepare p as select * from jetgate.heads for update")
        writer = await place.session("jet")
        await writer.execute("begin; update jetgate_store.head set last_seq = 9 where stream = 0")
        node, _ = await place.node("a")

        assert await node.acquire(ALL) == ALL

        head = "select last_seq from jetgate_store.head where stream = 0"
        assert await admin.fetchval(head) == 0
        held = (
            "select count(*) from pg_locks where mode = 'RowShareLock' and pid = $1"
            " and relation = 'jetgate_store.head'::regclass"
        )
        assert await admin.fetchval(held, app.get_server_pid()) == 1

    roles.execute("grant pg_monitor to jet")  # it then sees what others wait for
    at(dsn, run)


async def _is(found: Awaitable[Any], expected: object) -> bool:
    return bool(await found == expected)


# -- what is told --------------------------------------------------------------------------------


def test_doctor_and_status_name_role_and_pid(dsn: str) -> None:
    async def run(place: Place) -> None:
        node, _ = await place.node("a")
        await node.acquire(ALL)
        session = await place.session("jet")

        async def leases() -> list[tuple[str, str]]:
            return [
                (each.state, f"{each.found} -> {each.todo}")
                async for each in examine(Connector(dsn))
                if each.what == "leases"
            ]

        assert [state for state, _ in await leases()] == ["ok"]
        status = await read_status(session)
        assert status.foreign_locks == []
        assert [(each.node, each.groups) for each in status.nodes] == [("a", LEASE_GROUPS)]
        thief = await place.session("analyst")
        await thief.execute(f"select pg_advisory_lock({LOCK_CLASS}, 0)")
        pid = thief.get_server_pid()

        ((state, text),) = await leases()
        assert state == "warn"
        assert text.startswith(f"role 'analyst' (pid {pid}) holds 1 and waits for 0 advisory locks")
        assert text.endswith(f"select pg_terminate_backend({pid})")
        status = await read_status(session)
        members = _members(status, status)
        assert members["foreign_locks"] == [
            {"role": "analyst", "pid": pid, "prepared": ""}
            | {"held": 1, "awaited": 0, "groups": []}
        ]
        lines = _text(members, status.nodes).splitlines()
        assert lines[-3].startswith("Sessions with advisory locks of jetgate that are not nodes")
        assert lines[-1].split() == ["analyst", str(pid), "1", "0", "0"]

    at(dsn, run)


def test_doctor_names_the_role_that_fills_the_table_of_locks(dsn: str) -> None:
    async def run(place: Place) -> None:
        app = await place.session("app")
        most, pid = 30_000, app.get_server_pid()  # of 256 for each of 204
        await app.execute(f"select pg_advisory_lock(g) from generate_series(1, {most}) g")
        (found,) = [each async for each in examine(Connector(dsn)) if each.what == "locks"]
        assert found.state == "warn"
        assert found.found.startswith(f"role 'app' (pid {pid}) holds {most} of about 52224")

    at(dsn, run)


# -- the start -----------------------------------------------------------------------------------


class Followed:
    """A session, each of whose advisory locks another role gets as soon as it is released."""

    def __init__(self, session: Any, thief: Any) -> None:
        self._session, self._thief = session, thief

    async def fetchval(self, statement: str, *arguments: object) -> Any:
        found = await self._session.fetchval(statement, *arguments)
        if "select pg_advisory_unlock(" in statement:
            await self._thief.execute(statement.replace("unlock", "lock"))
        return found


def test_a_role_that_takes_the_lock_of_a_trial_makes_no_database_unfit(dsn: str) -> None:
    async def run(place: Place) -> None:
        one, other, thief = [await place.session(role) for role in ("jet", "jet", "app")]
        assert await checks._exclusion(Followed(one, thief), other) == []
        assert await thief.fetchval(f"select count(*) from ({KEYS}) as k") == 0
        assert await one.fetchval(f"select count(*) from ({KEYS}) as k") == 1

    at(dsn, run)


def test_no_lock_keeps_the_check_of_a_start_waiting(dsn: str) -> None:
    async def run(place: Place) -> None:
        thief = await place.session("analyst")
        await thief.execute(
            f"select pg_advisory_lock({LOCK_CLASS}, g) from generate_series(-300, 300) g"
        )
        with contextlib.suppress(OperatorError):  # the database of tests is without fsync
            await preflight(Connector(dsn))

    at(dsn, run)


# -- migrations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["", "0008"])
def test_no_advisory_lock_holds_up_a_migration(databases: Databases, revision: str) -> None:
    dsn = databases.make(revision)

    async def run(place: Place) -> None:
        app = await place.session("app")
        await app.execute(
            f"select pg_advisory_lock({LOCK_CLASS}, g) from generate_series(-300, 300) g"
        )
        done = await asyncio.gather(*(migrate(Connector(dsn)) for _ in range(3)))
        assert sorted(done) == [False, False, True]

    at(dsn, run)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unblocking, "GRACE_S", 0.1)
    monkeypatch.setattr(unblocking, "TIMEOUT_S", 0.5)


@pytest.mark.usefixtures("hasty")
def test_a_migration_ends_the_transaction_of_a_reader(
    databases: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = databases.make("0004")

    async def run(place: Place) -> None:
        await _reader(dsn)
        admin, reader = await place.session("postgres"), await place.session("analyst")
        await admin.execute("grant usage on schema jetgate_store to analyst")
        await admin.execute("grant select on jetgate_store.message to analyst")
        # The limits of a reader are settings that it may change.
        await reader.execute("set idle_in_transaction_session_timeout = 0")
        await reader.execute("begin; select from jetgate_store.message")
        pid = reader.get_server_pid()

        assert await migrate(Connector(dsn))

        assert f"the migration has ended a session of role 'analyst' (pid {pid})" in caplog.text
        assert reader.is_closed() or await _is_gone(reader)

    at(dsn, run)


async def _is_gone(session: Any) -> bool:
    try:
        await session.fetchval("select 1")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        return True
    return False


@pytest.mark.usefixtures("hasty")
def test_a_migration_names_the_session_that_blocks_it_and_may_not_be_ended(
    databases: Databases,
) -> None:
    dsn = databases.make("0004")

    async def run(place: Place) -> None:
        admin, app = await place.session("postgres"), await place.session("app")
        await admin.execute("grant usage on schema jetgate_store to app")
        await admin.execute("grant select on all tables in schema jetgate_store to app")
        await app.execute("begin; lock table jetgate_store.message in access share mode")
        pid = app.get_server_pid()

        with pytest.raises(OperatorError, match=rf"blocked by role 'app' \(pid {pid}\), which"):
            await migrate(Connector(dsn))

        await app.execute("rollback")
        assert await migrate(Connector(dsn))
        assert await admin.fetchval("select version_num from jetgate_store.schema_version") == (
            migrations.HEAD
        )

    at(dsn, run)
