"""The SQL interface for reading streams: views of the schema `jetgate`, and their functions.

A query sees the messages that NATS clients see at the same moment, of the streams that its role may
read. docs/sql.md describes the views; their columns do not change.

The functions in the schema `jetgate_store` run with the rights of its owner and do not check the
role of the caller. Roles that read streams have no rights on this schema. They call its functions
only through the views and functions of `jetgate`, which check the role.
"""

_SUBJECT = "coalesce(m.long_subject, m.subject)"
"""SQL expression of the subject of a message `m` as text (`core.storage.postgres.subjects`)."""
_NOW = "(extract(epoch from now()) * 1000000000)::bigint"

# The streams that each role may read. A role with the rights of the tables' owner may read all.
GRANTS = """
create table jetgate_store.reader_grant (
  role    text collate "C" not null,
  account text collate "C" not null,
  stream  text collate "C" not null,
  primary key (role, account, stream)
)
"""

_IS_VISIBLE = """
      (pg_has_role(current_user,
         (select relowner from pg_class where oid = 'jetgate_store.stream'::regclass), 'usage')
       or exists (
         select from jetgate_store.reader_grant g
          where g.account = s.account and g.stream in (s.name, '*')
            and pg_has_role(current_user, to_regrole(quote_ident(g.role)), 'usage')))
"""

# The state that decides which rows of a stream exist for clients: one row per stream. `distinct`
# makes it a subquery that keeps its result: it is computed once per statement, with any join order
# and any estimate of the number of messages by the planner.
STATE = f"""
  select distinct s.stream, s.shelf, s.name, s.account, s.created, h.first_seq, h.last_seq,
         h.last_ts, h.msgs, h.bytes, s.max_msgs_per_subject, s.allow_msg_ttl, {_NOW} as now,
         case when s.max_age > 0 then {_NOW} - s.max_age end as cutoff,
         s.max_age <= 0 and not s.allow_msg_ttl
           and not exists (select from jetgate_store.replaced d where d.stream = s.stream)
           and not exists (select from jetgate_store.purge p where p.stream = s.stream) as is_plain,
         (select array_agg(u.seq order by u.seq)
            from jetgate_store.replaced d, unnest(d.seqs) as u(seq)
           where d.stream = s.stream) as replaced,
         (select coalesce(max(p.up_to_seq), 0)
            from jetgate_store.purge p where p.stream = s.stream) as purged_to
    from jetgate_store.stream s
    join jetgate_store.head h on h.stream = s.stream
   where not s.dropped
"""

# Condition: a row `m` exists for clients, by the state `r` of its stream. Cheap tests come first,
# and features that a stream lacks (records of replaced rows, purges, ages, TTLs) are not tested row
# by row. It is one expression because the planner estimates that a condition keeps half of the
# rows: with several conditions it would sort a page instead of reading it in index order.
IS_THERE = f"""
  case
    when m.seq < r.first_seq or m.seq > r.last_seq then false
    when r.is_plain then true
    when r.replaced[width_bucket(m.seq, r.replaced)] = m.seq then false
    when coalesce(m.seq <= r.purged_to, false) and exists (
      select from jetgate_store.purge p, unnest(p.filters) as f(filter)
       where p.stream = m.stream and m.seq <= p.up_to_seq
         and jetgate_store.subject_matches(f.filter, {_SUBJECT})) then false
    when r.allow_msg_ttl and position('\\x0d0a4e6174732d54544c3a'::bytea in m.hdr) > 0
      then not jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now)
    when m.ts <= r.cutoff then false
    else true
  end
"""

_RAW = f"""m.seq, {_SUBJECT} as subject, m.ts, m.hdr as headers, m.data,
         octet_length(m.data) as size, m.crc::bigint as crc"""

_FUNCTIONS = (
    # The TTL of a message in nanoseconds: null if it has none, -1 for never. Only for the views;
    # the server parses the header itself.
    """
    create or replace function jetgate_store.ttl(hdr bytea) returns numeric
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
    create or replace function jetgate_store.has_expired_by(
      ts bigint, hdr bytea, cutoff bigint, now bigint
    ) returns boolean language plpgsql immutable parallel safe as $$
    declare
      ttl numeric := jetgate_store.ttl(hdr);
    begin
      if ttl < 0 then
        return false;
      end if;
      return coalesce(ts + ttl <= now, false) or coalesce(ts <= cutoff, false);
    end
    $$
    """,
    # The first bytes of a message's TTL header, up to the end of its line.
    """
    create or replace function jetgate_store.ttl_text(hdr bytea) returns text
    language sql immutable parallel safe
    return split_part(
      encode(substring(hdr from position('\\x0d0a4e6174732d54544c3a'::bytea in hdr) + 11 for 11),
             'escape'), E'\\r', 1)
    """,
    # Equal to has_expired_by for a message with a TTL header, but fast for the common form, a
    # number of seconds: PostgreSQL inlines it, and it needs no regular expressions.
    """
    create or replace function jetgate_store.has_expired(
      ts bigint, hdr bytea, cutoff bigint, now bigint
    ) returns boolean language sql immutable parallel safe
    return case
      when ts > coalesce(cutoff, 0) and octet_length(jetgate_store.ttl_text(hdr)) <= 10
           and translate(ltrim(jetgate_store.ttl_text(hdr)), '0123456789', '') = ''
        then coalesce(ts + 1000000000 * nullif(
          nullif(ltrim(jetgate_store.ttl_text(hdr)), '')::bigint, 0) <= now, false)
      else jetgate_store.has_expired_by(ts, hdr, cutoff, now)
    end
    """,
    # The first sequence at or after a given one whose message exists for clients; null if none.
    f"""
    create or replace function jetgate_store.first_there(of_stream integer, from_seq bigint)
    returns bigint language sql stable parallel safe security definer
    set search_path = pg_catalog, pg_temp
    begin atomic
      select found.seq
        from ({STATE} and s.stream = of_stream) as r
        cross join lateral (
          select m.seq from jetgate_store.message m
           where m.stream = r.stream and m.shelf = r.shelf
             and m.seq >= greatest(r.first_seq, from_seq) and {IS_THERE}
           order by m.seq limit 1) as found;
    end
    """,
    """
    create or replace function jetgate_store.first_seq(
      of_stream integer, h_first bigint, h_last bigint, h_msgs bigint
    ) returns bigint language sql stable parallel safe
    return case
      when h_msgs > 0 then coalesce(jetgate_store.first_there(of_stream, h_first), h_last + 1)
      when h_first = 0 then 0
      else h_last + 1
    end
    """,
    """
    create or replace function jetgate_store.seq_at(of_stream integer, ns bigint)
    returns bigint language sql stable parallel safe security definer
    set search_path = pg_catalog, pg_temp
    begin atomic
      select coalesce(
               jetgate_store.first_there(
                 of_stream,
                 jetgate_store.first_at(of_stream, h.first_seq, h.last_seq + 1, ns)),
               h.last_seq + 1)
        from jetgate_store.head h where h.stream = of_stream;
    end
    """,
    # The time at which the first message after a sequence was stored.
    """
    create or replace function jetgate_store.ts_after(of_stream integer, after bigint)
    returns bigint language sql stable parallel safe security definer
    set search_path = pg_catalog, pg_temp
    begin atomic
      select m.ts from jetgate_store.message m
       where m.stream = of_stream and m.seq = jetgate_store.first_there(of_stream, after + 1);
    end
    """,
    f"""
    create or replace function jetgate_store.newest(of_stream integer, count integer)
    returns table (seq bigint, subject text, ts bigint, headers bytea, data bytea, size integer,
                   crc bigint)
    language sql stable parallel safe security definer rows 10
    set search_path = pg_catalog, pg_temp
    begin atomic
      select found.*
        from ({STATE} and s.stream = of_stream) as r
        cross join lateral (
          select {_RAW} from jetgate_store.message m
           where m.stream = r.stream and m.shelf = r.shelf and {IS_THERE}
           order by m.seq desc limit count) as found;
    end
    """,
)

# SQL expression of the subject as text, read from the index alone unless the subject is long.
_INDEXED_SUBJECT = """
  case when m.subject ^@ '  ' then jetgate_store.long_subject(m.stream, m.shelf, m.seq)
       else m.subject end"""

_LONG_SUBJECT = """
create or replace function jetgate_store.long_subject(of_stream integer, of_shelf integer,
                                                      of_seq bigint)
returns text language sql stable parallel safe
begin atomic
  select m.long_subject from jetgate_store.message m
   where m.stream = of_stream and m.shelf = of_shelf and m.seq = of_seq;
end
"""
# The last message of each subject. With max_msgs_per_subject 1, this is every message. Otherwise
# the index alone gives the sequences, if no message has a TTL of its own.
_LAST_THERE = f"""
create or replace function jetgate_store.last_there(of_stream integer, filter text, up_to bigint)
returns table (seq bigint, subject text, ts bigint, headers bytea, data bytea, size integer,
               crc bigint)
language plpgsql stable parallel safe security definer rows 1000
set search_path = pg_catalog, pg_temp
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  r record;
  pattern text := case when filter <> '>' then jetgate_store.subject_regex(filter) end;
  until bigint;
begin
  {STATE.replace("as purged_to", "as purged_to into r")} and s.stream = of_stream;
  until := least(coalesce(up_to, r.last_seq), r.last_seq);
  if r.max_msgs_per_subject = 1 then
    return query
      select {_RAW} from jetgate_store.message m
       where m.stream = r.stream and m.shelf = r.shelf and m.seq between r.first_seq and until
         and (pattern is null or {_SUBJECT} collate "C" ~ pattern) and {IS_THERE}
       order by m.seq;
    return;
  end if;
  return query
    select {_RAW}
      from (select max(m.seq) as seq from jetgate_store.message m
             where m.stream = r.stream and m.shelf = r.shelf
               and m.seq between r.first_seq and until
               and (pattern is null or {_INDEXED_SUBJECT} collate "C" ~ pattern) and {IS_THERE}
             group by m.subject) as last
      join jetgate_store.message m
        on m.stream = r.stream and m.shelf = r.shelf and m.seq = last.seq
     order by m.seq;
end
$$
"""

_VIEW_STREAMS = f"""
create or replace view jetgate.streams with (security_barrier) as
select s.name, s.account,
       h.msgs as messages, h.bytes, h.first_seq, h.last_seq,
       case when h.last_ts > 0 then jetgate_store.instant(h.last_ts) end as last_time,
       (select count(*) from jetgate_store.consumer c where c.stream = s.stream) as consumers,
       jetgate_store.instant(s.created) as created,
       replace(s.config, '\\u0000', '\\u2400')::json as config
  from jetgate_store.stream s
  join jetgate_store.head h on h.stream = s.stream
 where {_IS_VISIBLE}
"""

_VIEW_HEADS = f"""
create or replace view jetgate.heads with (security_barrier) as
select s.stream as id, s.name as stream, s.account, s.created as incarnation,
       jetgate_store.first_seq(s.stream, h.first_seq, h.last_seq, h.msgs) as first_seq,
       h.last_seq, h.last_ts, h.msgs as messages, h.bytes
  from jetgate_store.stream s
  join jetgate_store.head h on h.stream = s.stream
 where not s.dropped and {_IS_VISIBLE}
"""

# The order is part of the view because a view with a security barrier is planned separately: a page
# by `id` is then read in index order.
_VIEW_LOG = f"""
create or replace view jetgate.log with (security_barrier) as
select r.stream as id, r.name as stream, r.account, {_RAW}
  from ({STATE} and {_IS_VISIBLE}) as r
  join jetgate_store.message m on m.stream = r.stream
 where {IS_THERE}
 order by m.stream, m.seq
"""

_VIEW_MESSAGES = f"""
create or replace view jetgate.messages with (security_barrier) as
select r.name as stream, r.account, m.seq, {_SUBJECT} as subject,
       jetgate_store.instant(m.ts) as time,
       jetgate_store.utf8_or_null(m.hdr) as headers, jetgate_store.utf8_or_null(m.data) as text,
       m.data, octet_length(m.data) as size, m.ts, m.crc
  from ({STATE} and {_IS_VISIBLE}) as r
  join jetgate_store.message m on m.stream = r.stream
 where {IS_THERE}
"""

_VIEW_CONSUMERS = f"""
create or replace view jetgate.consumers with (security_barrier) as
select s.name as stream, s.account, c.name,
       c.delivered_stream_seq, c.ack_floor_stream_seq, c.ack_pending, c.redelivered,
       greatest(h.last_seq - c.delivered_stream_seq, 0) as lag,
       greatest(h.last_seq - c.ack_floor_stream_seq, 0) as ack_lag,
       case when h.last_seq > c.delivered_stream_seq
            then now() - jetgate_store.instant(
                   jetgate_store.ts_after(s.stream, c.delivered_stream_seq))
       end as lag_time,
       jetgate_store.instant(c.created) as created,
       replace(c.config, '\\u0000', '\\u2400')::json as config
  from jetgate_store.consumer c
  join jetgate_store.stream s on s.stream = c.stream
  join jetgate_store.head h on h.stream = c.stream
 where {_IS_VISIBLE}
"""

_PUBLIC_FUNCTIONS = (
    """
    create or replace function jetgate.subject_matches(filter text, subject text) returns boolean
    language sql immutable parallel safe
    return jetgate_store.subject_matches(filter, subject)
    """,
    """
    create or replace function jetgate.latest(
      stream text, count integer default 10, account text default '$G'
    ) returns setof jetgate.messages language sql stable parallel safe rows 10
    begin atomic
      select h.stream, h.account, m.seq, m.subject, jetgate_store.instant(m.ts),
             jetgate_store.utf8_or_null(m.headers), jetgate_store.utf8_or_null(m.data),
             m.data, m.size, m.ts, m.crc::oid
        from jetgate.heads h
        cross join lateral jetgate_store.newest(h.id, count) as m
       where h.stream = latest.stream collate "C" and h.account = latest.account collate "C"
       order by m.seq desc;
    end
    """,
    """
    create or replace function jetgate.last_by_subject(
      stream text, filter text default '>', up_to bigint default null, account text default '$G'
    ) returns setof jetgate.log language sql stable parallel safe
    begin atomic
      select h.id, h.stream, h.account, m.*
        from jetgate.heads h
        cross join lateral jetgate_store.last_there(h.id, filter, up_to) as m
       where h.stream = last_by_subject.stream collate "C"
         and h.account = last_by_subject.account collate "C";
    end
    """,
    """
    create or replace function jetgate.seq_at(stream text, ns bigint, account text default '$G')
    returns bigint language sql stable parallel safe
    begin atomic
      select jetgate_store.seq_at(h.id, ns) from jetgate.heads h
       where h.stream = seq_at.stream collate "C" and h.account = seq_at.account collate "C";
    end
    """,
    """
    create or replace function jetgate.seq_at(
      stream text, at timestamptz, account text default '$G'
    ) returns bigint language sql stable parallel safe
    return jetgate.seq_at(stream, (extract(epoch from at) * 1000000000)::bigint, account)
    """,
)

_COMMENTS = (
    "comment on view jetgate.streams is 'One row per stream, with its size and configuration.'",
    "comment on view jetgate.heads is 'Where each stream begins and ends, for programs.'",
    "comment on view jetgate.log is 'Every message that is there, raw, for programs.'",
    "comment on view jetgate.messages is 'Every message that is there, as NATS clients see it.'",
    "comment on function jetgate.latest is 'The newest messages of a stream, newest first.'",
    "comment on function jetgate.last_by_subject is 'The last message of each subject.'",
    "comment on view jetgate.consumers is 'One row per consumer, as of its last saved state.'",
)

READERS = (
    *_FUNCTIONS,
    _LONG_SUBJECT,
    _LAST_THERE,
    _VIEW_STREAMS,
    _VIEW_HEADS,
    _VIEW_LOG,
    _VIEW_MESSAGES,
    _VIEW_CONSUMERS,
    *_PUBLIC_FUNCTIONS,
    *_COMMENTS,
)
