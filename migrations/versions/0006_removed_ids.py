"""The message ids of removed messages, for as long as the duplicate window lasts."""

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_HEADER = "'\\x0d0a4e6174732d4d73672d49643a'::bytea"  # CR LF "Nats-Msg-Id:"
_VALUE = f"substring(hdr from position({_HEADER} in hdr) + 14)"

STATEMENTS: tuple[str, ...] = (
    # A message that leaves before the duplicate window is over, by an acknowledgement, a limit or
    # whatever else, must not be stored again when its publisher repeats it. Its row goes, and takes
    # its id with it, so the statement that deletes rows keeps their ids, all in one row.
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
    # The value of the header, as `core.stream.headers.find` reads it; null: there is none.
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
    """Run the statements in order."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Refuse: revisions are forward only."""
    raise RuntimeError("jetgate's schema revisions are forward only")
