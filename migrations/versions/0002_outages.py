"""The storage outages of a node, in its row: `jetgate status` shows those of the last day."""

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # JSON: a list of objects with `began` (seconds since the epoch), `seconds` and `cause`.
    "alter table jetgate_store.node add column outages text not null default '[]'",
)


def upgrade() -> None:
    """Run the statements in order."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Refuse: revisions are forward only."""
    raise RuntimeError("jetgate's schema revisions are forward only")
