"""Migrates a database to the schema of this release.

One query finds out whether there is anything to do. In an empty database the statements of all
revisions are executed directly; Alembic is imported only to upgrade from an older revision (the
import takes longer than the rest of a start). An advisory lock makes two nodes that start together
migrate one after the other.
"""

from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

import core
import migrations
from core.errors import OperatorError
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.locks import LOCK_CLASS, MIGRATION_LOCK

if TYPE_CHECKING:
    from sqlalchemy import Connection

_VERSION_TABLE = """
    create table jetgate_store.schema_version (
      version_num varchar(32) not null, constraint schema_version_pkc primary key (version_num)
    )
"""


async def migrate(connector: Connector) -> bool:
    """Migrate to the newest revision; return whether anything was done.

    Raises:
        OperatorError: the schema belongs to a newer release, or we may not create it.
    """
    connection = await connector.open(Purpose.ADMIN)
    try:
        if await revision(connection) == migrations.HEAD:
            return False
        await connection.execute(f"select pg_advisory_lock({LOCK_CLASS}, {MIGRATION_LOCK})")
        found = await revision(connection)
        if found == migrations.HEAD:
            return False
        _refuse_newer(found)
        await connection.execute("create schema if not exists jetgate_store")
        if found is None:
            await _create(connection)
        else:
            await _upgrade(connector)
        return True
    except asyncpg.InsufficientPrivilegeError as error:
        raise OperatorError(f"cannot migrate {connector.address}: {error}") from error
    finally:
        await connection.close()


async def revision(connection: Any) -> str | None:
    """Return the revision of the schema in the database; None if there is none."""
    if await connection.fetchval("select to_regclass('jetgate_store.schema_version')") is None:
        return None
    value = await connection.fetchval("select version_num from jetgate_store.schema_version")
    return None if value is None else str(value)


def _refuse_newer(found: str | None) -> None:
    if found is not None and found > migrations.HEAD:
        raise OperatorError(
            f"the database schema is at revision {found}, jetgate {core.__version__} knows"
            f" revisions up to {migrations.HEAD}: run a newer jetgate"
        )


async def _create(connection: Any) -> None:
    """Execute the statements of all revisions in one transaction and store the revision."""
    statements = [
        statement
        for path in sorted(Path(migrations.__file__).parent.glob("versions/*.py"))
        for statement in _statements(path)
    ]
    async with connection.transaction():
        for statement in statements:
            await connection.execute(statement)
        await connection.execute(_VERSION_TABLE)
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


async def _upgrade(connector: Connector) -> None:
    from sqlalchemy.ext.asyncio import create_async_engine  # heavy: only when needed
    from sqlalchemy.pool import NullPool

    async def session() -> Any:
        return await connector.open(Purpose.ADMIN)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=session, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_run_alembic)
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
