"""An embedded PostgreSQL without a server, until Ctrl-C: `python -m bench.database DIR [PORT]`.

It prints its connection string when it accepts connections, and runs until standard input ends.
With PORT it also accepts connections on that port of 127.0.0.1.
"""

import asyncio
import sys
from pathlib import Path

from core.storage.postgres.embedded.server import EmbeddedPostgres


async def main(directory: Path, port: str = "") -> None:
    """Run the database of `jetgate dev` in a directory, without jetgate."""
    settings = {"listen_addresses": "127.0.0.1", "port": port} if port else {}
    postgres = EmbeddedPostgres(directory, settings=settings)
    await postgres.start()
    print(postgres.dsn, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await postgres.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
