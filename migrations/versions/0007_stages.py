"""Revision 0007: each transaction's staging stream gets the lease group of its target stream.

A node that owns a lease group leads its streams. So one node leads both streams of a
transaction."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # The leader of the target stream reads the staged rows, so one node must lead both streams.
    """
    update jetgate_store.stream s set lease_group = t.lease_group
      from jetgate_store.stream t
     where t.account = s.account and s.name = 'JG_STAGE_' || t.name
       and t.lease_group <> s.lease_group and not s.dropped and not t.dropped
    """,
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0007; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
