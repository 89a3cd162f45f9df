"""The tags of a node, used to place leaders, and its numbers of groups and streams, in its row."""

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # The numbers are those of the node's last heartbeat.
    """
    alter table jetgate_store.node
      add column tags         text[]  not null default '{}',
      add column lease_groups integer not null default 0,
      add column streams      integer not null default 0
    """,
)


def upgrade() -> None:
    """Run the statements in order."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Refuse: revisions are forward only."""
    raise RuntimeError("jetgate's schema revisions are forward only")
