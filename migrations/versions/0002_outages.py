"""Revision 0002: a column for the storage outages of a node, shown by `jetgate status`."""

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # JSON: a list of objects with `began` (seconds since the epoch), `seconds` and `cause`.
    "alter table jetgate_store.node add column outages text not null default '[]'",
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0002; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
