"""What a page of SQL costs: rows read stay near its size, whatever the stream and the reader."""

# Subject: SQL

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from core.storage.postgres.readers import PostgresReaders, ReadLimits
from tests.support.pg import PostgresServer

ROWS = 200_000
PAGE = 5000
BACKLOG = 3000
"""Replaced rows that are not deleted yet, in the stream with one message per subject."""

_LOAD = f"""
insert into jetgate_store.stream (stream, account, name, shelf, created, lease_group, config) values
  (1, '$G', 'PLAIN', 0, 0, 0, '{{}}'),
  (2, '$G', 'TTL', 0, 0, 0, '{{"allow_msg_ttl": true, "max_age": 3600000000000}}'),
  (3, '$G', 'KV', 1, 0, 0, '{{"max_msgs_per_subject": 1}}'),
  (4, '$G', 'PURGED', 0, 0, 0, '{{}}');
insert into jetgate_store.head
  select s, 1, case s when 4 then {ROWS // 2} else 1 end, {ROWS}, 0, {ROWS}, 0
    from generate_series(1, 4) as s;
do $$ begin
  for s in 1..4 loop
    insert into jetgate_store.message (seq, ts, stream, shelf, crc, subject, hdr, data)
    select g, extract(epoch from now())::bigint * 1000000000 + g, s, (s = 3)::int, 0,
           's.' || g % {ROWS - BACKLOG},
           case s when 2 then convert_to(E'NATS/1.0\\r\\nNats-TTL: 900\\r\\n\\r\\n', 'UTF8') end,
           'some bytes'
      from generate_series(1, {ROWS}) as g;
  end loop;
end $$;
insert into jetgate_store.replaced
  select 3, g, array_agg(seq) from generate_series(1, {BACKLOG}) as seq, lateral (select seq / 100)
    as t(g) group by g;
insert into jetgate_store.purge values (4, 1, '{{s.7,x.>}}', {ROWS});
"""
_PAGE = """
select seq, subject, headers, data from jetgate.log
 where id = (select id from jetgate.heads where stream = {stream} and account = '$G')
   and seq between {first} and {last} order by seq
"""
_OPEN_PAGE = """
select seq, subject, data from jetgate.log
 where id = {id} and seq >= {first} order by seq limit {limit}
"""


@pytest.fixture(scope="module")
def loaded(postgres: PostgresServer) -> Iterator[str]:
    """A database after a bulk load that nobody has analyzed, with a reader of two streams."""
    dsn = postgres.fresh_database()

    async def load() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "alter table jetgate_store.message_0 set (autovacuum_enabled = false);"
            "alter table jetgate_store.message_1 set (autovacuum_enabled = false)"
        )
        await connection.execute(_LOAD)
        readers = PostgresReaders(connection)
        await readers.create(
            "plan_reader", "", "$G", ["PLAIN", "TTL", "KV", "PURGED"], ReadLimits()
        )
        await connection.close()

    asyncio.run(load())
    yield dsn

    async def clean() -> None:
        connection = await asyncpg.connect(dsn)
        await PostgresReaders(connection).drop("plan_reader")
        await connection.close()

    asyncio.run(clean())
    postgres.drop(dsn)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _read_plan(text: str) -> tuple[dict[str, Any], int, list[str]]:
    """The plan, the rows that scans of messages have read, and what is wrong with the plan."""
    top = json.loads(text)[0]["Plan"]
    read, wrong = 0, []
    for node in _nodes(top):
        loops = node["Actual Loops"]
        if node.get("Relation Name", "").startswith("message"):
            read += (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * loops
            if "Index" not in node["Node Type"] and loops:
                wrong.append(node["Node Type"])
        if node["Node Type"] == "Sort" and node["Actual Rows"] > BACKLOG:
            wrong.append(f"sorts {node['Actual Rows']} rows")
    return top, int(read), wrong


async def _explain(connection: Any, statement: str) -> tuple[dict[str, Any], int, list[str]]:
    await connection.fetch(statement)  # the stream directory is in the cache now
    return _read_plan(
        await connection.fetchval(
            f"explain (analyze, buffers, timing off, format json) {statement}"
        )
    )


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("role", ["", "plan_reader"])
@pytest.mark.parametrize("prepared", [False, True])
def test_a_page_reads_its_own_rows(loaded: str, analyzed: bool, role: str, prepared: bool) -> None:
    async def scenario() -> None:
        connection = await asyncpg.connect(loaded)
        if analyzed:
            await connection.execute("analyze jetgate_store.message")
        if role:
            await connection.execute(f"set role {role}")
        await connection.execute("set plan_cache_mode = force_generic_plan")
        for n, (name, rows) in enumerate(
            {"PLAIN": PAGE, "TTL": PAGE, "KV": PAGE - 500, "PURGED": PAGE}.items(), start=1
        ):
            first = BACKLOG - 499 if name == "KV" else 100_000
            if prepared:
                text = _PAGE.format(stream="$1", first="$2", last="$3")
                await connection.execute(f"prepare page_{n} (text, bigint, bigint) as {text}")
                page = f"execute page_{n} ('{name}', {first}, {first + PAGE - 1})"
            else:
                page = _PAGE.format(stream=f"'{name}'", first=first, last=first + PAGE - 1)
            top, read, wrong = await _explain(connection, page)
            assert (top["Actual Rows"], read, wrong) == (rows, PAGE, []), name
            # A purge that is unfinished is asked for each message: one block, in memory.
            asked = PAGE if name == "PURGED" else 0
            blocks = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
            assert blocks < PAGE // 10 + 100 + asked, name
        await connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("role", ["", "plan_reader"])
def test_a_limit_ends_a_page_without_an_end(loaded: str, role: str) -> None:
    async def scenario() -> None:
        connection = await asyncpg.connect(loaded)
        if role:
            await connection.execute(f"set role {role}")
        for n in (1, 2, 3, 4):
            page = _OPEN_PAGE.format(id=n, first=ROWS // 2, limit=PAGE)
            top, read, wrong = await _explain(connection, page)
            assert (top["Actual Rows"], wrong) == (PAGE, [])
            assert read <= PAGE + 2, n
        await connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("role", ["", "plan_reader"])
def test_heads_times_and_the_newest_are_found_by_a_few_blocks(loaded: str, role: str) -> None:
    statements = (
        "select * from jetgate.heads",
        "select jetgate.seq_at('TTL', now())",
        "select seq from jetgate.latest('PURGED', 20)",
        "select seq, text from jetgate.latest('KV', 20)",
    )

    async def scenario() -> None:
        connection = await asyncpg.connect(loaded)
        if role:
            await connection.execute(f"set role {role}")
        for statement in statements:
            top, _, _ = await _explain(connection, statement)
            assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 500, statement
        await connection.close()

    asyncio.run(scenario())


def test_columns_that_are_not_read_cost_nothing(loaded: str) -> None:
    """No text is made of payloads and headers for a list of subjects."""

    async def scenario() -> None:
        connection = await asyncpg.connect(loaded)
        for view in ("jetgate.log", "jetgate.messages"):
            text = await connection.fetchval(
                "explain (verbose, format json) select subject from "
                f"{view} where stream = 'PLAIN' and seq < 100"
            )
            for node in _nodes(json.loads(text)[0]["Plan"]):
                shown = " ".join(node.get("Output", ()))
                assert "utf8" not in shown
                assert "convert_from" not in shown
                assert "octet_length" not in shown
        await connection.close()

    asyncio.run(scenario())
