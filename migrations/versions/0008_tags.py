"""Revision 0008: columns for a node's tags, and for its numbers of lease groups and streams.

Tags restrict which nodes may lead a stream.
"""

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
    """Migrate the schema from the previous revision to 0008; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
