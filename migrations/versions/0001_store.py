"""Revision 0001, the first: heads, streams, messages, consumers, purges, nodes, remotes.

A head is the row with the sequences, size and epoch of a stream. There are two schemas.
`jetgate_store` is internal and may change with any release. `jetgate` has the public views and
functions, whose columns do not change (a later revision creates them). Messages are in two
partitions: one for logs, one for streams from which messages are removed all the time.

No statement needs an extension, ICU, lz4 or a version newer than PostgreSQL 15. Times are
nanoseconds since the Unix epoch. Names and subjects have the collation "C": byte order, independent
of the locale of the database.
"""

from migrations import sql_readers

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# For rows that every commit updates: free space on the page keeps updates heap-only (HOT), and
# vacuum runs by the number of dead rows, because a scale factor is useless for a few rows.
_HOT = """
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000
"""

# A partition is vacuumed after 20,000 removals, independent of its size, and after 500,000
# insertions, so that index-only scans find pages marked all-visible.
_PARTITION_OPTIONS = """
  toast_tuple_target = 8160,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 500000,
  autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000,
  toast.autovacuum_vacuum_insert_scale_factor = 0,
  toast.autovacuum_vacuum_insert_threshold = 500000,
  toast.autovacuum_vacuum_cost_delay = 0
"""

_TABLES = (
    f"""
    create table jetgate_store.head (
      stream    integer primary key,
      epoch     bigint not null,
      first_seq bigint not null,
      last_seq  bigint not null,
      last_ts   bigint not null,
      msgs      bigint not null,
      bytes     bigint not null
    ) with (fillfactor = 20, {_HOT})
    """,
    # Row 0 is the head of the stream directory itself. Its `last_seq` counts the changes: the
    # version of the stream directory.
    "insert into jetgate_store.head values (0, 0, 0, 0, 0, 0, 0)",
    "create sequence jetgate_store.stream_number as integer",
    # The generated columns are for the views. JSON text may contain an escaped NUL, which
    # PostgreSQL cannot convert to text; it is read as the symbol for NUL.
    """
    create table jetgate_store.stream (
      stream        integer primary key default nextval('jetgate_store.stream_number'),
      account       text collate "C" not null,
      name          text collate "C" not null,
      shelf         integer not null,
      created       bigint not null,
      next_consumer integer not null default 1,
      dropped       boolean not null default false,
      config        text collate "C" not null,
      max_age bigint not null generated always as (
        coalesce((replace(config, '\\u0000', '\\u2400')::json ->> 'max_age')::bigint, 0)
      ) stored,
      allow_msg_ttl boolean not null generated always as (
        coalesce((replace(config, '\\u0000', '\\u2400')::json ->> 'allow_msg_ttl')::boolean, false)
      ) stored,
      max_msgs_per_subject bigint not null generated always as (
        coalesce(
          (replace(config, '\\u0000', '\\u2400')::json ->> 'max_msgs_per_subject')::bigint, 0)
      ) stored,
      unique (account, name)
    )
    """,
    # `crc` is the CRC-32C of header block and payload; oid is the only unsigned 32-bit type. With
    # eight columns the null bitmap still fits into the spare byte of the tuple header.
    """
    create table jetgate_store.message (
      seq     bigint not null,
      ts      bigint not null,
      stream  integer not null,
      shelf   integer not null,
      crc     oid not null,
      subject text collate "C" not null,
      hdr     bytea,
      data    bytea not null
    ) partition by list (shelf)
    """,
    "alter table jetgate_store.message alter column data set storage external",
    "alter table jetgate_store.message alter column hdr set storage external",
)

_CONSUMERS = (
    # The state is updated up to twenty times a second, so there is no index but the keys. The last
    # four columns repeat values of the state, for the view; the server does not read them.
    f"""
    create table jetgate_store.consumer (
      stream   integer not null,
      consumer integer not null,
      name     text collate "C" not null,
      created  bigint not null,
      epoch    bigint not null,
      config   text collate "C" not null,
      state    bytea,
      delivered_stream_seq bigint not null default 0,
      ack_floor_stream_seq bigint not null default 0,
      ack_pending          bigint not null default 0,
      redelivered          bigint not null default 0,
      primary key (stream, consumer),
      unique (stream, name)
    ) with (fillfactor = 50, {_HOT})
    """,
    "alter table jetgate_store.consumer alter column state set storage external",
    # Committed purges whose rows are not all deleted yet.
    """
    create table jetgate_store.purge (
      stream    integer not null,
      n         integer not null,
      filters   text[] collate "C" not null,
      up_to_seq bigint not null,
      primary key (stream, n)
    )
    """,
    # Rows that newer ones of their subjects replace and that are not deleted yet: one row per
    # commit that replaces some. Only SQL readers need it; a leader derives it from the rows.
    """
    create table jetgate_store.replaced (
      stream integer not null,
      n      bigint not null,
      seqs   bigint[] not null
    ) with (
      toast_tuple_target = 8160,
      autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
      autovacuum_vacuum_cost_delay = 0,
      toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000,
      toast.autovacuum_vacuum_cost_delay = 0
    )
    """,
    "alter table jetgate_store.replaced alter column seqs set storage external",
    "create index replaced_stream on jetgate_store.replaced (stream, n)",
    # The position in each source of a stream, written in the transaction of the sourced messages.
    f"""
    create table jetgate_store.source (
      stream   integer not null,
      key      text collate "C" not null,
      seq      bigint not null,
      identity text collate "C" not null,
      primary key (stream, key)
    ) with (fillfactor = 50, {_HOT})
    """,
    # The next due times of repeating schedules, written in the transaction of the messages that the
    # schedules publish.
    f"""
    create table jetgate_store.schedule (
      stream  integer not null,
      subject text collate "C" not null,
      seq     bigint not null,
      due     bigint not null,
      primary key (stream, subject)
    ) with (fillfactor = 50, {_HOT})
    """,
    # The stored batches of each app, written in the transaction of their rows. Manifest and stop
    # are JSON. A batch without a manifest is complete. The row of the app "" has the highest token
    # of deleted apps.
    f"""
    create table jetgate_store.ledger (
      stream     integer not null,
      app        text collate "C" not null,
      token      bigint not null,
      run        text collate "C" not null,
      past       text not null,
      keep       bigint not null,
      changed    bigint not null,
      batch      bigint,
      manifest   text,
      rows       bigint not null,
      promoted   bigint not null,
      duplicates bigint not null,
      first_seq  bigint not null,
      last_seq   bigint not null,
      place      bigint[] not null,
      stop       text,
      primary key (stream, app)
    ) with (fillfactor = 50, {_HOT})
    """,
    # Secret keys that all nodes share: 32 bytes, 244 bits of them random (two UUIDs).
    """
    create table jetgate_store.secret (
      name  text collate "C" primary key,
      value bytea not null
    )
    """,
    """
    insert into jetgate_store.secret
    values ('ack-tokens', uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
    """,
    "revoke all on jetgate_store.secret from public",
    f"""
    create table jetgate_store.node (
      node        text collate "C" primary key,
      session_pid integer not null,
      started     timestamptz not null,
      seen        timestamptz not null,
      nats        text not null default '',
      http        text not null default ''
    ) with (fillfactor = 20, {_HOT})
    """,
    # Other NATS systems; the columns from `connected` on are written by the leading node.
    """
    create table jetgate_store.remote (
      name      text collate "C" primary key,
      url       text not null,
      creds     text not null default '',
      connected boolean not null default false,
      server    text not null default '',
      rtt_ns    bigint not null default 0,
      error     text not null default '',
      relays    integer not null default 0,
      told      timestamptz
    )
    """,
)


def _partition(number: int) -> tuple[str, ...]:
    table = f"jetgate_store.message_{number}"
    return (
        f"create table {table} partition of jetgate_store.message for values in ({number})"
        f" with ({_PARTITION_OPTIONS})",
        f"alter table {table} alter column data set storage external",
        f"alter table {table} alter column hdr set storage external",
        f"create unique index message_{number}_seq on {table} (stream, seq) include (subject)",
    )


_FENCE = """
create function jetgate_store.fence(
  streams integer[], epochs bigint[], lasts bigint[], new_lasts bigint[],
  firsts bigint[], ts bigint[], msgs bigint[], bytes bigint[]
) returns void language plpgsql as $$
declare
  hit integer;
begin
  update jetgate_store.head h
     set last_seq = x.new_last, first_seq = x.first, last_ts = x.ts, msgs = x.msgs, bytes = x.bytes
    from unnest(fence.streams, fence.epochs, fence.lasts, fence.new_lasts, fence.firsts,
                fence.ts, fence.msgs, fence.bytes)
      as x(stream, epoch, last, new_last, first, ts, msgs, bytes)
   where h.stream = x.stream and h.epoch = x.epoch and h.last_seq = x.last;
  get diagnostics hit = row_count;
  if hit <> cardinality(streams) then
    raise exception using errcode = 'JG001',
      message = format('fenced: %s of %s heads are where the writer left them',
                       hit, cardinality(streams));
  end if;
end
$$
"""

_FUNCTIONS = (
    _FENCE,
    """
    create function jetgate_store.record_replaced(stream integer, n bigint, seqs bigint[])
    returns void language plpgsql as $$
    begin
      insert into jetgate_store.replaced values (stream, n, seqs);
    end
    $$
    """,
    # The functions of the views have the volatility and strictness of their bodies, because only
    # such functions are inlined; a call that is not inlined costs five microseconds a row.
    # Wildcards count only as whole tokens: `*` is one token, a last `>` one or more.
    r"""
    create function jetgate_store.subject_regex(filter text) returns text
    language sql immutable strict parallel safe
    return (
      select '^' || string_agg(
               case when token = '*' then '[^.]+'
                    when token = '>' and place = count then '.+'
                    else regexp_replace(token, '([\\^$.|?*+()\[\]{}])', '\\\1', 'g')
               end, '\.' order by place) || '$'
        from (select token, place, count(*) over () as count
                from string_to_table(filter, '.') with ordinality as t(token, place)) as tokens
    )
    """,
    r"""
    create function jetgate_store.subject_matches(filter text, subject text) returns boolean
    language sql immutable parallel safe
    return case
      when filter ~ '(^|\.)[*>](\.|$)'
        then (subject collate "C") ~ (jetgate_store.subject_regex(filter) collate "C")
      else (subject collate "C") = (filter collate "C")
    end
    """,
    # Bytes as text if they are well-formed UTF-8 without NUL, else null. Reading them as LATIN1
    # turns every byte into one character. A regular expression can then validate them without an
    # exception block, which would forbid parallel plans. Plain ASCII without a backslash is its own
    # escape form, and recognised twenty times faster that way.
    r"""
    create function jetgate_store.utf8_or_null(bytes bytea) returns text
    language sql stable parallel safe
    return case
      when octet_length(encode(bytes, 'escape')) = octet_length(bytes)
        then convert_from(bytes, 'UTF8')
      when position('\x00'::bytea in bytes) > 0 then null
      when (convert_from(bytes, 'LATIN1') collate "C") ~ ('^(?:[\u0001-\u007f]'
        || '|[\u00c2-\u00df][\u0080-\u00bf]'
        || '|\u00e0[\u00a0-\u00bf][\u0080-\u00bf]'
        || '|[\u00e1-\u00ec\u00ee\u00ef][\u0080-\u00bf]{2}'
        || '|\u00ed[\u0080-\u009f][\u0080-\u00bf]'
        || '|\u00f0[\u0090-\u00bf][\u0080-\u00bf]{2}'
        || '|[\u00f1-\u00f3][\u0080-\u00bf]{3}'
        || '|\u00f4[\u0080-\u008f][\u0080-\u00bf]{2})*$')
        then convert_from(bytes, 'UTF8')
    end
    """,
    """
    create function jetgate_store.instant(ns bigint) returns timestamptz
    language sql stable parallel safe
    return timestamptz '1970-01-01 00:00:00+00' + (ns / 1000) * interval '1 microsecond'
    """,
    # The sequence of the first message at or after a time. Times never decrease within a stream, so
    # a binary search over sequences replaces an index on time.
    """
    create function jetgate_store.first_at(of_stream integer, low bigint, high bigint, at bigint)
    returns bigint language plpgsql stable parallel safe as $$
    declare
      middle bigint;
      found_seq bigint;
      found_ts bigint;
    begin
      while low < high loop
        middle := low + (high - low) / 2;
        select m.seq, m.ts into found_seq, found_ts from jetgate_store.message m
         where m.stream = of_stream and m.seq >= middle order by m.seq limit 1;
        if found_seq is null or found_seq >= high then
          high := middle;
        elsif found_ts >= at then
          high := middle;
        else
          low := found_seq + 1;
        end if;
      end loop;
      return low;
    end
    $$
    """,
)

STATEMENTS = (
    *_TABLES,
    *_partition(0),
    *_partition(1),
    *_CONSUMERS,
    *_FUNCTIONS,
    sql_readers.GRANTS,
    # A table without statistics is planned as if it were large or empty at random.
    *(
        f"analyze jetgate_store.{table}"
        for table in (
            "head",
            "stream",
            "message_0",
            "message_1",
            "consumer",
            "purge",
            "replaced",
            "source",
            "schedule",
            "ledger",
            "node",
            "reader_grant",
        )
    ),
)


def upgrade() -> None:
    """Create the schema of the first revision; called by Alembic."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Raise RuntimeError: a schema is never migrated to an older revision."""
    raise RuntimeError("jetgate's schema revisions are forward only")
