"""Revision 0003: a column for the offset of a node's clock from the database's clock."""

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # Seconds (positive: the node is ahead); null before the first measurement.
    "alter table jetgate_store.node add column clock_ahead float8",
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0003; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
