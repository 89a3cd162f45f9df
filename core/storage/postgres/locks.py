"""The advisory locks of jetgate in a database: one class, and unpredictable keys.

Every role that may connect can lock every key, and `pg_locks` shows all locked keys. So no key is
used twice, and a lock counts only for the session named in a row of `jetgate_store.lease_holder`,
which other roles cannot write (docs/decisions/0029-count-only-the-locks-of-nodes.md).
"""

import secrets
from typing import Final

from core.units import LeaseGroup

LOCK_CLASS = 0x6A67
LEASE_GROUPS = 256
"""Number of lease groups; they are numbered from 0."""
ALL_LEASE_GROUPS: Final = tuple(map(LeaseGroup, range(LEASE_GROUPS)))
_KEYS = 2**31 - 1
SERIALIZE_BUMPS = "lock table jetgate_store.lease in share row exclusive mode"
"""First statement of a transaction that raises epochs, before any row lock.

Other sessions can still read the rows, and lock them.
"""
SERIALIZE_MIGRATIONS = "lock table jetgate_store.schema_version in share update exclusive mode"
"""First statement of a migration. It needs rights on the table; readers do not wait for it."""

OURS = f"""
    k.locktype = 'advisory' and k.classid = {LOCK_CLASS} and k.objsubid = 2
    and k.database = (select oid from pg_database where datname = current_database())
"""
"""SQL condition: a row `k` of `pg_locks` is an advisory lock of jetgate in this database."""

IS_HELD = f"""
    {OURS} and k.granted
    and k.pid = any(array(select session_pid from jetgate_store.lease_holder group by session_pid))
    and k.objid = h.lock_key and k.pid = h.session_pid
    and a.pid = h.session_pid and a.usesysid = h.session_role
"""
"""SQL condition: a lock `k` of a session `a` is the lock that a row `h` of `lease_holder` names.

`k` is a row of `pg_locks`, `a` of `pg_stat_activity`. The sessions of nodes are filtered first:
other sessions may have tens of thousands of locks, while PostgreSQL's planner expects one.
"""


def fresh_key() -> int:
    """Return an unpredictable random key from 1 to 2^31 - 1."""
    return 1 + secrets.randbelow(_KEYS)
