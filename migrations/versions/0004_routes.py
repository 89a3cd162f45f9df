"""Revision 0004: columns for a node's link address and links, and a secret shared by the nodes."""

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS: tuple[str, ...] = (
    # A port of 0: the node accepts no routes.
    """
    alter table jetgate_store.node
      add column server_id  text    not null default '',
      add column version    text    not null default '',
      add column route_host text    not null default '',
      add column route_port integer not null default 0,
      add column links      text[]  not null default '{}'
    """,
    """
    insert into jetgate_store.secret
    values ('routes', uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
    """,
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0004; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
