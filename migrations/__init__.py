"""The database schema as a series of revisions, which `jetgate migrate` and every start apply.

There is no way back to an older revision. An older release runs only if the schema was not migrated
since; `core.storage.postgres.migrate` checks this.
"""

HEAD = "0010"
SCHEMAS = ("jetgate_store", "jetgate")
"""Names of the schemas; the first revision creates the missing ones."""
