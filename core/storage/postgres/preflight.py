"""Checks a database before jetgate stores messages in it.

Each check reads one setting; its error text gives the value and what is expected. All settings are
read before anything is refused, so that the operator sees all reasons at once.
"""

from dataclasses import dataclass
from typing import Any

import asyncpg

from core.errors import OperatorError
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose
from core.storage.postgres.locks import LOCK_CLASS, PROBE_LOCK

VERSIONS = range(15, 19)
_POOLER = "a connection pooler is in between (PgBouncer or alike), expected a direct connection"

_FACTS = """
    select current_setting('server_version') as version,
           current_setting('server_version_num')::int / 10000 as major,
           current_setting('fsync') as fsync,
           current_setting('full_page_writes') as full_page_writes,
           current_setting('synchronous_commit') as synchronous_commit,
           current_setting('server_encoding') as encoding,
           pg_is_in_recovery() as in_recovery,
           current_setting('default_transaction_read_only') as read_only,
           current_database() as database,
           current_user as username,
           has_database_privilege(current_database(), 'create') as may_create,
           (select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'jetgate_store')
             as schema_owner,
           coalesce((select pg_has_role(nspowner, 'usage') from pg_namespace
                      where nspname = 'jetgate_store'), true) as owns_schema
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """The settings and rights that are checked."""

    version: str
    major: int
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    encoding: str
    in_recovery: bool
    read_only: str
    database: str
    username: str
    may_create: bool
    schema_owner: str | None
    owns_schema: bool


async def preflight(connector: Connector) -> Facts:
    """Check a database.

    Raises:
        OperatorError: it cannot be reached, or must not be used; the text gives every reason.
    """
    connection = await connector.open_plain()
    other = None
    try:
        other = await connector.open(Purpose.ADMIN)
        reasons = await _pooler(connection, other)
        facts = Facts(**await connection.fetchrow(_FACTS))
    except asyncpg.ProtocolViolationError as error:
        # Sessions begin with settings, which PgBouncer does not pass on.
        reason = f"{_POOLER} ({error})"
        raise OperatorError(_refused(connector, [reason])) from error
    except DATABASE_ERRORS as error:
        raise OperatorError(f"cannot check PostgreSQL at {connector.address}: {error}") from error
    finally:
        connection.terminate()
        if other is not None:
            other.terminate()
    if reasons := reasons + refusals(facts):
        raise OperatorError(_refused(connector, reasons))
    return facts


def _refused(connector: Connector, reasons: list[str]) -> str:
    return f"PostgreSQL at {connector.address} cannot be used: {'; '.join(reasons)}"


def refusals(facts: Facts) -> list[str]:
    """Return the reasons not to use a database with these settings, one sentence each."""
    reasons = []
    if facts.major not in VERSIONS:
        reasons.append(f"its version is {facts.version}, expected {VERSIONS[0]} to {VERSIONS[-1]}")
    if facts.in_recovery:
        reasons.append("it is a standby in recovery, expected the primary")
    elif facts.read_only != "off":
        reasons.append("default_transaction_read_only is on, expected off")
    if facts.fsync != "on":
        reasons.append(
            f"fsync is {facts.fsync}, expected on: a power failure would lose acknowledged messages"
        )
    if facts.full_page_writes != "on":
        reasons.append(
            f"full_page_writes is {facts.full_page_writes}, expected on:"
            " a power failure could damage pages"
        )
    if facts.synchronous_commit not in ("on", "remote_apply"):
        reasons.append(
            f"synchronous_commit is {facts.synchronous_commit}, expected on or remote_apply:"
            " a commit would not mean that messages are safe"
        )
    if facts.encoding != "UTF8":
        reasons.append(f"the encoding of {facts.database} is {facts.encoding}, expected UTF8")
    return reasons + _rights(facts)


def _rights(facts: Facts) -> list[str]:
    if facts.schema_owner is None and not facts.may_create:
        return [
            f"user {facts.username} may not create schemas in database {facts.database}:"
            f" grant create on database {facts.database} to {facts.username}"
        ]
    if not facts.owns_schema:
        return [
            f"schema jetgate_store belongs to {facts.schema_owner}, not to {facts.username}:"
            " use its owner"
        ]
    return []


async def _pooler(connection: Any, other: Any) -> list[str]:
    """Return a reason if a connection pooler shares server sessions between client connections.

    A pooler in transaction mode breaks session-level advisory locks, which leadership is built on.
    An idle one gives a client the same session for every transaction, so a second client is needed
    to detect it: it gets the session that the first has just left, and while it keeps that in a
    transaction the first gets another.
    """
    lock = f"pg_advisory_lock_shared({LOCK_CLASS}, {PROBE_LOCK})"
    unlock = f"pg_advisory_unlock_shared({LOCK_CLASS}, {PROBE_LOCK})"
    pid = "select pg_backend_pid()"
    try:
        await connection.execute(f"select {lock}")
        statement = await connection.prepare(pid)
        ours = {await statement.fetchval()}
        async with other.transaction():
            theirs = await other.fetchval(pid)
            async with connection.transaction():
                ours.add(await statement.fetchval())
        released = await connection.fetchval(f"select {unlock}")
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        return [_POOLER]  # prepared in one session, executed in another
    except asyncpg.PostgresConnectionError as error:
        if "pooling mode" in str(error):  # that of statements knows no transactions
            return [_POOLER]
        raise
    return [] if released and len(ours) == 1 and theirs not in ours else [_POOLER]
