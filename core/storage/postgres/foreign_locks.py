"""Finds sessions that hold or await advisory locks with jetgate's keys without being a node.

Such a session blocks no node: a lock counts only for the session that table `lease_holder` names.
But it may be an attack, or a program that uses the same keys by accident.
"""

from typing import Any

from core.storage.leases import ForeignLocks
from core.storage.postgres.locks import OURS

# There may be tens of thousands of locks, so they are aggregated before any join. A prepared
# transaction has locks without a session; its lock on its own transaction id identifies it.
_LOCKS = f"""
    with gathered as materialized (
      select k.pid, case when k.pid is null then k.virtualtransaction end as transaction,
             count(*) filter (where k.granted)::int as held,
             count(*) filter (where not k.granted)::int as awaited,
             array_agg(k.objid::bigint) as keys
        from pg_locks k where {OURS} group by 1, 2)
    select coalesce(a.usename, x.owner, '')::text as name, a.usesysid as role, g.pid,
           coalesce(x.gid, '') as prepared, g.held, g.awaited, g.keys
      from gathered g
      left join pg_stat_activity a on a.pid = g.pid
      left join (
             select p.gid, p.owner, t.virtualtransaction
               from pg_prepared_xacts p
               join pg_locks t on t.locktype = 'transactionid' and t.transactionid = p.transaction
                and t.pid is null) as x on x.virtualtransaction = g.transaction
     order by name, g.pid
"""
_HOLDERS = "select lease_group, lock_key, session_pid, session_role from jetgate_store.lease_holder"
_OWN_ROLE = "select usesysid from pg_stat_activity where pid = pg_backend_pid()"


async def foreign_locks(session: Any) -> list[ForeignLocks]:
    """Return the advisory locks with jetgate's keys of sessions that belong to no node.

    A session of the server's own role has such locks for a moment before its row in `lease_holder`
    is written, and while a start tests that locks exclude each other. It is reported only if it has
    the key of a lease group. Exceptions of asyncpg are passed on.
    """
    locks = await session.fetch(_LOCKS)
    if not locks:
        return []
    holders = await session.fetch(_HOLDERS)
    group_of = {row["lock_key"]: row["lease_group"] for row in holders if row["lock_key"]}
    nodes = {(row["session_pid"], row["session_role"]) for row in holders}
    own = {await session.fetchval(_OWN_ROLE), *(row["session_role"] for row in holders)}
    found = []
    for row in locks:
        groups = sorted(group_of[key] for key in row["keys"] if key in group_of)
        if (row["pid"], row["role"]) in nodes or (row["role"] in own and not groups):
            continue
        counts = row["held"], row["awaited"]
        found.append(ForeignLocks(row["name"], row["pid"] or 0, row["prepared"], *counts, groups))
    return found
