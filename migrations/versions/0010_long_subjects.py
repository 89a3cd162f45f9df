"""Subjects of up to 65,535 bytes, and of any bytes: a column for texts too long for an index.

No row is rewritten, so the size of the tables does not matter. The views and functions of SQL
readers are replaced in place, with the same columns and grants.
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
    """Run the statements in order."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Refuse: revisions are forward only."""
    raise RuntimeError("jetgate's schema revisions are forward only")
