"""Revision 0005: lease groups of streams, their owners, and ids of requests that create streams.

A node that owns a lease group leads the streams of the group.
"""

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # A later stream gets the group with the fewest streams when it is created. `creation` is the id
    # of the request that created a row: a repeated attempt changes only rows with its own id. It is
    # 0 once the request has ended.
    """
    alter table jetgate_store.stream
      add column lease_group smallint check (lease_group between 0 and 255),
      add column creation    bigint not null default 0
    """,
    "update jetgate_store.stream set lease_group = stream % 256",
    "alter table jetgate_store.stream alter column lease_group set not null",
    "create index stream_lease_group on jetgate_store.stream (lease_group) where not dropped",
    "alter table jetgate_store.consumer add column creation bigint not null default 0",
    # The directory version that last changed a stream, and the number of changes of its consumers.
    # A node that follows the directory queries versions above its own. Deleted streams are listed
    # for the last ten thousand versions.
    """
    alter table jetgate_store.stream
      add column version          bigint not null default 0,
      add column consumer_changes bigint not null default 0
    """,
    "create index stream_version on jetgate_store.stream (version)",
    """
    create table jetgate_store.deletion (
      version bigint primary key,
      stream  integer not null
    )
    """,
    # The owner of each group, for operators and other nodes to read. Commits do not depend on it:
    # they check the epoch in the head of each stream. The token is the owner's fencing token, a
    # random number: while it is unchanged, no other node has acquired the group.
    """
    create table jetgate_store.lease (
      lease_group smallint primary key check (lease_group between 0 and 255),
      token       bigint not null default 0,
      node        text collate "C" not null default '',
      since       timestamptz
    ) with (fillfactor = 50)
    """,
    "insert into jetgate_store.lease (lease_group) select generate_series(0, 255)",
    # In earlier releases this column contained the only fencing token.
    "update jetgate_store.head set bytes = 0 where stream = 0",
    "analyze jetgate_store.lease",
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0005; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
