"""Roles that `jetgate reader` makes: what they see, and what they may not."""

# Subject: SQL

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from core.errors import OperatorError
from core.storage.postgres.connect import Connector
from core.storage.postgres.migrate import migrate
from core.storage.postgres.readers import PostgresReaders, ReadLimits, scram_verifier
from tests.support.pg import PostgresServer

_TWO_STREAMS = """
insert into jetgate_store.stream (stream, account, name, shelf, created, lease_group, config)
values
  (1, '$G', 'OPEN', 0, 0, 0, '{}'),
  (2, '$G', 'SECRET', 0, 0, 0, '{}'),
  (3, 'B', 'OPEN', 0, 0, 0, '{}');
insert into jetgate_store.head select s, 1, 1, 3, 3, 3, 0 from generate_series(1, 3) as s;
insert into jetgate_store.message (seq, ts, stream, shelf, crc, subject, hdr, data)
  select g, g, s, 0, 0, 'of.' || s, null, convert_to(s || ' ' || g, 'UTF8')
    from generate_series(1, 3) as s, generate_series(1, 3) as g;
insert into jetgate_store.consumer (stream, consumer, name, created, epoch, config)
  select s, 1, 'C' || s, 0, 1, '{}' from generate_series(1, 3) as s;
"""
_ROLE = "reader_of_open"
_REFUSED = (asyncpg.InsufficientPrivilegeError, asyncpg.ObjectNotInPrerequisiteStateError)


@pytest.fixture
def streams(postgres: PostgresServer) -> Iterator[str]:
    dsn = postgres.fresh_database()

    async def change(statement: str) -> None:
        connection = await asyncpg.connect(dsn)
        if statement:
            await connection.execute(statement)
        else:
            await PostgresReaders(connection).drop(_ROLE)
        await connection.close()

    asyncio.run(change(_TWO_STREAMS))
    yield dsn
    asyncio.run(change(""))
    postgres.drop(dsn)


async def _create(dsn: str, *streams: str, password: str = "", account: str = "$G") -> Any:
    admin = await asyncpg.connect(dsn)
    store = PostgresReaders(admin)
    await store.create(_ROLE, password, account, streams, ReadLimits(20, 7))
    return admin, store, await asyncpg.connect(dsn, user=_ROLE)


def test_a_reader_sees_its_streams_alone(streams: str) -> None:
    async def scenario() -> None:
        admin, _, reader = await _create(streams, "OPEN", "LATER")
        views = {
            "heads": "select stream, account from jetgate.heads",
            "streams": "select name, account from jetgate.streams",
            "log": "select distinct stream, account from jetgate.log",
            "messages": "select distinct stream, account from jetgate.messages",
            "consumers": "select stream, account from jetgate.consumers",
        }
        for view, statement in views.items():
            assert [tuple(r) for r in await reader.fetch(statement)] == [("OPEN", "$G")], view
        for stream, expected in (("OPEN", [3]), ("SECRET", [])):
            lasts = await reader.fetch("select seq from jetgate.last_by_subject($1)", stream)
            newest = await reader.fetch("select seq from jetgate.latest($1, 1)", stream)
            assert [r[0] for r in lasts] == [r[0] for r in newest] == expected
        assert await reader.fetchval("select jetgate.seq_at('OPEN', 2)") == 2
        assert await reader.fetchval("select jetgate.seq_at('SECRET', 2)") is None
        assert await reader.fetchval("select jetgate.subject_matches('a.*', 'a.b')")
        await admin.execute("update jetgate_store.stream set name = 'LATER' where name = 'SECRET'")
        assert await reader.fetchval("select count(*) from jetgate.heads") == 2
        assert await admin.fetchval("select count(*) from jetgate.heads") == 3
        await reader.close()
        await admin.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "statement",
    [
        "select * from jetgate_store.message",
        "select * from jetgate_store.reader_grant",
        "select jetgate_store.first_there(2, 1)",
        "select * from jetgate_store.newest(2, 10)",
        "select * from jetgate_store.last_there(2, '>', null)",
        "insert into jetgate.streams (name) values ('X')",
        "create table jetgate.t (a int)",
    ],
)
def test_a_reader_may_do_nothing_else(streams: str, statement: str) -> None:
    async def scenario() -> None:
        admin, _, reader = await _create(streams, "OPEN")
        await reader.execute("set default_transaction_read_only = off")
        with pytest.raises(_REFUSED):
            await reader.fetch(statement)
        await reader.close()
        await admin.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "condition",
    [
        # Each fails, with the value in its message, on rows that this reader may not see.
        "1 / (3 - id) > 0 and 1 / (2 - id) < 5",
        "substr(convert_from(data, 'UTF8'), 1, 1)::int / (2 - id) > -5",
    ],
)
@pytest.mark.parametrize("view", ["jetgate.log"])
def test_a_condition_is_not_evaluated_on_hidden_rows(
    streams: str, view: str, condition: str
) -> None:
    async def scenario() -> None:
        admin, _, reader = await _create(streams, "OPEN")
        assert await reader.fetchval(f"select count(*) from {view} where {condition}") is not None
        with pytest.raises(asyncpg.DivisionByZeroError):
            await admin.fetchval(f"select count(*) from {view} where {condition}")
        await reader.close()
        await admin.close()

    asyncio.run(scenario())


def test_all_streams_of_an_account_are_those_to_come_too(streams: str) -> None:
    async def scenario() -> None:
        admin, store, reader = await _create(streams, "*", account="B")
        assert [r[0] for r in await reader.fetch("select id from jetgate.heads")] == [3]
        await admin.execute("update jetgate_store.stream set account = 'B' where stream = 2")
        assert await reader.fetchval("select count(*) from jetgate.heads") == 2
        assert [r.grants for r in await store.readers()] == [(("B", "*"),)]
        await reader.close()
        await admin.close()

    asyncio.run(scenario())


def test_a_role_has_limits_on_how_long_it_holds_a_snapshot(streams: str) -> None:
    async def scenario() -> None:
        admin, _, reader = await _create(streams, "OPEN")
        settings = ["statement_timeout", "idle_in_transaction_session_timeout"]
        if admin.get_server_version().major >= 17:
            settings.append("transaction_timeout")
        shown = [await reader.fetchval(f"select current_setting('{name}')") for name in settings]
        assert shown == ["20s", "7s", "20s"][: len(settings)]
        assert await reader.fetchval("show default_transaction_read_only") == "on"
        await reader.close()
        await admin.close()

    asyncio.run(scenario())


def test_a_role_has_a_limited_number_of_sessions(streams: str) -> None:
    limit = "select rolconnlimit from pg_roles where rolname = $1"

    async def scenario() -> None:
        admin, store, reader = await _create(streams, "OPEN")
        assert await admin.fetchval(limit, _ROLE) == ReadLimits().connections == 32
        await reader.close()
        assert await store.drop(_ROLE)
        limits = ReadLimits(connections=1)
        await store.create(_ROLE, "", "$G", ["OPEN"], limits)
        reader = await asyncpg.connect(streams, user=_ROLE)
        with pytest.raises(asyncpg.TooManyConnectionsError):
            await asyncpg.connect(streams, user=_ROLE)
        await reader.close()
        await admin.close()

    asyncio.run(scenario())


def test_the_owner_of_the_tables_may_end_the_sessions_of_its_readers(
    postgres: PostgresServer,
) -> None:
    dsn = postgres.fresh_database(migrated=False)
    name = dsn.partition("@/")[2].partition("?")[0]
    postgres.execute(f"create role maker login createrole; alter database {name} owner to maker")

    async def scenario(own: str) -> None:
        await migrate(Connector(own))
        maker = await asyncpg.connect(own)
        store = PostgresReaders(maker)
        await store.create(_ROLE, "", "$G", ["*"], ReadLimits())
        reader = await asyncpg.connect(dsn, user=_ROLE)
        assert await maker.fetchval("select pg_terminate_backend($1)", reader.get_server_pid())
        assert await store.drop(_ROLE)
        assert await maker.fetchval("select to_regrole($1)", _ROLE) is None
        await maker.close()
        reader.terminate()

    try:
        asyncio.run(scenario(dsn.replace("postgres@", "maker@")))
    finally:
        postgres.drop(dsn)
        postgres.execute("drop role maker")


def test_a_dropped_reader_is_gone_and_a_role_that_is_there_can_be_given_streams(
    streams: str,
) -> None:
    async def scenario() -> None:
        admin, store, reader = await _create(streams, "OPEN")
        with pytest.raises(OperatorError, match="exists"):
            await store.create(_ROLE, "", "$G", ["SECRET"], ReadLimits())
        await store.create(_ROLE, "", "$G", ["SECRET"], ReadLimits(), existing=True)
        assert await reader.fetchval("select count(*) from jetgate.heads") == 2
        await reader.close()
        assert await store.drop(_ROLE, keep_role=True)
        assert not await store.drop(_ROLE)
        reader = await asyncpg.connect(streams, user=_ROLE)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.fetch("select * from jetgate.heads")
        await reader.close()
        await store.create(_ROLE, "", "$G", ["OPEN"], ReadLimits(), existing=True)
        assert await store.drop(_ROLE)
        assert await store.readers() == []
        with pytest.raises(asyncpg.PostgresError):
            await asyncpg.connect(streams, user=_ROLE)
        await admin.close()

    asyncio.run(scenario())


def test_a_password_is_sent_as_a_verifier(streams: str) -> None:
    """The verifier is what PostgreSQL makes of the password itself."""

    async def scenario() -> None:
        admin, _, reader = await _create(streams, "OPEN", password="hush 'quoted' \\ hush")
        stored = await admin.fetchval("select rolpassword from pg_authid where rolname = $1", _ROLE)
        await admin.execute(f"alter role {_ROLE} password E'hush ''quoted'' \\\\ hush'")
        own = await admin.fetchval("select rolpassword from pg_authid where rolname = $1", _ROLE)
        for verifier in (stored, own):
            salt = base64.b64decode(verifier.split("$")[1].split(":")[1])
            assert scram_verifier("hush 'quoted' \\ hush", salt) == verifier
        await reader.close()
        await admin.close()

    asyncio.run(scenario())
