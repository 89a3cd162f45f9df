"""Runs a migration so that sessions of other roles cannot block it.

A migration alters tables, so it waits for every open transaction that has read one of them. Any
role may have one open: a role that may read a view of schema `jetgate`, or one that asks PostgreSQL
for the partitions of a table, without any right on it. The migration ends such sessions if its role
may do that. Otherwise it names them in the log, and fails after 30 seconds, since other readers
wait behind it. For sessions of roles that may write messages (another migrating node, a backup) it
waits without a limit.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import asyncpg

from core.errors import OperatorError
from core.runtime.tasks import outcome, spawn, stop
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, reason_of

log = logging.getLogger(__name__)

GRACE_S = 2.0
"""Time for other sessions to end their transactions by themselves, in seconds."""
TIMEOUT_S = 30.0
"""Longest wait for sessions that this role may not end, in seconds."""
_LOOK_S = 0.25

# `pg_blocking_pids` returns 0 for a prepared transaction.
_BLOCKERS = """
    select b.pid, coalesce(a.usename, '')::text as role,
           a.usename is not distinct from session_user
             or coalesce(has_table_privilege(a.usesysid, to_regclass('jetgate_store.head'),
                                             'update'), false) as is_writer
      from unnest(pg_blocking_pids($1)) as b(pid) left join pg_stat_activity a on a.pid = b.pid
"""


async def unblocked(connector: Connector, pid: int, work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, statements of one session, and end sessions of other roles that block them.

    `pid` is the process id of the session's backend. Errors of `work` are passed on.

    Raises:
        OperatorError: A session that this role may not end blocks the work for 30 seconds.
    """
    task = spawn(outcome(work), name="migration")
    try:
        if not await _is_done(task, GRACE_S):
            await _watch(connector, pid, task)
        error = await task
    finally:
        await stop(task)
    if error is not None:
        raise error


async def _is_done(task: asyncio.Task[Any], seconds: float) -> bool:
    done, _ = await asyncio.wait([task], timeout=seconds)
    return bool(done)


async def _watch(connector: Connector, pid: int, task: asyncio.Task[Any]) -> None:
    """End the sessions that block the session `pid`, until its work is done.

    Raises OperatorError if a session that cannot be ended blocks it for 30 seconds.
    """
    loop = asyncio.get_running_loop()
    try:
        session = await connector.open(Purpose.ADMIN)
    except DATABASE_ERRORS as error:
        log.warning("cannot find the sessions that block the migration: %s", error)
        return
    named: set[int] = set()
    since = loop.time()
    try:
        while not await _is_done(task, _LOOK_S):
            blockers = await session.fetch(_BLOCKERS, pid)
            stuck = [each for each in blockers if not await _has_ended(session, each, named)]
            if not stuck:
                since = loop.time()
            elif loop.time() - since > TIMEOUT_S:
                raise OperatorError(_refusal(stuck))
    finally:
        session.terminate()


async def _has_ended(session: Any, blocker: Any, named: set[int]) -> bool:
    """Return whether a blocking session was terminated, or may be waited for.

    `named` collects the sessions that the log has named.
    """
    pid, role = blocker["pid"], blocker["role"]
    is_new = pid not in named
    named.add(pid)
    if blocker["is_writer"]:
        if is_new:
            log.info("the migration waits for role %r (pid %d)", role, pid)
        return True
    try:
        if pid and await session.fetchval("select pg_terminate_backend($1)", pid):
            log.warning("the migration has ended a session of role %r (pid %d)", role, pid)
        return bool(pid)
    except asyncpg.InsufficientPrivilegeError as error:
        if is_new:
            why = reason_of(error)
            log.warning("the migration waits for role %r (pid %d): %s", role, pid, why)
        return False


def _refusal(stuck: list[Any]) -> str:
    who = ", ".join(
        f"role {each['role']!r} (pid {each['pid']})" if each["pid"] else "a prepared transaction"
        for each in stuck
    )
    return (
        f"the migration is blocked by {who}, which this role may not end: end the transaction, let"
        " an administrator run select pg_terminate_backend(pid), or grant pg_signal_backend"
    )
