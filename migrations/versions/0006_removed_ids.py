"""Revision 0006: a table for the message ids of removed messages, for the duplicate window."""

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_HEADER = "'\\x0d0a4e6174732d4d73672d49643a'::bytea"  # CR LF "Nats-Msg-Id:"
_VALUE = f"substring(hdr from position({_HEADER} in hdr) + 14)"

STATEMENTS: tuple[str, ...] = (
    # A message may be removed within the duplicate window, by an acknowledgement, a limit or
    # otherwise. It must not be stored again when its publisher repeats it. The deletion of its row
    # would lose its id, so the deleting statement keeps the ids of its rows, all in one row.
    """
    create table jetgate_store.removed_ids (
      stream    integer not null,
      first_seq bigint not null,
      last_seq  bigint not null,
      last_ts   bigint not null,
      seqs      bigint[] not null,
      times     bigint[] not null,
      ids       bytea[] not null
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
    """,
    *(
        f"alter table jetgate_store.removed_ids alter {column} set storage external"
        for column in ("seqs", "times", "ids")
    ),
    "create index removed_ids_stream on jetgate_store.removed_ids (stream, last_ts)",
    # The value of the header, as `core.rules.stream.headers.find` reads it; null if there is none.
    f"""
    create function jetgate_store.message_id(hdr bytea) returns bytea
    language sql immutable parallel safe as $$
      select case when position({_HEADER} in hdr) > 0 then
        nullif(ltrim(substring({_VALUE} for position('\\x0d0a'::bytea in {_VALUE}) - 1), ' '), '')
      end
    $$
    """,
)


def upgrade() -> None:
    """Migrate the schema from the previous revision to 0006; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
