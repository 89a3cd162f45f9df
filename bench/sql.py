"""The rows per second that an SQL query reads: `python -m bench.sql`.

`--held` measures instead the cost of a transaction that holds a snapshot for long. There are
streams of four kinds with messages of 128 bytes on an embedded PostgreSQL; one session reads them
as binary COPY. Times of reads are processor time of the session's backend.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.steps_publish import plan_of
from core.storage.interface import StreamCommit
from core.storage.postgres.connect import Purpose
from core.storage.postgres.embedded import EmbeddedPostgres
from core.storage.postgres.migrate import migrate
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.stream_log import PostgresLog
from core.units import NANOS_PER_SECOND, Epoch

_KINDS = {
    "plain": "{}",
    "with TTLs": '{"allow_msg_ttl": true}',
    "1 per subject": '{"max_msgs_per_subject": 1}',
    "half purged": "{}",
}
_BACKLOG = 20_000
"""Number of replaced rows that are not yet deleted."""

_COLUMNS = "seq, subject, ts, headers, data, size"
_PAGES = (1_000, 50_000)
_SWEEP = 10_000


async def load(admin: Any, rows: int) -> None:
    """Insert `rows` messages into each of the four streams by SQL, and analyze the tables."""
    for n, config in enumerate(_KINDS.values(), start=1):
        await admin.execute(
            "insert into jetgate_store.stream"
            " (stream, account, name, shelf, created, lease_group, config) "
            "values ($1, '$G', 'S' || $1::int, $2, 0, 0, $3)", n, int(n == 3), config,
        )  # fmt: skip
        await admin.execute(
            "insert into jetgate_store.head values ($1, 1, $2, $3, 0, $3, 0)",
            n, rows // 2 if n == 4 else 1, rows,
        )  # fmt: skip
        await admin.execute(
            "insert into jetgate_store.message (seq, ts, stream, shelf, crc, subject, hdr, data) "
            "select g, extract(epoch from now())::bigint * 1000000000 + g, $1::int, $2::int, 0, "
            "'orders.' || g % 10000, case when $1::int = 2 then "
            "convert_to(E'NATS/1.0\\r\\nNats-TTL: 86400\\r\\n\\r\\n', 'UTF8') end, $4 "
            "from generate_series(1, $3::bigint) as g",
            n, int(n == 3), rows, b"x" * 128,
        )  # fmt: skip
    await admin.execute(
        f"insert into jetgate_store.replaced select 3, g, array_agg(1 + seq * {rows // _BACKLOG}) "
        f"from generate_series(1, {_BACKLOG - 1}) seq, lateral (select seq / 100) t(g) group by g"
    )


class Reading:
    """A PostgreSQL session that reads, and the processor time of its backend."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def begin(self) -> None:
        """Find the id of the backend process, and disable parallel plans."""
        self._backend = await self._session.fetchval("select pg_backend_pid()")
        await self._session.execute("set max_parallel_workers_per_gather = 0")

    async def copy(self, query: str) -> float:
        """Return the processor time in seconds that the backend needs for the result of a query."""
        before = self._cpu()
        await self._session.copy_from_query(query, output=_nowhere, format="binary")
        return (self._cpu() - before) / NANOS_PER_SECOND

    def _cpu(self) -> int:
        return int(Path(f"/proc/{self._backend}/schedstat").read_text().split()[0])


async def _nowhere(_data: bytes) -> None:
    """Discard the data that COPY returns."""


async def pages(reading: Reading, rows: int) -> None:
    """Print the rows per second of reading ranges of each kind of stream."""
    sizes = "".join(f"{f'pages of {size:,}':>18}" for size in _PAGES)
    print(f"{'rows/s of CPU time':20}{sizes}{'all at once':>18}{'last_by_subject':>18}")
    for n, kind in enumerate(_KINDS, start=1):
        page = f"select {_COLUMNS} from jetgate.log where id = {n} and seq between {{}} and {{}}"
        first = rows // 2 + 1
        rates = []
        for size in (*_PAGES, rows - first + 1):
            starts = range(first, rows + 1, size)[:20]
            took = [
                await reading.copy(page.format(start, start + size - 1) + " order by seq")
                for start in starts
            ]
            rates.append(len(starts) * size / sum(took))
        took = [await reading.copy(f"select * from jetgate.last_by_subject('S{n}', 'orders.>')")]
        rates.append(rows / took[0])
        print(f"{kind:20}" + "".join(f"{rate:18,.0f}" for rate in rates), flush=True)


async def held(server: EmbeddedPostgres, admin: Any, reading: Reading) -> None:
    """Print the cost of publishes, deletions and reads while a snapshot is held, and after it."""
    log, reader = PostgresLog(lambda: server.connector.open(Purpose.COMMIT)), None
    pool = await server.connector.pool(Purpose.WRITE, 1)
    sweeper = PostgresReader(pool)
    await admin.execute(
        "insert into jetgate_store.stream"
        " (stream, account, name, shelf, created, lease_group, config) values "
        "(9, '$G', 'KV', 1, 0, 0, '{\"max_msgs_per_subject\": 1}')"
    )
    await admin.execute("insert into jetgate_store.head values (9, 1, 1, 0, 0, 0, 0)")
    last, page = 0, f"select {_COLUMNS} from jetgate.log where id = 9 order by seq"
    print("keys are put again and again; a snapshot is held from second 10 to second 40")
    print("second     puts/s   MB of table and index   ms of a page of all keys")
    began, puts, shown, snapshot = time.monotonic(), 0, 0.0, None
    while (now := time.monotonic() - began) < 60:
        if snapshot is None and reader is None and now > 10:
            snapshot = reader = await server.connector.open(Purpose.READ)
            await reader.execute("begin isolation level repeatable read; select 1")
        if snapshot is not None and now > 40:
            await snapshot.close()
            snapshot = None
        for _ in range(_SWEEP // 1000):
            plan = plan_of(1000, last)
            plan.replaced = [seq for seq in range(last - 999, last + 1) if seq > 0]
            await log.commit([StreamCommit(9, 1, Epoch(1), plan.build())])
            last += 1000
        gone = range(last - 1000 - _SWEEP + 1, last - 1000 + 1)
        await sweeper.delete_rows(9, 1, [seq for seq in gone if seq > 0], 2 * last, None)
        puts += _SWEEP
        if now >= shown + 5:
            size = await admin.fetchval("select pg_total_relation_size('jetgate_store.message_1')")
            took = await reading.copy(page)
            print(f"{now:6.0f} {puts / (now - shown):10,.0f} {size / 1e6:15.0f} {took * 1e3:24.1f}",
                  flush=True)  # fmt: skip
            shown, puts = now, 0
    await log.close()
    await pool.close()


async def main(arguments: argparse.Namespace) -> None:
    """Start the database, run the chosen measurement, stop the database."""
    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedPostgres(Path(directory) / "pg")
        await server.start()
        try:
            await migrate(server.connector)
            admin = await server.connector.open(Purpose.ADMIN)
            reading = Reading(await server.connector.open(Purpose.ADMIN))
            await reading.begin()
            if arguments.held:
                await held(server, admin, reading)
            else:
                await load(admin, arguments.rows)
                await pages(reading, arguments.rows)
        finally:
            await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="messages of each stream")
    parser.add_argument("--held", action="store_true", help="what a held snapshot costs")
    asyncio.run(main(parser.parse_args()))
