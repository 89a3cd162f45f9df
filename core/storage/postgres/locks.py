"""The advisory locks of jetgate in a database: one class, and keys that nobody can foresee.

Every role that may connect can lock every key, and `pg_locks` shows everybody which are locked. So
no key is ever used twice, and a lock counts only for the session that a row of
`jetgate_store.lease_holder` names: other roles cannot write that
(docs/decisions/0035-count-only-the-locks-of-nodes.md).
"""

import secrets

LOCK_CLASS = 0x6A67
LEASE_GROUPS = 256
"""Lease groups are the numbers from 0 to below this."""
_KEYS = 2**31 - 1
BUMPS_IN_TURN = "lock table jetgate_store.lease in share row exclusive mode"
"""Who gives epochs takes this first, before any row; rows can be read, and kept, meanwhile."""
MIGRATIONS_IN_TURN = "lock table jetgate_store.schema_version in share update exclusive mode"
"""Who migrates takes this first. It needs rights on the table, and readers need not wait."""

OURS = f"""
    k.locktype = 'advisory' and k.classid = {LOCK_CLASS} and k.objsubid = 2
    and k.database = (select oid from pg_database where datname = current_database())
"""
"""Whether a lock `k` of `pg_locks` is of this class, in this database."""

IS_HELD = f"""
    {OURS} and k.granted
    and k.pid = any(array(select session_pid from jetgate_store.lease_holder group by session_pid))
    and k.objid = h.lock_key and k.pid = h.session_pid
    and a.pid = h.session_pid and a.usesysid = h.session_role
"""
"""Whether a lock `k` of a session `a` of `pg_stat_activity` is that of a lease holder `h`.

The sessions of nodes are sorted out first: others may have tens of thousands of locks, of which
PostgreSQL expects one.
"""


def fresh_key() -> int:
    """Return a key by chance, 1 to 2^31 - 1, which nobody can foresee."""
    return 1 + secrets.randbelow(_KEYS)
