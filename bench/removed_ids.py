"""The cost of keeping the ids of deleted messages: `python -m bench.removed_ids`.

Rows with message ids are deleted ten thousand at a time, as a node deletes removed messages:
without and with keeping their ids for the deduplication window. Then the kept ids are deleted.
"""

import asyncio
import time

import asyncpg

from core.storage.postgres.reads import PostgresReader
from tests.support.pg import PostgresServer

_ROWS = 200_000
_AT_ONCE = 10_000
_FILL = f"""
    insert into jetgate_store.message (seq, ts, stream, shelf, crc, subject, hdr, data)
    select n, n, 9, 1, 0, 'orders.' || n % 1000,
           convert_to(E'NATS/1.0\\r\\nNats-Msg-Id: ' || lpad(n::text, 36, '0')
                      || E'\\r\\n\\r\\n', 'utf8'),
           decode(repeat('78', 128), 'hex')
      from generate_series(1, {_ROWS}) n
"""


async def measured(dsn: str) -> None:
    """Print deleted rows per second for each way, in rotation."""
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=1)
    sweeper = PostgresReader(pool)
    for turn in range(3):
        for name, since in (("without ids", None), ("with ids", 0)):
            await pool.execute("truncate jetgate_store.message, jetgate_store.removed_ids")
            await pool.execute(_FILL)
            await pool.execute("checkpoint")
            began = time.monotonic()
            while await sweeper.delete_below(9, 1, _ROWS + 1, _AT_ONCE, since):
                pass
            took = time.monotonic() - began
            print(f"{turn + 1} deleted {name}: {_ROWS / took:,.0f} rows/s", flush=True)
        began = time.monotonic()
        await sweeper.forget_ids(9, _ROWS)
        print(f"{turn + 1} forgotten: {_ROWS / (time.monotonic() - began):,.0f} ids/s", flush=True)
    await pool.close()


if __name__ == "__main__":
    with PostgresServer(settings={"fsync": "on"}) as postgres:
        asyncio.run(measured(postgres.fresh_database()))
