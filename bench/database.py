"""Runs the embedded PostgreSQL alone: `python -m bench.database DIR`.

Prints its connection string when it accepts connections, and runs until standard input ends.
"""

import asyncio
import sys
from pathlib import Path

from core.storage.postgres.embedded.server import EmbeddedPostgres


async def main(directory: Path) -> None:
    """Run the database of `jetgate dev` alone."""
    postgres = EmbeddedPostgres(directory)
    await postgres.start()
    print(postgres.dsn, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await postgres.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
