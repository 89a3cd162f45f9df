"""The database schema and its history, run by `jetgate migrate` and at every start.

Revisions are forward only: a release may be rolled back by installing it again only while the
schema is still its own, which `core.storage.postgres.migrate` checks.
"""

HEAD = "0001"
