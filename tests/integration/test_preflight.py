"""Which databases are refused, and what the operator reads then."""

# Subject: database connections, schema

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from core.errors import OperatorError
from core.storage.postgres import preflight as checks
from core.storage.postgres.connect import Connector
from core.storage.postgres.preflight import DatabaseProperties, preflight, refusals
from tests.support.pg import PostgresServer

GOOD = DatabaseProperties(
    version="18.4",
    major=18,
    fsync="on",
    full_page_writes="on",
    synchronous_commit="on",
    encoding="UTF8",
    in_recovery=False,
    read_only="off",
    database="messages",
    quoted_database="messages",
    role="jetgate",
    may_create=True,
    may_plpgsql=True,
    absent=["jetgate_store", "jetgate"],
    unusable=[],
    closed=[],
    has_tables=False,
    lacks_tables=False,
    lacks_sequences=False,
)


def test_a_durable_database_is_accepted() -> None:
    assert refusals(GOOD) == []
    assert refusals(dataclasses.replace(GOOD, synchronous_commit="remote_apply")) == []
    assert refusals(dataclasses.replace(GOOD, may_create=False, absent=[])) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"major": 14, "version": "14.9"}, "version is 14.9, expected 15 to 18"),
        ({"major": 19, "version": "19beta1"}, "version is 19beta1, expected 15 to 18"),
        ({"fsync": "off"}, "fsync is off, expected on"),
        ({"full_page_writes": "off"}, "full_page_writes is off, expected on"),
        ({"synchronous_commit": "local"}, "synchronous_commit is local, expected on"),
        ({"synchronous_commit": "remote_write"}, "synchronous_commit is remote_write"),
        ({"encoding": "LATIN1"}, "the encoding of messages is LATIN1, expected UTF8"),
        ({"in_recovery": True}, "it is a standby in recovery, expected the primary"),
        ({"read_only": "on"}, "default_transaction_read_only is on, expected off"),
        ({"may_create": False}, "create schema jetgate_store authorization jetgate; create schema"),
        ({"closed": ["jetgate"]}, "run there: grant usage, create on schema jetgate to jetgate"),
        ({"may_plpgsql": False}, "run there: grant usage on language plpgsql to jetgate"),
        (
            {"has_tables": True, "unusable": ["jetgate"], "closed": ["jetgate", "jetgate_store"]},
            "grant usage on schema jetgate to jetgate; grant usage, create on schema jetgate_store",
        ),
        (
            {"has_tables": True, "lacks_tables": True},
            "grant select, insert, update, delete on all tables in schema jetgate_store to jetgate",
        ),
        (
            {"has_tables": True, "lacks_sequences": True},
            "grant usage on all sequences in schema jetgate_store to jetgate",
        ),
    ],
)
def test_refusal_names_the_value_and_what_is_expected(change: dict[str, Any], words: str) -> None:
    [reason] = refusals(dataclasses.replace(GOOD, **change))

    assert words in reason


def test_every_reason_is_reported_at_once_in_one_line(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)
    postgres.execute(f"alter database {dsn_name(dsn)} set synchronous_commit = off")

    with pytest.raises(OperatorError) as refused:
        asyncio.run(preflight(Connector(dsn)))

    text = str(refused.value)
    assert "fsync is off" in text
    assert "synchronous_commit is off" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("postgresql://u:secret@127.0.0.1:1/db", "127.0.0.1:1/db: connection refused"),
        ("postgresql://u:secret@no-such-host.invalid/db", "no-such-host.invalid/db: "),
        ("host=127.0.0.1 port=1 password=secret dbname=db", "127.0.0.1:1/db: connection refused"),
        (
            "postgresql://u:secret@127.0.0.1:1,127.0.0.2:1/db",
            "127.0.0.1:1: connection refused; 127.0.0.2:1: connection refused",
        ),
        ("postgresql:///db?host=/no/such/directory", "/no/such/directory/db: no such file"),
    ],
)
def test_an_unreachable_address_is_named_without_its_password(dsn: str, words: str) -> None:
    with pytest.raises(OperatorError) as refused:
        asyncio.run(preflight(Connector(dsn)))

    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


class TransactionPooler:
    """A client of a pooler: a transaction takes the session that was given back last.

    Args:
        idle: the sessions that the pooler keeps, shared by its clients.
    """

    def __init__(self, idle: list[Any]) -> None:
        self._idle = idle
        self._held: Any = None

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        if self._held is not None:
            yield self._held
            return
        session = self._idle.pop()
        try:
            yield session
        finally:
            self._idle.append(session)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self._session() as session, session.transaction():
            self._held = session
            try:
                yield
            finally:
                self._held = None

    async def fetchval(self, statement: str) -> Any:
        async with self._session() as session:
            return await session.fetchval(statement)

    execute = fetchval

    async def prepare(self, statement: str) -> Any:
        class Statement:
            async def fetchval(_) -> Any:
                return await self.fetchval(statement)

        return Statement()


def test_a_transaction_pooler_is_noticed(database: str) -> None:
    async def look() -> tuple[list[str], list[str]]:
        sessions = [await asyncpg.connect(database) for _ in range(3)]
        direct = await checks._pooler(*sessions[:2])
        pooled = await checks._pooler(TransactionPooler(sessions), TransactionPooler(sessions))
        for session in sessions:
            await session.close()
        return direct, pooled

    direct, pooled = asyncio.run(look())

    assert direct == []
    assert len(pooled) == 1
    assert "a connection pooler is in between" in pooled[0]


@pytest.mark.parametrize(
    ("function", "answer", "found"),
    [
        ("pg_try_advisory_lock", "true", "two sessions were given the same one at once"),
        ("pg_try_advisory_lock", "false", "a free lock is refused"),
        ("pg_advisory_unlock", "true", "one that was released is not given to the next session"),
    ],
)
def test_a_database_whose_advisory_locks_do_nothing_is_refused(
    postgres: PostgresServer, function: str, answer: str, found: str
) -> None:
    """Its function is replaced by what such databases have."""
    dsn = postgres.fresh_database(migrated=False)
    postgres.execute(
        f"create or replace function pg_catalog.{function}(integer, integer) returns boolean"
        f" language sql volatile as 'select {answer}'",
        dsn,
    )

    with pytest.raises(OperatorError) as refused:
        asyncio.run(preflight(Connector(dsn)))

    assert f"its advisory locks do not exclude: {found}; nodes decide" in str(refused.value)
    assert "this one says PostgreSQL 1" in str(refused.value)


def test_locks_are_tried_by_many_at_once_and_all_released(database: str) -> None:
    async def look() -> tuple[list[list[str]], int]:
        sessions = [await asyncpg.connect(database) for _ in range(8)]
        pairs = zip(sessions[::2], sessions[1::2], strict=True)
        reasons = await asyncio.gather(*(checks._exclusion(*pair) for pair in pairs))
        left = await sessions[0].fetchval(
            "select count(*) from pg_locks where locktype = 'advisory' and database ="
            " (select oid from pg_database where datname = current_database())"
        )
        for session in sessions:
            await session.close()
        return reasons, left

    assert asyncio.run(look()) == ([[], [], [], []], 0)


def dsn_name(dsn: str) -> str:
    """The database of a test's connection string."""
    return dsn.partition("@/")[2].partition("?")[0]
