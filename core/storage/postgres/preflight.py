"""Checks a database before jetgate stores messages in it: version, durability, rights, locks.

All settings are read before any is refused, so the operator sees all reasons at once. Each reason
names the found and the expected value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import asyncpg

from core.errors import OperatorError, Unreachable
from core.storage.postgres.connect import (
    DATABASE_ERRORS,
    POOLER,
    Connector,
    Purpose,
    is_final,
    reason_of,
)
from core.storage.postgres.locks import LOCK_CLASS, OURS, fresh_key
from core.storage.postgres.replication import REPLICATION, Replication

VERSIONS = range(15, 19)
_TO = "schema jetgate_store to "
_ATTEMPTS = 10
_HELD_BY_OTHER_SESSIONS = f"""
    select exists (
      select from pg_locks k
       where {OURS} and k.objid = $1::int::oid and k.granted
         and coalesce(k.pid, 0) <> all($2::int[]))
"""

_PROPERTIES = f"""
    with ours as (select c.oid, c.relname, c.relkind from pg_class c
                    join pg_namespace n on n.oid = c.relnamespace
                   where n.nspname = 'jetgate_store')
    select current_setting('server_version') as version,
           current_setting('server_version_num')::int / 10000 as major,
           current_setting('fsync') as fsync,
           current_setting('full_page_writes') as full_page_writes,
           current_setting('synchronous_commit') as synchronous_commit,
           current_setting('server_encoding') as encoding,
           pg_is_in_recovery() as in_recovery,
           current_setting('default_transaction_read_only') as read_only,
           current_database() as database,
           quote_ident(current_database()) as quoted_database,
           quote_ident(current_user) as role,
           has_database_privilege(current_database(), 'create') as may_create,
           has_language_privilege('plpgsql', 'usage') as may_plpgsql,
           array(select name from unnest(array['jetgate_store', 'jetgate']) as name
                  where not exists (select from pg_namespace where nspname = name)) as absent,
           array(select nspname::text from pg_namespace
                  where nspname in ('jetgate_store', 'jetgate')
                    and not has_schema_privilege(oid, 'usage') order by 1) as unusable,
           array(select nspname::text from pg_namespace
                  where nspname in ('jetgate_store', 'jetgate')
                    and not has_schema_privilege(oid, 'create') order by 1) as closed,
           exists (select from ours where relname = 'message') as has_tables,
           exists (select from ours where relkind in ('r', 'p') and not (
             has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
             and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete')
           )) as lacks_tables,
           -- Not with `and`, whose sides are evaluated in any order.
           exists (select from ours where case relkind when 'S' then
             not has_sequence_privilege(oid, 'usage') else false end) as lacks_sequences,
           {REPLICATION}
"""


@dataclass(frozen=True, slots=True)
class DatabaseProperties:
    """The settings of a database and the rights of the role that are checked.

    Attributes:
        version: Version of the server, as text.
        major: Its major version.
        fsync: Setting of this name, as are `full_page_writes` and `synchronous_commit`.
        encoding: Encoding of the server.
        in_recovery: True for a standby.
        read_only: Setting `default_transaction_read_only`.
        database: Name of the database.
        quoted_database: The same, quoted as in statements.
        role: Name of the role, quoted as in statements.
        may_create: True if the role may create schemas.
        may_plpgsql: True if the role may use PL/pgSQL.
        absent: Schemas of jetgate that do not exist.
        unusable: Schemas of jetgate whose objects the role may not use.
        closed: Schemas of jetgate in which the role may not create objects.
        has_tables: True if the schema of some release exists.
        lacks_tables: True if a right on a table is missing.
        lacks_sequences: True if a right on a sequence is missing.
    """

    version: str
    major: int
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    encoding: str
    in_recovery: bool
    read_only: str
    database: str
    quoted_database: str
    role: str
    may_create: bool
    may_plpgsql: bool
    absent: Sequence[str]
    unusable: Sequence[str]
    closed: Sequence[str]
    has_tables: bool
    lacks_tables: bool
    lacks_sequences: bool


async def preflight(connector: Connector) -> Replication:
    """Check that jetgate can store messages safely in a database; return its standbys.

    Raises:
        Unreachable: The database does not answer, or is a standby that may become the primary.
        OperatorError: The database must not be used; the text has every reason.
    """
    connection = await connector.open_plain()
    other = None
    try:
        other = await connector.open(Purpose.ADMIN)
        reasons = await _swallower(other) or await _pooler(connection, other)
        reasons = reasons or await _exclusion(connection, other)
        row = await connection.fetchrow(_PROPERTIES)
        properties = DatabaseProperties(
            **{field.name: row[field.name] for field in fields(DatabaseProperties)}
        )
    except asyncpg.ProtocolViolationError as error:
        # Sessions begin with settings, which PgBouncer does not pass on.
        reason = f"{POOLER} ({error})"
        raise OperatorError(_refused(connector, [reason])) from error
    except DATABASE_ERRORS as error:
        kind = OperatorError if is_final(error) else Unreachable
        reason = reason_of(error)
        raise kind(f"cannot check PostgreSQL at {connector.address}: {reason}") from error
    finally:
        connection.terminate()
        if other is not None:
            other.terminate()
    if reasons := reasons + refusals(properties):
        # A standby may soon become the primary.
        kind = Unreachable if properties.in_recovery and len(reasons) == 1 else OperatorError
        raise kind(_refused(connector, reasons))
    return Replication.of(row)


def _refused(connector: Connector, reasons: list[str]) -> str:
    return f"PostgreSQL at {connector.address} cannot be used: {'; '.join(reasons)}"


def refusals(properties: DatabaseProperties) -> list[str]:
    """Return the reasons why a database with these settings must not be used.

    Empty if it can be used.
    """
    reasons = []
    if properties.major not in VERSIONS:
        reasons.append(
            f"its version is {properties.version}, expected {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    if properties.in_recovery:
        reasons.append("it is a standby in recovery, expected the primary")
    elif properties.read_only != "off":
        reasons.append("default_transaction_read_only is on, expected off")
    if properties.fsync != "on":
        reasons.append(
            f"fsync is {properties.fsync}, expected on: "
            "a power failure would lose acknowledged messages"
        )
    if properties.full_page_writes != "on":
        reasons.append(
            f"full_page_writes is {properties.full_page_writes}, expected on:"
            " a power failure could damage pages"
        )
    if properties.synchronous_commit not in ("on", "remote_apply"):
        reasons.append(
            f"synchronous_commit is {properties.synchronous_commit}, expected on or remote_apply:"
            " a commit would not mean that messages are safe"
        )
    if properties.encoding != "UTF8":
        reasons.append(
            f"the encoding of {properties.database} is {properties.encoding}, expected UTF8"
        )
    return reasons + _rights(properties)


def _rights(properties: DatabaseProperties) -> list[str]:
    """Return a reason with all missing rights, and the statements that grant them."""
    statements = []
    if not properties.may_create:
        statements += [
            f"create schema {name} authorization {properties.role}" for name in properties.absent
        ]
    # A role that only serves creates no views.
    closed = [name for name in properties.closed if name != "jetgate" or not properties.has_tables]
    for name in dict.fromkeys([*properties.unusable, *closed]):
        rights = "usage, create" if name in closed else "usage"
        statements.append(f"grant {rights} on schema {name} to {properties.role}")
    if properties.lacks_tables:
        statements.append(
            f"grant select, insert, update, delete on all tables in {_TO}{properties.role}"
        )
    if properties.lacks_sequences:
        statements.append(f"grant usage on all sequences in {_TO}{properties.role}")
    if not properties.may_plpgsql and not properties.has_tables:
        statements.append(f"grant usage on language plpgsql to {properties.role}")
    if not statements:
        return []
    return [
        f"role {properties.role} lacks rights in database {properties.quoted_database};"
        f" let an administrator run there: {'; '.join(statements)}"
    ]


async def _swallower(session: Any) -> list[str]:
    """Return a reason if a session lacks the settings that it was opened with.

    A pooler in session mode may be configured to ignore them (`ignore_startup_parameters`).
    Sessions then have the limits of the role, which would end statements that must run without a
    limit.
    """
    is_ours = await session.fetchval("select current_setting('search_path')") == "pg_catalog"
    return [] if is_ours else [POOLER]


async def _pooler(connection: Any, other: Any) -> list[str]:
    """Return a reason if a connection pooler shares server sessions between client connections.

    A pooler in transaction mode breaks session-level advisory locks, on which leadership depends.
    An idle one gives a client the same session for every transaction, so detecting it takes a
    second client: that one gets the session the first has just left, and while it keeps that
    session in a transaction, the first gets another.
    """
    lock = f"({LOCK_CLASS}, {fresh_key()})"
    pid = "select pg_backend_pid()"
    try:
        await connection.fetchval(f"select pg_try_advisory_lock_shared{lock}")
        statement = await connection.prepare(pid)
        ours = {await statement.fetchval()}
        async with other.transaction():
            theirs = await other.fetchval(pid)
            async with connection.transaction():
                ours.add(await statement.fetchval())
        released = await connection.fetchval(f"select pg_advisory_unlock_shared{lock}")
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        return [POOLER]  # prepared in one session, executed in another
    except asyncpg.PostgresConnectionError as error:
        if "pooling mode" in str(error):  # statement pooling knows no transactions
            return [POOLER]
        raise
    return [] if released and len(ours) == 1 and theirs not in ours else [POOLER]


async def _exclusion(connection: Any, other: Any) -> list[str]:
    """Return a reason if two sessions can hold one advisory lock, or if a release has no effect.

    Some databases that speak PostgreSQL's protocol accept the functions and do nothing. Two nodes
    would lead there, each fencing the other. Other sessions see the key and may wait for it, so a
    third session may get the released lock: that counts as released.
    """
    key = fresh_key()
    lock = f"({LOCK_CLASS}, {key})"
    attempt, release = f"select pg_try_advisory_lock{lock}", f"select pg_advisory_unlock{lock}"
    if not await connection.fetchval(attempt):
        found = "a free lock is refused"
    elif await other.fetchval(attempt):
        found = "two sessions were given the same one at once"
    elif await connection.fetchval(release) and await _is_given_on(connection, other, key):
        return []
    else:
        found = "one that was released is not given to the next session"
    name = str(await connection.fetchval("select version()")).partition(" (")[0]
    return [
        f"its advisory locks do not exclude: {found}; nodes decide by them who leads,"
        f" expected a real PostgreSQL (this one says {name})"
    ]


async def _is_given_on(connection: Any, other: Any, key: int) -> bool:
    """Return whether a released lock is granted to the second session or to a third."""
    lock = f"({LOCK_CLASS}, {key})"
    pids = [await each.fetchval("select pg_backend_pid()") for each in (connection, other)]
    for _ in range(_ATTEMPTS):
        if await other.fetchval(f"select pg_try_advisory_lock{lock}"):
            await other.fetchval(f"select pg_advisory_unlock{lock}")
            return True
        if await connection.fetchval(_HELD_BY_OTHER_SESSIONS, key, pids):
            return True
    return False
