"""The schema: how it comes to be, and what its functions and views say."""

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

MINUTE = 60 * 1_000_000_000


COLUMNS = """
    select table_schema, table_name, ordinal_position, column_name, data_type, is_nullable
      from information_schema.columns where table_schema like 'jetgate%' order by 1, 2, 3
"""


def on(dsn: str, *statements: str, arguments: tuple[object, ...] = ()) -> list[Any]:
    """Run statements in one session; the rows of the last one."""

    async def run() -> list[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return [tuple(row) for row in await connection.fetch(statements[-1], *arguments)]
        finally:
            await connection.close()

    return asyncio.run(run())


def run_migrate(dsn: str) -> bool:
    return asyncio.run(migrate(Connector(dsn)))


def test_the_newest_revision_is_the_one_the_code_expects() -> None:
    config = Config()
    config.set_main_option("script_location", "migrations")

    assert ScriptDirectory.from_config(config).get_heads() == [migrations.HEAD]


def test_a_second_migration_has_nothing_to_do(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)

    assert run_migrate(dsn)
    assert not run_migrate(dsn)


def test_two_nodes_may_migrate_at_once(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database(migrated=False)

    async def both() -> list[bool]:
        return await asyncio.gather(*(migrate(Connector(dsn)) for _ in range(3)))

    assert sorted(asyncio.run(both())) == [False, False, True]


def test_a_schema_of_a_newer_release_is_refused(database: str) -> None:
    on(database, "update jetgate_store.schema_version set version_num = '9999'", "select 1")

    with pytest.raises(OperatorError, match=r"revision 9999.*run a newer jetgate"):
        run_migrate(database)


def test_whoever_may_not_create_the_schema_is_told(postgres: PostgresServer) -> None:
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


STREAM = """
    insert into jetgate_store.stream (stream, account, name, shelf, created, config)
    values ({n}, '$G', '{name}', {shelf}, 0, '{config}')
"""
HEAD = "insert into jetgate_store.head values ({n}, 1, {first}, {last}, {now}, 0, 0)"
MESSAGES = """
    insert into jetgate_store.message
    select g, {now} - ({last} - g)::bigint * 60000000000, {n}, {shelf}, 0, 's.' || g % 2, null,
           convert_to('m' || g, 'UTF8')
      from generate_series(1, {stored}) as g
"""


def stored(dsn: str, *, config: str = "{}", first: int = 1, last: int = 6, more: str = "") -> Any:
    """Store messages 1 to `last` + 2, one a minute, the last of them now; what the view shows.

    The two beyond `last` stand for a COPY whose transaction this head does not know.
    """
    now = on(dsn, "select (extract(epoch from now()) * 1000000000)::bigint")[0][0]
    values = {"n": 7, "name": "S", "shelf": 1, "first": first, "last": last, "now": now}
    values |= {"config": config, "stored": last + 2}
    statements = [text.format(**values) for text in (STREAM, HEAD, MESSAGES)]
    shown = on(
        dsn, *statements, more or "select 1", "select seq from jetgate.messages order by seq"
    )
    return [seq for (seq,) in shown]


def test_view_shows_what_the_head_says_is_there(database: str) -> None:
    assert stored(database, first=3) == [3, 4, 5, 6]


def test_view_hides_what_is_too_old(database: str) -> None:
    age = f'{{"max_age": {int(2.5 * MINUTE)}}}'

    assert stored(database, config=age) == [4, 5, 6]


def test_view_hides_what_an_unfinished_purge_removes(database: str) -> None:
    purge = "insert into jetgate_store.purge values (7, 1, '{s.1,x.>}', 4)"

    assert stored(database, more=purge) == [2, 4, 5, 6]


def test_view_shows_the_newest_of_each_subject(database: str) -> None:
    assert stored(database, config='{"max_msgs_per_subject": 2}') == [3, 4, 5, 6]


def test_a_purged_message_does_not_bring_an_older_one_of_its_subject_back(database: str) -> None:
    purge = "insert into jetgate_store.purge values (7, 1, '{s.0}', 6)"

    assert stored(database, config='{"max_msgs_per_subject": 1}', more=purge) == [5]


def test_view_shows_columns_that_people_can_read(database: str) -> None:
    stored(database, config='{"description": "a \\u0000 in it"}', last=1)

    shown = on(
        database,
        "select stream, subject, text, data, size, headers, time > now() - interval '1 minute'"
        " from jetgate.messages",
    )
    assert shown == [("S", "s.1", "m1", b"m1", 2, None, True)]
    streams = on(database, "select name, last_seq, config ->> 'description' from jetgate.streams")
    assert streams == [("S", 1, "a ␀ in it")]


@pytest.mark.parametrize(
    ("config", "more"),
    [
        ("{}", "select 1"),
        (f'{{"max_age": {int(2.5 * MINUTE)}}}', "select 1"),
        ("{}", "insert into jetgate_store.purge values (7, 1, '{s.1,x.>}', 4)"),
        ('{"max_msgs_per_subject": 2}', "select 1"),
        (
            '{"max_msgs_per_subject": 1}',
            "insert into jetgate_store.purge values (7, 1, '{s.0}', 6)",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 3, 100])
def test_the_latest_are_those_of_the_view(
    database: str, config: str, more: str, count: int
) -> None:
    stored(database, config=config, first=2, more=more)
    newest = "select * from jetgate.messages where stream = 'S' order by seq desc limit $1"

    latest = on(database, "select * from jetgate.latest('S', $1)", arguments=(count,))

    assert latest == on(database, newest, arguments=(count,)) != []
    assert on(database, "select * from jetgate.latest('NONE')") == []


@pytest.mark.parametrize("config", ["{}", '{"max_msgs_per_subject": 1000000}'])
def test_the_latest_are_found_without_looking_at_all(database: str, config: str) -> None:
    stored(database, config=config, last=50_000)
    on(database, "analyze jetgate_store.message", "select 1")
    explain = "explain (analyze, buffers, format json) select * from jetgate.latest('S', 10)"

    [(plan,)] = on(database, explain)

    top = json.loads(plan)[0]["Plan"]
    assert top["Actual Rows"] == 10
    assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 300


def test_consumers_are_shown_by_the_name_of_their_stream(database: str) -> None:
    stored(database)
    on(
        database,
        "insert into jetgate_store.consumer"
        " (stream, consumer, name, created, epoch, config, delivered_stream_seq)"
        " values (7, 1, 'C', 0, 1, '{}', 5)",
        "select 1",
    )

    shown = on(database, "select stream, name, delivered_stream_seq from jetgate.consumers")

    assert shown == [("S", "C", 5)]


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
