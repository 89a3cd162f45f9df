"""The advisory locks of jetgate in a database: one class, one number per purpose."""

LOCK_CLASS = 0x6A67
LEASE_GROUPS = 256
"""Lease groups, and their locks, are the numbers from 0 to below this."""
MIGRATION_LOCK = -1
PROBE_LOCK = -2
"""Taken for a moment to find out whether there is a connection pooler."""
TRIAL_LOCKS = range(-(2**31), PROBE_LOCK)
"""One of them, by chance, is taken for a moment to find out whether locks exclude."""
BUMPS_IN_TURN = "lock table jetgate_store.lease in share row exclusive mode"
"""Who gives epochs takes this first, before any row; rows can be read, and kept, meanwhile."""
