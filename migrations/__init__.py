"""The database schema and its history, run by `jetgate migrate` and at every start.

Revisions are forward only: an older release can be installed again only if the schema has not been
migrated since, which `core.storage.postgres.migrate` checks.
"""

HEAD = "0010"
SCHEMAS = ("jetgate_store", "jetgate")
"""The schemas; the first revision creates those that do not exist."""
