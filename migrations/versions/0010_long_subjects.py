"""Revision 0010: subjects of up to 65,535 arbitrary bytes, in a column for those too long to index.

No row is rewritten, so the migration takes equally long for any size. The views and functions for
SQL queries are replaced in place, with the same columns and grants.
"""

from migrations import sql_readers

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # Null unless `subject` is a digest (`core.storage.postgres.subjects`).
    'alter table jetgate_store.message add column long_subject text collate "C"',
    *sql_readers.READERS,
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0010; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
