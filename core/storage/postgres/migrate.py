"""Migrates a database to the schema of this release.

One query decides whether a migration is needed. In an empty database the statements of all
revisions are executed directly. Alembic is imported only to upgrade from an older revision, since
its import takes longer than the rest of a start.

A lock on the version table serializes nodes that start together. Unlike an advisory lock it needs
rights on the table, so no other role can hold it. If the table does not exist yet, creating it
makes the other nodes wait. An upgrade is refused while nodes of the older release run: they would
go on writing in a format that the new release reads differently.
"""

import asyncio
import logging
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

import core
import migrations
from core.errors import OperatorError, Unreachable
from core.storage.postgres.connect import (
    DATABASE_ERRORS,
    Connector,
    Purpose,
    fetch,
    is_final,
    reason_of,
)
from core.storage.postgres.locks import SERIALIZE_MIGRATIONS
from core.storage.postgres.unblocking import unblocked

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger(__name__)

_BEATS_S = 4.0
"""Longest time between two heartbeats of a running node, in seconds (`LeaseTimes.stale`)."""
_LATELY = """
    select node, seen from jetgate_store.node
     where seen > clock_timestamp() - make_interval(secs => $1)
"""
_SINCE = """
    select n.node from jetgate_store.node n
      join unnest($1::text[], $2::timestamptz[]) as before (node, seen) on n.node = before.node
     where n.seen > before.seen order by n.node
"""
_VERSION_TABLE = """
    create table if not exists jetgate_store.schema_version (
      version_num varchar(32) not null, constraint schema_version_pkc primary key (version_num)
    )
"""
_HAS_TABLES = """
    select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'jetgate_store' and c.relkind in ('r', 'p')
                      and c.relname <> 'schema_version')
"""
_CREATED_MEANWHILE = (
    asyncpg.DuplicateSchemaError,
    asyncpg.DuplicateTableError,
    asyncpg.UniqueViolationError,  # in a system catalog of PostgreSQL
)


class _Overtaken(Exception):
    """Error: another node has migrated the database since its revision was read."""


async def migrate(connector: Connector) -> bool:
    """Migrate the database to the newest revision. Return False if it has that revision already.

    Raises:
        Unreachable: PostgreSQL does not answer.
        OperatorError: The schema belongs to a newer release, nodes of an older release run, or the
            schema cannot be created.
    """
    try:
        connection = await connector.open(Purpose.ADMIN)
    except DATABASE_ERRORS as error:
        raise _failure(connector, error) from error
    try:
        while (found := await revision(connection)) != migrations.HEAD:
            _refuse_newer(found)
            try:
                if found is None:
                    pid = connection.get_server_pid()
                    await unblocked(connector, pid, _create(connection))
                else:
                    await _upgrade(connector, connection, found)
                return True
            except (_Overtaken, *_CREATED_MEANWHILE):
                if await revision(connection) == found:
                    raise
        return False
    except DATABASE_ERRORS as error:
        raise _failure(connector, error) from error
    finally:
        await connection.close()


def _failure(connector: Connector, error: Exception) -> OperatorError:
    kind = OperatorError if is_final(error) else Unreachable
    return kind(_why(connector, error))


_SOMETHING_THERE = (
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateFunctionError,
    asyncpg.InvalidTableDefinitionError,
    asyncpg.InvalidFunctionDefinitionError,
    asyncpg.WrongObjectTypeError,
)
"""Errors of a revision that meets foreign tables, views or functions."""


def _why(connector: Connector, error: Exception) -> str:
    text = f"cannot migrate {connector.address}: {reason_of(error)}"
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return f"{text} (jetgate migrate does it with the DSN of the role that owns the tables)"
    if isinstance(error, _SOMETHING_THERE):
        return f"{text}: schemas {' and '.join(migrations.SCHEMAS)} must be empty at first"
    return text


async def revision(connection: Any) -> str | None:
    """Return the revision of the schema in the database; None if there is none."""
    if await connection.fetchval("select to_regclass('jetgate_store.schema_version')") is None:
        return None
    value = await connection.fetchval("select version_num from jetgate_store.schema_version")
    return None if value is None else str(value)


async def check_revision(pool: Any) -> None:
    """Check that no newer release has migrated the schema while this node was stalled.

    Raises:
        OperatorError: The schema has a revision that this release does not know.
        Unavailable: PostgreSQL does not answer.
    """
    rows = await fetch(pool, "select version_num from jetgate_store.schema_version")
    _refuse_newer(rows[0][0])


def _refuse_newer(found: str | None) -> None:
    if found is not None and found > migrations.HEAD:
        raise OperatorError(
            f"the database schema is at revision {found}, jetgate {core.__version__} knows"
            f" revisions up to {migrations.HEAD}: run a newer jetgate"
        )


async def _refuse_beside_nodes(connection: Any, found: str) -> None:
    """Raise OperatorError if nodes of an older release run.

    The row of a node that has just been killed is like that of a running one, so this waits 4
    seconds for another heartbeat.
    """
    lately = await connection.fetch(_LATELY, _BEATS_S)
    if not lately:
        return
    names = ", ".join(sorted(row["node"] for row in lately))
    log.info("waiting %.0f s to see whether nodes still run: %s", _BEATS_S, names)
    await asyncio.sleep(_BEATS_S)
    rows = [row["node"] for row in lately], [row["seen"] for row in lately]
    running = [row["node"] for row in await connection.fetch(_SINCE, *rows)]
    if running:
        raise OperatorError(
            f"the database schema is at revision {found}, jetgate {core.__version__} needs"
            f" {migrations.HEAD}, and nodes of an older release still run: stop"
            f" {', '.join(running)} first"
        )


async def _refuse_unknown(connection: Any) -> None:
    """Raise OperatorError if there are tables but no recorded revision."""
    if await connection.fetchval(_HAS_TABLES):
        raise OperatorError(
            "schema jetgate_store has tables, but no row in schema_version names their revision:"
            " restore it from a backup; or, if this release has written them,"
            f" insert into jetgate_store.schema_version values ('{migrations.HEAD}')"
        )


async def _require_unchanged(connection: Any, found: str | None) -> None:
    """Raise _Overtaken if the revision has changed since it was read as `found`."""
    if await revision(connection) != found:
        raise _Overtaken


async def _create(connection: Any) -> None:
    """Execute the statements of all revisions in one transaction and store the revision."""
    statements = [
        statement
        for path in sorted(Path(migrations.__file__).parent.glob("versions/*.py"))
        for statement in _statements(path)
    ]
    async with connection.transaction():
        for schema in migrations.SCHEMAS:
            # Not `if not exists`, which needs the right to create schemas even if this one exists.
            there = "select exists (select from pg_namespace where nspname = $1)"
            if not await connection.fetchval(there, schema):
                await connection.execute(f"create schema {schema}")
        await connection.execute(_VERSION_TABLE)
        await connection.execute(SERIALIZE_MIGRATIONS)
        await _require_unchanged(connection, None)
        await _refuse_unknown(connection)
        for statement in statements:
            await connection.execute(statement)
        await connection.execute(
            "insert into jetgate_store.schema_version values ($1)", migrations.HEAD
        )


def _statements(path: Path) -> Sequence[str]:
    spec = spec_from_file_location(f"migrations.versions.{path.stem}", path)
    assert spec is not None, "a path of ours"
    assert spec.loader is not None, "a path of ours"
    revision_module = module_from_spec(spec)
    spec.loader.exec_module(revision_module)
    found: Sequence[str] = revision_module.STATEMENTS
    return found


async def _upgrade(connector: Connector, connection: Any, found: str) -> None:
    """Upgrade from a revision in one transaction of a second session."""
    from sqlalchemy.ext.asyncio import create_async_engine  # heavy: only when needed
    from sqlalchemy.pool import NullPool

    async def session() -> Any:
        return await connector.open(Purpose.ADMIN)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=session, poolclass=NullPool)
    try:
        async with engine.begin() as upgrading:
            pid = (await upgrading.exec_driver_sql("select pg_backend_pid()")).scalar_one()

            async def work() -> None:
                await upgrading.exec_driver_sql(SERIALIZE_MIGRATIONS)
                await _require_unchanged(connection, found)
                await _refuse_beside_nodes(connection, found)
                await upgrading.run_sync(_run_alembic)

            await unblocked(connector, pid, work())
    finally:
        await engine.dispose()


def _run_alembic(connection: "Connection") -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option(
        "script_location", str(Path(migrations.__file__).parent).replace("%", "%%")
    )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
