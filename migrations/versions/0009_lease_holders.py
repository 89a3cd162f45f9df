"""Revision 0009: a table for session and key of the advisory lock of each lease group.

A lease group is a set of streams that one node leads; the node holds the lock in its session."""

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # Any role that may connect can lock any key. So a lock counts only for the session named here,
    # in a table that no other role may write. Each acquisition has a fresh key: no other session
    # can lock it before the node, and one that waits for a key gets a key that is no longer used.
    # `session_role` distinguishes a node from a later session with the same process id.
    """
    create table jetgate_store.lease_holder (
      lease_group  smallint primary key check (lease_group between 0 and 255),
      lock_key     oid not null default 0,
      session_pid  integer not null default 0,
      session_role oid not null default 0
    ) with (fillfactor = 50)
    """,
    # Locks of `pg_locks`, whose number the planner does not know, are looked up here.
    "create index lease_holder_lock_key on jetgate_store.lease_holder (lock_key)",
    "insert into jetgate_store.lease_holder (lease_group) select generate_series(0, 255)",
    "analyze jetgate_store.lease_holder",
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0009; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
