"""SQL on the database of a test, and a stream inserted as rows, for tests of views."""

import asyncio
from typing import Any

import asyncpg

MINUTE = 60 * 1_000_000_000


def on(dsn: str, *statements: str, arguments: tuple[object, ...] = ()) -> list[Any]:
    """Run statements in one session; return the rows of the last one, which gets `arguments`."""

    async def run() -> list[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return [tuple(row) for row in await connection.fetch(statements[-1], *arguments)]
        finally:
            await connection.close()

    return asyncio.run(run())


STREAM = """
    insert into jetgate_store.stream (stream, account, name, shelf, created, lease_group, config)
    values ({n}, '$G', '{name}', {shelf}, 0, 0, '{config}')
"""
HEAD = "insert into jetgate_store.head values ({n}, 1, {first}, {last}, {now}, 0, 0)"
MESSAGES = """
    insert into jetgate_store.message
    select g, {now} - ({last} - g)::bigint * 60000000000, {n}, {shelf}, 0, 's.' || g % 2, null,
           convert_to('m' || g, 'UTF8')
      from generate_series(1, {stored}) as g
"""


def stored(dsn: str, *, config: str = "{}", first: int = 1, last: int = 6, more: str = "") -> Any:
    """Insert a stream with messages 1 to `last` + 2; return the sequences in `jetgate.messages`.

    The messages are one minute apart; message `last` has the current time. The two messages after
    `last` represent rows that are written but not yet recorded in the head row of the stream.

    Args:
        dsn: Connection string of a migrated database.
        config: Configuration of the stream, as JSON.
        first: First sequence in the head row.
        last: Last sequence in the head row.
        more: A statement to run before the query; empty for none.
    """
    now = on(dsn, "select (extract(epoch from now()) * 1000000000)::bigint")[0][0]
    values = {"n": 7, "name": "S", "shelf": 1, "first": first, "last": last, "now": now}
    values |= {"config": config, "stored": last + 2}
    statements = [text.format(**values) for text in (STREAM, HEAD, MESSAGES)]
    shown = on(
        dsn, *statements, more or "select 1", "select seq from jetgate.messages order by seq"
    )
    return [seq for (seq,) in shown]
