"""The schema: heads, streams, messages, consumers, purges, nodes, remotes, and SQL views.

There are two schemas. `jetgate_store` is internal and may change with any release; `jetgate` has
the public views, whose columns stay, and a function over one of them. Messages are in two
partitions (shelves): one for logs, one for streams that lose messages all the time.

Nothing here needs an extension, ICU, lz4 or a version newer than PostgreSQL 15.
Times are nanoseconds since the Unix epoch. Names and subjects collate "C": byte order,
whatever the locale of the database.
"""

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

# A shelf is vacuumed after 20,000 removals however large it is, and after 500,000 insertions, so
# that index-only scans find their pages marked visible.
_SHELF = """
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
    "create schema jetgate",
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
    # Row 0 is the head of the catalogue itself: whoever changes streams or consumers checks it.
    # Its `bytes` hold the token of the node that bumped the epochs last.
    "insert into jetgate_store.head values (0, 0, 0, 0, 0, 0, 0)",
    "create sequence jetgate_store.stream_number as integer",
    # The generated columns are for the views. JSON text may hold an escaped NUL, which PostgreSQL
    # cannot turn into text; it is read as the symbol for NUL.
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
    # `crc` is the CRC-32C of header block and payload; oid is the only unsigned 32-bit type.
    # Eight columns: with nulls the bitmap still fits into the spare byte of the tuple header.
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
    # four columns repeat what the state holds, for the view; the server does not read them.
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
    # Purges that are committed and whose rows are not all deleted yet.
    """
    create table jetgate_store.purge (
      stream    integer not null,
      n         integer not null,
      filters   text[] collate "C" not null,
      up_to_seq bigint not null,
      primary key (stream, n)
    )
    """,
    # How far the sources of a stream were copied, written in the transaction of the copies.
    f"""
    create table jetgate_store.source (
      stream   integer not null,
      key      text collate "C" not null,
      seq      bigint not null,
      identity text collate "C" not null,
      primary key (stream, key)
    ) with (fillfactor = 50, {_HOT})
    """,
    # The next due times of repeating schedules, written in the transaction of what they sent.
    f"""
    create table jetgate_store.schedule (
      stream  integer not null,
      subject text collate "C" not null,
      seq     bigint not null,
      due     bigint not null,
      primary key (stream, subject)
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


def _shelf(number: int) -> tuple[str, ...]:
    table = f"jetgate_store.message_{number}"
    return (
        f"create table {table} partition of jetgate_store.message for values in ({number})"
        f" with ({_SHELF})",
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
    # The functions of the views are declared as volatile and as strict as their bodies, for only
    # such functions are inlined, and a call that is not costs five microseconds a row.
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
    # Bytes as text where they are well-formed UTF-8 without NUL, else null. Reading them as
    # LATIN1 turns every byte into one character, so that a regular expression can judge them
    # without an exception block, which would forbid parallel plans. Plain ASCII without a
    # backslash is its own escape form, and twenty times faster to recognise so.
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
    # The TTL of a message in nanoseconds: null if it has none, -1 for never. Only for the views;
    # the server parses the header itself.
    """
    create function jetgate_store.ttl(hdr bytea) returns numeric
    language plpgsql immutable parallel safe as $$
    declare
      part_of constant text := '([0-9.]+)(ns|us|\\\\302\\\\265s|\\\\316\\\\274s|ms|s|m|h)';
      value text;
      part text[];
      total numeric := 0;
    begin
      value := substring(encode(hdr, 'escape') from E'\\r\\nNats-TTL: *([^\\r]*)\\r\\n');
      if lower(value) = 'never' then
        return -1;
      elsif value ~ '^[0-9]+$' then
        total := value::numeric % 18446744073709551616;
      elsif value ~ ('^[+]?(' || part_of || ')+$') then
        for part in select regexp_matches(value, part_of, 'g') loop
          total := total + part[1]::numeric * case part[2]
            when 'ns' then 0.000000001 when 'ms' then 0.001 when 's' then 1
            when 'm' then 60 when 'h' then 3600 else 0.000001 end;
        end loop;
      end if;
      return nullif(floor(total), 0) * 1000000000;
    end
    $$
    """,
    """
    create function jetgate_store.has_expired(
      ts bigint, hdr bytea, max_age bigint, at bigint
    ) returns boolean language plpgsql immutable parallel safe as $$
    declare
      ttl numeric := case when position('Nats-TTL:'::bytea in hdr) > 0
                          then jetgate_store.ttl(hdr) end;
    begin
      if ttl < 0 then
        return false;
      end if;
      return coalesce(ts + ttl <= at, false) or (max_age > 0 and ts <= at - max_age);
    end
    $$
    """,
    # The search for the first message at or after a time. Times never decrease within a stream,
    # so that halving the range of sequences replaces an index on time.
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

_VIEW_STREAMS = """
create view jetgate.streams as
select s.name, s.account,
       h.msgs as messages, h.bytes, h.first_seq, h.last_seq,
       case when h.last_ts > 0 then jetgate_store.instant(h.last_ts) end as last_time,
       (select count(*) from jetgate_store.consumer c where c.stream = s.stream) as consumers,
       jetgate_store.instant(s.created) as created,
       replace(s.config, '\\u0000', '\\u2400')::json as config
  from jetgate_store.stream s
  join jetgate_store.head h on h.stream = s.stream
"""

_MESSAGE_COLUMNS = """
       m.seq, m.subject, jetgate_store.instant(m.ts) as time,
       jetgate_store.utf8_or_null(m.hdr) as headers,
       jetgate_store.utf8_or_null(m.data) as text,
       m.data, octet_length(m.data) as size, m.ts, m.crc
"""

_IS_THERE = """
       m.seq >= h.first_seq and m.seq <= h.last_seq
   and case
         when s.allow_msg_ttl then not jetgate_store.has_expired(
           m.ts, m.hdr, s.max_age, (extract(epoch from now()) * 1000000000)::bigint)
         else s.max_age <= 0
           or m.ts > (extract(epoch from now()) * 1000000000)::bigint - s.max_age
       end
   and not exists (
         select from jetgate_store.purge p, unnest(p.filters) as f(filter)
          where p.stream = m.stream and m.seq <= p.up_to_seq
            and jetgate_store.subject_matches(f.filter, m.subject))
"""

# In a stream with max_msgs_per_subject, rows beyond that limit may still wait for their deletion.
# Finding them needs every row of the stream, so these streams have a branch of their own; its
# window is partitioned by columns of the view, so that conditions on them are pushed down.
_VIEW_MESSAGES = f"""
create view jetgate.messages as
select s.name as stream, s.account, {_MESSAGE_COLUMNS}
  from jetgate_store.stream s
  join jetgate_store.head h on h.stream = s.stream
  join jetgate_store.message m on m.stream = s.stream
 where s.max_msgs_per_subject <= 0 and {_IS_THERE}
union all
select stream, account, seq, subject, time,
       jetgate_store.utf8_or_null(hdr), jetgate_store.utf8_or_null(data),
       data, size, ts, crc
  from (
    select s.name as stream, s.account, m.seq, m.subject, jetgate_store.instant(m.ts) as time,
           m.hdr, m.data, octet_length(m.data) as size, m.ts, m.crc,
           s.max_msgs_per_subject as keep,
           row_number() over (partition by s.name, s.account, m.subject order by m.seq desc) as age,
           ({_IS_THERE}) as is_there
      from jetgate_store.stream s
      join jetgate_store.head h on h.stream = s.stream
      join jetgate_store.message m on m.stream = s.stream
     where s.max_msgs_per_subject > 0 and m.seq <= h.last_seq) as ranked
 where age <= keep and is_there
"""

# Through the view the planner cannot know that a name is one stream, so it would read and sort all
# of its messages. Here the newest are found from the end of the index. With max_msgs_per_subject,
# the check for newer messages of the subject is cheap, because those were just read.
_LATEST = f"""
create function jetgate.latest(stream text, count integer default 10)
returns setof jetgate.messages language sql stable parallel safe rows 10 as $$
  select newest.*
    from jetgate_store.stream s
    join jetgate_store.head h on h.stream = s.stream
    cross join lateral (
      select s.name, s.account, {_MESSAGE_COLUMNS}
        from jetgate_store.message m
       where m.stream = s.stream and m.shelf = s.shelf and {_IS_THERE}
         and (s.max_msgs_per_subject <= 0 or s.max_msgs_per_subject > (
               select count(*) from (
                 select from jetgate_store.message n
                  where n.stream = m.stream and n.shelf = m.shelf and n.subject = m.subject
                    and n.seq > m.seq and n.seq <= h.last_seq
                  limit s.max_msgs_per_subject) as newer))
       order by m.seq desc
       limit latest.count) as newest
   where s.name = latest.stream collate "C"
   order by newest.seq desc
   limit latest.count
$$
"""

_VIEW_CONSUMERS = """
create view jetgate.consumers as
select s.name as stream, s.account, c.name,
       c.delivered_stream_seq, c.ack_floor_stream_seq, c.ack_pending, c.redelivered,
       jetgate_store.instant(c.created) as created,
       replace(c.config, '\\u0000', '\\u2400')::json as config
  from jetgate_store.consumer c
  join jetgate_store.stream s on s.stream = c.stream
"""

_COMMENTS = (
    "comment on view jetgate.streams is 'One row per stream, with its size and configuration.'",
    "comment on view jetgate.messages is 'Every message that is there, as NATS clients see it.'",
    "comment on function jetgate.latest is 'The newest messages of a stream, newest first.'",
    "comment on view jetgate.consumers is 'One row per consumer, as of its last saved state.'",
)

STATEMENTS = (
    *_TABLES,
    *_shelf(0),
    *_shelf(1),
    *_CONSUMERS,
    *_FUNCTIONS,
    _VIEW_STREAMS,
    _VIEW_MESSAGES,
    _LATEST,
    _VIEW_CONSUMERS,
    *_COMMENTS,
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
            "source",
            "schedule",
            "node",
        )
    ),
)


def upgrade() -> None:
    """Run the statements in order."""
    from alembic import op  # a new database gets STATEMENTS without it

    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Refuse: revisions are forward only."""
    raise RuntimeError("jetgate's schema revisions are forward only")
