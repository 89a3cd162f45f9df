"""Who holds advisory locks of jetgate's class, or waits for some, without being a node.

Such a session holds up nothing, since a lock counts only for the session that `lease_holder` names;
but whoever it is may mean harm, or take a program's own keys for free ones.
"""

from typing import Any

from core.storage.leases import ForeignLocks
from core.storage.postgres.locks import OURS

# A session of the server's role has such a lock for a moment before its row says so, and to find
# out whether locks exclude. A prepared transaction has locks without a session, of which that on
# its own number says which one it is.
_FOREIGN = f"""
    with server as (
      select session_role as role from jetgate_store.lease_holder
       union select usesysid from pg_stat_activity where pid = pg_backend_pid())
    select coalesce(a.usename, x.owner, '')::text as role, coalesce(k.pid, 0) as pid,
           coalesce(x.gid, '') as prepared,
           count(*) filter (where k.granted)::int as held,
           count(*) filter (where not k.granted)::int as awaited,
           coalesce(array_agg(h.lease_group::int order by h.lease_group)
             filter (where h.lease_group is not null), '{{}}') as groups
      from pg_locks k
      left join pg_stat_activity a on a.pid = k.pid
      left join (
             select p.gid, p.owner, t.virtualtransaction
               from pg_prepared_xacts p
               join pg_locks t on t.locktype = 'transactionid' and t.transactionid = p.transaction
                and t.pid is null) as x
        on k.pid is null and x.virtualtransaction = k.virtualtransaction
      left join jetgate_store.lease_holder h on h.lock_key > 0 and h.lock_key::oid = k.objid
     where {OURS}
       and not exists (select from jetgate_store.lease_holder n
                        where n.session_pid = k.pid and n.session_role = a.usesysid)
       and (h.lease_group is not null or a.usesysid is null
            or a.usesysid not in (select role from server))
     group by 1, 2, 3 order by 1, 2, 3
"""


async def foreign_locks(session: Any) -> list[ForeignLocks]:
    """Ask a database that has our schema. Raises what asyncpg raises."""
    return [ForeignLocks(**row) for row in await session.fetch(_FOREIGN)]
