"""The schema: how it comes to be, and what its functions and views say."""

# Subject: schema

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import migrations
from core.errors import OperatorError
from core.storage.postgres.connect import Connector
from core.storage.postgres.migrate import migrate
from tests.support.pg import PostgresServer
from tests.support.sql import on, stored

COLUMNS = """
    select table_schema, table_name, ordinal_position, column_name, data_type, is_nullable
      from information_schema.columns where table_schema like 'jetgate%' order by 1, 2, 3
"""


def run_migrate(dsn: str) -> bool:
    return asyncio.run(migrate(Connector(dsn)))


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", "migrations")
    return ScriptDirectory.from_config(config)


def at_revision(server: PostgresServer, revision: str, *, owner: str = "postgres") -> str:
    """A database without streams, as a release that knew no later revision has created it.

    It is that of a role, and so is the connection string.
    """
    admin = server.fresh_database(migrated=False)
    name = admin.partition("@/")[2].partition("?")[0]
    server.execute(f"alter database {name} owner to {owner}")
    dsn = admin.replace("postgres@", f"{owner}@")
    steps = reversed([*scripts().iterate_revisions(revision, "base")])
    on(
        dsn,
        *(f"create schema {schema}" for schema in migrations.SCHEMAS),
        *(statement for step in steps for statement in step.module.STATEMENTS),
        "create table jetgate_store.schema_version (version_num varchar(32) primary key)",
        f"insert into jetgate_store.schema_version values ('{revision}')",
        "select 1",
    )
    return dsn


def test_the_newest_revision_is_the_one_the_code_expects() -> None:
    assert scripts().get_heads() == [migrations.HEAD]


def test_a_second_migration_has_nothing_to_do(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)

    assert run_migrate(dsn)
    assert not run_migrate(dsn)


def test_two_nodes_may_migrate_at_once(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)

    async def both() -> list[bool]:
        return await asyncio.gather(*(migrate(Connector(dsn)) for _ in range(3)))

    assert sorted(asyncio.run(both())) == [False, False, True]


STREAMS = """
    insert into jetgate_store.stream (stream, account, name, shelf, created, dropped, lease_group,
                                      config, version)
    select stream, account, name, 1, 0, dropped, lease_group, '{}', 3
      from (values (1, '$G', 'ORDERS', false, 11), (2, '$G', 'JG_STAGE_ORDERS', false, 12),
                   (3, '$G', 'NEWS', false, 13), (4, 'OTHER', 'JG_STAGE_NEWS', false, 14),
                   (5, 'OTHER', 'NEWS', false, 15), (6, '$G', 'JG_STAGE_NEWS', false, 13),
                   (7, '$G', 'GONE', true, 17), (8, '$G', 'JG_STAGE_GONE', false, 18),
                   (9, '$G', 'JG_STAGE_NEVER', false, 19), (10, '$G', 'LAST', false, 20),
                   (11, '$G', 'JG_STAGE_LAST', true, 21))
        as s (stream, account, name, dropped, lease_group)
"""
HELD = (
    "insert into jetgate_store.head select stream, 1, 1, 5, 9, 5, 500 from jetgate_store.stream",
    """
    insert into jetgate_store.message
    select seq, 9, stream, 1, 7, name || '.app', null, convert_to('row ' || seq, 'UTF8')
      from jetgate_store.stream, generate_series(1, 5) as seq
    """,
    """
    insert into jetgate_store.consumer (stream, consumer, name, created, epoch, config, state)
    select stream, 1, 'C', 0, 1, '{}', 'state' from jetgate_store.stream
    """,
    """
    insert into jetgate_store.ledger
    values (1, 'app', 4, 'run', '[]', 60, 9, 2, '{"attempts": []}', 10, 3, 0, 1, 3, '{2, 1}', null)
    """,
    "update jetgate_store.lease set token = 5, node = 'one' where lease_group between 11 and 21",
)
"""What each of these streams holds, and a batch of ORDERS that is not stored whole."""
TABLES = """
    select table_name from information_schema.tables
     where table_schema = 'jetgate_store' and table_type = 'BASE TABLE' order by 1
"""


def rows_of(dsn: str, *tables: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of tables of the store, without the lease group that they name."""
    return {
        table: [
            json.loads(row)
            for (row,) in on(
                dsn, f"select to_jsonb(t) - 'lease_group' from jetgate_store.{table} t order by 1"
            )
        ]
        for table in tables
    }


def test_stages_are_led_with_their_targets_from_revision_0007_on(postgres: PostgresServer) -> None:
    groups = "select stream, lease_group from jetgate_store.stream order by stream"
    dsn = at_revision(postgres, "0006")
    on(dsn, STREAMS, *HELD, "select 1")
    tables = [name for (name,) in on(dsn, TABLES) if name != "schema_version"]
    before, led = rows_of(dsn, *tables), dict(on(dsn, groups))

    assert run_migrate(dsn)

    # Of the same account; neither whose target is gone, or was never there, nor what is dropped.
    assert dict(on(dsn, groups)) == {**led, 2: 11, 4: 15}
    after = rows_of(dsn, *tables)
    for table, rows in before.items():
        known = rows[0] if rows else {}  # columns; later revisions may add some
        assert [{name: row[name] for name in known} for row in after[table]] == rows, table
    assert on(dsn, "select version_num from jetgate_store.schema_version") == [(migrations.HEAD,)]
    assert on(dsn, COLUMNS) == on(postgres.fresh_database(), COLUMNS)


def test_a_schema_of_a_newer_release_is_refused(database: str) -> None:
    on(database, "update jetgate_store.schema_version set version_num = '9999'", "select 1")

    with pytest.raises(OperatorError, match=r"revision 9999.*run a newer jetgate"):
        run_migrate(database)


def test_a_role_that_may_not_create_the_schema_gets_an_error(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)
    on(dsn, "create role guest login", "select 1")

    with pytest.raises(OperatorError, match="permission denied"):
        run_migrate(dsn.replace("postgres@", "guest@"))


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a", False),
        ("a.>", "a.b.c", True),
        (">", "a", True),
        ("*", "a.b", False),
        ("*.>", "a", False),
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("a.>.b", "a.>.b", True),
        ("$KV.x.>", "$KV.x.1", True),
        ("a.[.*", "a.[.(", True),
        ("a.\\.*", "a.\\.q", True),
        ("é.*", "é.b", True),
        ("é.*", "e.b", False),
    ],
)
def test_subjects_match_as_in_nats(
    migrated: str, pattern: str, subject: str, expected: bool
) -> None:
    matches = "select jetgate_store.subject_matches($1, $2)"

    assert on(migrated, matches, arguments=(pattern, subject)) == [(expected,)]


@pytest.fixture(scope="module")
def migrated(postgres: PostgresServer) -> str:
    """A database for tests that only read."""
    return postgres.fresh_database()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"plain",
        b"back\\slash \r\n\t\x7f\x01",
        b"with \x00 in it",
        b"\xff",
        "é€😀".encode(),
        b"\xe2\x82",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ],
)
def test_payload_is_shown_as_text_exactly_where_it_is_text(migrated: str, payload: bytes) -> None:
    try:
        expected = None if b"\0" in payload else payload.decode()
    except UnicodeDecodeError:
        expected = None

    shown = on(migrated, "select jetgate_store.utf8_or_null($1)", arguments=(payload,))

    assert shown == [(expected,)]


FENCE = "select jetgate_store.fence($1, $2, $3, $4, $5, $6, $7, $8)"


def test_fence_moves_the_heads_that_are_where_the_writer_left_them(database: str) -> None:
    stored(database)

    on(database, FENCE, arguments=([7], [1], [6], [9], [2], [11], [8], [80]))

    head = on(database, "select * from jetgate_store.head where stream = 7")
    assert head == [(7, 1, 2, 9, 11, 8, 80)]


@pytest.mark.parametrize(("epoch", "last"), [(2, 6), (1, 5)])
def test_fence_refuses_a_stale_epoch_or_position(database: str, epoch: int, last: int) -> None:
    stored(database)
    before = on(database, "select * from jetgate_store.head order by stream")

    with pytest.raises(asyncpg.PostgresError) as refused:
        on(
            database,
            FENCE,
            arguments=([0, 7], [0, epoch], [0, last], [0, 9], [0, 1], [0, 1], [0, 1], [0, 1]),
        )

    assert refused.value.sqlstate == "JG001"
    assert on(database, "select * from jetgate_store.head order by stream") == before
