"""Which session holds the advisory lock of each lease group, and under which key."""

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # Any role that may connect can lock any key. So a lock counts only for the session that is
    # named here, in a table that no other role may write, and each acquisition has a key of its
    # own: nobody can hold one before a node does, and who waits for one gets what nobody asks for
    # any more. `session_role` tells a node from who has got its process id later.
    """
    create table jetgate_store.lease_holder (
      lease_group  smallint primary key check (lease_group between 0 and 255),
      lock_key     oid not null default 0,
      session_pid  integer not null default 0,
      session_role oid not null default 0
    ) with (fillfactor = 50)
    """,
    # Locks of `pg_locks` are looked up here, of which a planner knows no number.
    "create index lease_holder_lock_key on jetgate_store.lease_holder (lock_key)",
    "insert into jetgate_store.lease_holder (lease_group) select generate_series(0, 255)",
    "analyze jetgate_store.lease_holder",
)


def upgrade() -> None:
    """Run the statements in order."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Refuse: revisions are forward only."""
    raise RuntimeError("jetgate's schema revisions are forward only")
