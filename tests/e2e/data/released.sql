SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA jetgate;

CREATE SCHEMA jetgate_store;

CREATE FUNCTION jetgate_store.has_expired_by(ts bigint, hdr bytea, cutoff bigint, now bigint) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
    declare
      ttl numeric := jetgate_store.ttl(hdr);
    begin
      if ttl < 0 then
        return false;
      end if;
      return coalesce(ts + ttl <= now, false) or coalesce(ts <= cutoff, false);
    end
    $$;

CREATE FUNCTION jetgate_store.ttl_text(hdr bytea) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN split_part(encode(SUBSTRING(hdr FROM (POSITION(('\x0d0a4e6174732d54544c3a'::bytea) IN (hdr)) + 11) FOR 11), 'escape'::text), '
'::text, 1);

CREATE FUNCTION jetgate_store.has_expired(ts bigint, hdr bytea, cutoff bigint, now bigint) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ((ts > COALESCE(cutoff, (0)::bigint)) AND (octet_length(jetgate_store.ttl_text(hdr)) <= 10) AND (translate(ltrim(jetgate_store.ttl_text(hdr)), '0123456789'::text, ''::text) = ''::text)) THEN COALESCE(((ts + (1000000000 * NULLIF((NULLIF(ltrim(jetgate_store.ttl_text(hdr)), ''::text))::bigint, 0))) <= now), false) ELSE jetgate_store.has_expired_by(ts, hdr, cutoff, now) END;

CREATE FUNCTION jetgate_store.subject_regex(filter text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT (('^'::text || string_agg(CASE WHEN (tokens.token = '*'::text) THEN '[^.]+'::text WHEN ((tokens.token = '>'::text) AND (tokens.place = tokens.count)) THEN '.+'::text ELSE regexp_replace(tokens.token, '([\\^$.|?*+()\[\]{}])'::text, '\\\1'::text, 'g'::text) END, '\.'::text ORDER BY tokens.place)) || '$'::text) FROM (SELECT t.token, t.place, count(*) OVER () AS count FROM string_to_table(subject_regex.filter, '.'::text) WITH ORDINALITY t(token, place)) tokens);

CREATE FUNCTION jetgate_store.subject_matches(filter text, subject text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (filter ~ '(^|\.)[*>](\.|$)'::text) THEN ((subject COLLATE "C") ~ (jetgate_store.subject_regex(filter) COLLATE "C")) ELSE ((subject COLLATE "C") = (filter COLLATE "C")) END;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE jetgate_store.head (
    stream integer NOT NULL,
    epoch bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    last_ts bigint NOT NULL,
    msgs bigint NOT NULL,
    bytes bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

CREATE TABLE jetgate_store.message (
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    stream integer NOT NULL,
    shelf integer NOT NULL,
    crc oid NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    hdr bytea,
    data bytea NOT NULL
)
PARTITION BY LIST (shelf);
ALTER TABLE ONLY jetgate_store.message ALTER COLUMN hdr SET STORAGE EXTERNAL;
ALTER TABLE ONLY jetgate_store.message ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE jetgate_store.purge (
    stream integer NOT NULL,
    n integer NOT NULL,
    filters text[] NOT NULL COLLATE pg_catalog."C",
    up_to_seq bigint NOT NULL
);

CREATE TABLE jetgate_store.replaced (
    stream integer NOT NULL,
    n bigint NOT NULL,
    seqs bigint[] NOT NULL
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', toast.autovacuum_vacuum_scale_factor='0', toast.autovacuum_vacuum_threshold='20000', toast.autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY jetgate_store.replaced ALTER COLUMN seqs SET STORAGE EXTERNAL;

CREATE SEQUENCE jetgate_store.stream_number
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE jetgate_store.stream (
    stream integer DEFAULT nextval('jetgate_store.stream_number'::regclass) NOT NULL,
    account text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    shelf integer NOT NULL,
    created bigint NOT NULL,
    next_consumer integer DEFAULT 1 NOT NULL,
    dropped boolean DEFAULT false NOT NULL,
    config text NOT NULL COLLATE pg_catalog."C",
    max_age bigint GENERATED ALWAYS AS (COALESCE((((replace(config, '\u0000'::text, '\u2400'::text))::json ->> 'max_age'::text))::bigint, (0)::bigint)) STORED NOT NULL,
    allow_msg_ttl boolean GENERATED ALWAYS AS (COALESCE((((replace(config, '\u0000'::text, '\u2400'::text))::json ->> 'allow_msg_ttl'::text))::boolean, false)) STORED NOT NULL,
    max_msgs_per_subject bigint GENERATED ALWAYS AS (COALESCE((((replace(config, '\u0000'::text, '\u2400'::text))::json ->> 'max_msgs_per_subject'::text))::bigint, (0)::bigint)) STORED NOT NULL
);

CREATE FUNCTION jetgate_store.first_there(of_stream integer, from_seq bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT found.seq
    FROM (( SELECT DISTINCT s.stream,
             s.shelf,
             s.name,
             s.account,
             s.created,
             h.first_seq,
             h.last_seq,
             h.last_ts,
             h.msgs,
             h.bytes,
             s.max_msgs_per_subject,
             s.allow_msg_ttl,
             ((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint AS now,
                 CASE
                     WHEN (s.max_age > 0) THEN (((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint - s.max_age)
                     ELSE NULL::bigint
                 END AS cutoff,
             ((s.max_age <= 0) AND (NOT s.allow_msg_ttl) AND (NOT (EXISTS ( SELECT
                    FROM jetgate_store.replaced d
                   WHERE (d.stream = s.stream)))) AND (NOT (EXISTS ( SELECT
                    FROM jetgate_store.purge p
                   WHERE (p.stream = s.stream))))) AS is_plain,
             ( SELECT array_agg(u.seq ORDER BY u.seq) AS array_agg
                    FROM jetgate_store.replaced d,
                     LATERAL unnest(d.seqs) u(seq)
                   WHERE (d.stream = s.stream)) AS replaced,
             ( SELECT COALESCE(max(p.up_to_seq), (0)::bigint) AS "coalesce"
                    FROM jetgate_store.purge p
                   WHERE (p.stream = s.stream)) AS purged_to
            FROM (jetgate_store.stream s
              JOIN jetgate_store.head h ON ((h.stream = s.stream)))
           WHERE ((NOT s.dropped) AND (s.stream = first_there.of_stream))) r
      CROSS JOIN LATERAL ( SELECT m.seq
            FROM jetgate_store.message m
           WHERE ((m.stream = r.stream) AND (m.shelf = r.shelf) AND (m.seq >= GREATEST(r.first_seq, first_there.from_seq)) AND
                 CASE
                     WHEN ((m.seq < r.first_seq) OR (m.seq > r.last_seq)) THEN false
                     WHEN r.is_plain THEN true
                     WHEN (r.replaced[width_bucket(m.seq, r.replaced)] = m.seq) THEN false
                     WHEN (COALESCE((m.seq <= r.purged_to), false) AND (EXISTS ( SELECT
                        FROM jetgate_store.purge p,
                         LATERAL unnest(p.filters) f(filter)
                       WHERE ((p.stream = m.stream) AND (m.seq <= p.up_to_seq) AND jetgate_store.subject_matches(f.filter, m.subject))))) THEN false
                     WHEN (r.allow_msg_ttl AND (POSITION(('\x0d0a4e6174732d54544c3a'::bytea) IN (m.hdr)) > 0)) THEN (NOT jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now))
                     WHEN (m.ts <= r.cutoff) THEN false
                     ELSE true
                 END)
           ORDER BY m.seq
          LIMIT 1) found);
END;

CREATE FUNCTION jetgate_store.first_seq(of_stream integer, h_first bigint, h_last bigint, h_msgs bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (h_msgs > 0) THEN COALESCE(jetgate_store.first_there(of_stream, h_first), (h_last + 1)) WHEN (h_first = 0) THEN (0)::bigint ELSE (h_last + 1) END;

CREATE FUNCTION jetgate_store.last_there(of_stream integer, filter text, up_to bigint) RETURNS TABLE(seq bigint, subject text, ts bigint, headers bytea, data bytea, size integer, crc bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET work_mem TO '64MB'
    AS $$
#variable_conflict use_column
declare
  r record;
  pattern text := case when filter <> '>' then jetgate_store.subject_regex(filter) end;
  until bigint;
begin
  
  select distinct s.stream, s.shelf, s.name, s.account, s.created, h.first_seq, h.last_seq,
         h.last_ts, h.msgs, h.bytes, s.max_msgs_per_subject, s.allow_msg_ttl, (extract(epoch from now()) * 1000000000)::bigint as now,
         case when s.max_age > 0 then (extract(epoch from now()) * 1000000000)::bigint - s.max_age end as cutoff,
         s.max_age <= 0 and not s.allow_msg_ttl
           and not exists (select from jetgate_store.replaced d where d.stream = s.stream)
           and not exists (select from jetgate_store.purge p where p.stream = s.stream) as is_plain,
         (select array_agg(u.seq order by u.seq)
            from jetgate_store.replaced d, unnest(d.seqs) as u(seq)
           where d.stream = s.stream) as replaced,
         (select coalesce(max(p.up_to_seq), 0)
            from jetgate_store.purge p where p.stream = s.stream) as purged_to into r
    from jetgate_store.stream s
    join jetgate_store.head h on h.stream = s.stream
   where not s.dropped
 and s.stream = of_stream;
  until := least(coalesce(up_to, r.last_seq), r.last_seq);
  if r.max_msgs_per_subject = 1 then
    return query
      select m.seq, m.subject, m.ts, m.hdr as headers, m.data, octet_length(m.data) as size,
         m.crc::bigint as crc from jetgate_store.message m
       where m.stream = r.stream and m.shelf = r.shelf and m.seq between r.first_seq and until
         and (pattern is null or m.subject collate "C" ~ pattern) and 
  case
    when m.seq < r.first_seq or m.seq > r.last_seq then false
    when r.is_plain then true
    when r.replaced[width_bucket(m.seq, r.replaced)] = m.seq then false
    when coalesce(m.seq <= r.purged_to, false) and exists (
      select from jetgate_store.purge p, unnest(p.filters) as f(filter)
       where p.stream = m.stream and m.seq <= p.up_to_seq
         and jetgate_store.subject_matches(f.filter, m.subject)) then false
    when r.allow_msg_ttl and position('\x0d0a4e6174732d54544c3a'::bytea in m.hdr) > 0
      then not jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now)
    when m.ts <= r.cutoff then false
    else true
  end

       order by m.seq;
    return;
  end if;
  return query
    select m.seq, m.subject, m.ts, m.hdr as headers, m.data, octet_length(m.data) as size,
         m.crc::bigint as crc
      from (select max(m.seq) as seq from jetgate_store.message m
             where m.stream = r.stream and m.shelf = r.shelf
               and m.seq between r.first_seq and until
               and (pattern is null or m.subject collate "C" ~ pattern) and 
  case
    when m.seq < r.first_seq or m.seq > r.last_seq then false
    when r.is_plain then true
    when r.replaced[width_bucket(m.seq, r.replaced)] = m.seq then false
    when coalesce(m.seq <= r.purged_to, false) and exists (
      select from jetgate_store.purge p, unnest(p.filters) as f(filter)
       where p.stream = m.stream and m.seq <= p.up_to_seq
         and jetgate_store.subject_matches(f.filter, m.subject)) then false
    when r.allow_msg_ttl and position('\x0d0a4e6174732d54544c3a'::bytea in m.hdr) > 0
      then not jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now)
    when m.ts <= r.cutoff then false
    else true
  end

             group by m.subject) as last
      join jetgate_store.message m
        on m.stream = r.stream and m.shelf = r.shelf and m.seq = last.seq
     order by m.seq;
end
$$;

CREATE TABLE jetgate_store.reader_grant (
    role text NOT NULL COLLATE pg_catalog."C",
    account text NOT NULL COLLATE pg_catalog."C",
    stream text NOT NULL COLLATE pg_catalog."C"
);

CREATE VIEW jetgate.heads WITH (security_barrier='true') AS
 SELECT s.stream AS id,
    s.name AS stream,
    s.account,
    s.created AS incarnation,
    jetgate_store.first_seq(s.stream, h.first_seq, h.last_seq, h.msgs) AS first_seq,
    h.last_seq,
    h.last_ts,
    h.msgs AS messages,
    h.bytes
   FROM (jetgate_store.stream s
     JOIN jetgate_store.head h ON ((h.stream = s.stream)))
  WHERE ((NOT s.dropped) AND (pg_has_role(CURRENT_USER, ( SELECT pg_class.relowner
           FROM pg_class
          WHERE (pg_class.oid = ('jetgate_store.stream'::regclass)::oid)), 'usage'::text) OR (EXISTS ( SELECT
           FROM jetgate_store.reader_grant g
          WHERE ((g.account = s.account) AND (g.stream = ANY (ARRAY[s.name, '*'::text])) AND pg_has_role(CURRENT_USER, (to_regrole(quote_ident(g.role)))::oid, 'usage'::text))))));

COMMENT ON VIEW jetgate.heads IS 'Where each stream begins and ends, for programs.';

CREATE VIEW jetgate.log WITH (security_barrier='true') AS
 SELECT r.stream AS id,
    r.name AS stream,
    r.account,
    m.seq,
    m.subject,
    m.ts,
    m.hdr AS headers,
    m.data,
    octet_length(m.data) AS size,
    (m.crc)::bigint AS crc
   FROM (( SELECT DISTINCT s.stream,
            s.shelf,
            s.name,
            s.account,
            s.created,
            h.first_seq,
            h.last_seq,
            h.last_ts,
            h.msgs,
            h.bytes,
            s.max_msgs_per_subject,
            s.allow_msg_ttl,
            ((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint AS now,
                CASE
                    WHEN (s.max_age > 0) THEN (((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint - s.max_age)
                    ELSE NULL::bigint
                END AS cutoff,
            ((s.max_age <= 0) AND (NOT s.allow_msg_ttl) AND (NOT (EXISTS ( SELECT
                   FROM jetgate_store.replaced d
                  WHERE (d.stream = s.stream)))) AND (NOT (EXISTS ( SELECT
                   FROM jetgate_store.purge p
                  WHERE (p.stream = s.stream))))) AS is_plain,
            ( SELECT array_agg(u.seq ORDER BY u.seq) AS array_agg
                   FROM jetgate_store.replaced d,
                    LATERAL unnest(d.seqs) u(seq)
                  WHERE (d.stream = s.stream)) AS replaced,
            ( SELECT COALESCE(max(p.up_to_seq), (0)::bigint) AS "coalesce"
                   FROM jetgate_store.purge p
                  WHERE (p.stream = s.stream)) AS purged_to
           FROM (jetgate_store.stream s
             JOIN jetgate_store.head h ON ((h.stream = s.stream)))
          WHERE ((NOT s.dropped) AND (pg_has_role(CURRENT_USER, ( SELECT pg_class.relowner
                   FROM pg_class
                  WHERE (pg_class.oid = ('jetgate_store.stream'::regclass)::oid)), 'usage'::text) OR (EXISTS ( SELECT
                   FROM jetgate_store.reader_grant g
                  WHERE ((g.account = s.account) AND (g.stream = ANY (ARRAY[s.name, '*'::text])) AND pg_has_role(CURRENT_USER, (to_regrole(quote_ident(g.role)))::oid, 'usage'::text))))))) r
     JOIN jetgate_store.message m ON ((m.stream = r.stream)))
  WHERE
        CASE
            WHEN ((m.seq < r.first_seq) OR (m.seq > r.last_seq)) THEN false
            WHEN r.is_plain THEN true
            WHEN (r.replaced[width_bucket(m.seq, r.replaced)] = m.seq) THEN false
            WHEN (COALESCE((m.seq <= r.purged_to), false) AND (EXISTS ( SELECT
               FROM jetgate_store.purge p,
                LATERAL unnest(p.filters) f(filter)
              WHERE ((p.stream = m.stream) AND (m.seq <= p.up_to_seq) AND jetgate_store.subject_matches(f.filter, m.subject))))) THEN false
            WHEN (r.allow_msg_ttl AND (POSITION(('\x0d0a4e6174732d54544c3a'::bytea) IN (m.hdr)) > 0)) THEN (NOT jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now))
            WHEN (m.ts <= r.cutoff) THEN false
            ELSE true
        END
  ORDER BY m.stream, m.seq;

COMMENT ON VIEW jetgate.log IS 'Every message that is there, raw, for programs.';

CREATE FUNCTION jetgate.last_by_subject(stream text, filter text DEFAULT '>'::text, up_to bigint DEFAULT NULL::bigint, account text DEFAULT '$G'::text) RETURNS SETOF jetgate.log
    LANGUAGE sql STABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT h.id,
     h.stream,
     h.account,
     m.seq,
     m.subject,
     m.ts,
     m.headers,
     m.data,
     m.size,
     m.crc
    FROM (jetgate.heads h
      CROSS JOIN LATERAL jetgate_store.last_there(h.id, last_by_subject.filter, last_by_subject.up_to) m(seq, subject, ts, headers, data, size, crc))
   WHERE ((h.stream = (last_by_subject.stream COLLATE "C")) AND (h.account = (last_by_subject.account COLLATE "C")));
END;

COMMENT ON FUNCTION jetgate.last_by_subject(stream text, filter text, up_to bigint, account text) IS 'The last message of each subject.';

CREATE FUNCTION jetgate_store.instant(ns bigint) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ('1970-01-01 00:00:00+00'::timestamp with time zone + (((ns / 1000))::double precision * '00:00:00.000001'::interval));

CREATE FUNCTION jetgate_store.newest(of_stream integer, count integer) RETURNS TABLE(seq bigint, subject text, ts bigint, headers bytea, data bytea, size integer, crc bigint)
    LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT found.seq,
     found.subject,
     found.ts,
     found.headers,
     found.data,
     found.size,
     found.crc
    FROM (( SELECT DISTINCT s.stream,
             s.shelf,
             s.name,
             s.account,
             s.created,
             h.first_seq,
             h.last_seq,
             h.last_ts,
             h.msgs,
             h.bytes,
             s.max_msgs_per_subject,
             s.allow_msg_ttl,
             ((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint AS now,
                 CASE
                     WHEN (s.max_age > 0) THEN (((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint - s.max_age)
                     ELSE NULL::bigint
                 END AS cutoff,
             ((s.max_age <= 0) AND (NOT s.allow_msg_ttl) AND (NOT (EXISTS ( SELECT
                    FROM jetgate_store.replaced d
                   WHERE (d.stream = s.stream)))) AND (NOT (EXISTS ( SELECT
                    FROM jetgate_store.purge p
                   WHERE (p.stream = s.stream))))) AS is_plain,
             ( SELECT array_agg(u.seq ORDER BY u.seq) AS array_agg
                    FROM jetgate_store.replaced d,
                     LATERAL unnest(d.seqs) u(seq)
                   WHERE (d.stream = s.stream)) AS replaced,
             ( SELECT COALESCE(max(p.up_to_seq), (0)::bigint) AS "coalesce"
                    FROM jetgate_store.purge p
                   WHERE (p.stream = s.stream)) AS purged_to
            FROM (jetgate_store.stream s
              JOIN jetgate_store.head h ON ((h.stream = s.stream)))
           WHERE ((NOT s.dropped) AND (s.stream = newest.of_stream))) r
      CROSS JOIN LATERAL ( SELECT m.seq,
             m.subject,
             m.ts,
             m.hdr AS headers,
             m.data,
             octet_length(m.data) AS size,
             (m.crc)::bigint AS crc
            FROM jetgate_store.message m
           WHERE ((m.stream = r.stream) AND (m.shelf = r.shelf) AND
                 CASE
                     WHEN ((m.seq < r.first_seq) OR (m.seq > r.last_seq)) THEN false
                     WHEN r.is_plain THEN true
                     WHEN (r.replaced[width_bucket(m.seq, r.replaced)] = m.seq) THEN false
                     WHEN (COALESCE((m.seq <= r.purged_to), false) AND (EXISTS ( SELECT
                        FROM jetgate_store.purge p,
                         LATERAL unnest(p.filters) f(filter)
                       WHERE ((p.stream = m.stream) AND (m.seq <= p.up_to_seq) AND jetgate_store.subject_matches(f.filter, m.subject))))) THEN false
                     WHEN (r.allow_msg_ttl AND (POSITION(('\x0d0a4e6174732d54544c3a'::bytea) IN (m.hdr)) > 0)) THEN (NOT jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now))
                     WHEN (m.ts <= r.cutoff) THEN false
                     ELSE true
                 END)
           ORDER BY m.seq DESC
          LIMIT newest.count) found);
END;

CREATE FUNCTION jetgate_store.utf8_or_null(bytes bytea) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (octet_length(encode(bytes, 'escape'::text)) = octet_length(bytes)) THEN convert_from(bytes, 'UTF8'::name) WHEN (POSITION(('\x00'::bytea) IN (bytes)) > 0) THEN NULL::text WHEN ((convert_from(bytes, 'LATIN1'::name) COLLATE "C") ~ ((((((('^(?:[\u0001-\u007f]'::text || '|[\u00c2-\u00df][\u0080-\u00bf]'::text) || '|\u00e0[\u00a0-\u00bf][\u0080-\u00bf]'::text) || '|[\u00e1-\u00ec\u00ee\u00ef][\u0080-\u00bf]{2}'::text) || '|\u00ed[\u0080-\u009f][\u0080-\u00bf]'::text) || '|\u00f0[\u0090-\u00bf][\u0080-\u00bf]{2}'::text) || '|[\u00f1-\u00f3][\u0080-\u00bf]{3}'::text) || '|\u00f4[\u0080-\u008f][\u0080-\u00bf]{2})*$'::text)) THEN convert_from(bytes, 'UTF8'::name) ELSE NULL::text END;

CREATE VIEW jetgate.messages WITH (security_barrier='true') AS
 SELECT r.name AS stream,
    r.account,
    m.seq,
    m.subject,
    jetgate_store.instant(m.ts) AS "time",
    jetgate_store.utf8_or_null(m.hdr) AS headers,
    jetgate_store.utf8_or_null(m.data) AS text,
    m.data,
    octet_length(m.data) AS size,
    m.ts,
    m.crc
   FROM (( SELECT DISTINCT s.stream,
            s.shelf,
            s.name,
            s.account,
            s.created,
            h.first_seq,
            h.last_seq,
            h.last_ts,
            h.msgs,
            h.bytes,
            s.max_msgs_per_subject,
            s.allow_msg_ttl,
            ((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint AS now,
                CASE
                    WHEN (s.max_age > 0) THEN (((EXTRACT(epoch FROM now()) * (1000000000)::numeric))::bigint - s.max_age)
                    ELSE NULL::bigint
                END AS cutoff,
            ((s.max_age <= 0) AND (NOT s.allow_msg_ttl) AND (NOT (EXISTS ( SELECT
                   FROM jetgate_store.replaced d
                  WHERE (d.stream = s.stream)))) AND (NOT (EXISTS ( SELECT
                   FROM jetgate_store.purge p
                  WHERE (p.stream = s.stream))))) AS is_plain,
            ( SELECT array_agg(u.seq ORDER BY u.seq) AS array_agg
                   FROM jetgate_store.replaced d,
                    LATERAL unnest(d.seqs) u(seq)
                  WHERE (d.stream = s.stream)) AS replaced,
            ( SELECT COALESCE(max(p.up_to_seq), (0)::bigint) AS "coalesce"
                   FROM jetgate_store.purge p
                  WHERE (p.stream = s.stream)) AS purged_to
           FROM (jetgate_store.stream s
             JOIN jetgate_store.head h ON ((h.stream = s.stream)))
          WHERE ((NOT s.dropped) AND (pg_has_role(CURRENT_USER, ( SELECT pg_class.relowner
                   FROM pg_class
                  WHERE (pg_class.oid = ('jetgate_store.stream'::regclass)::oid)), 'usage'::text) OR (EXISTS ( SELECT
                   FROM jetgate_store.reader_grant g
                  WHERE ((g.account = s.account) AND (g.stream = ANY (ARRAY[s.name, '*'::text])) AND pg_has_role(CURRENT_USER, (to_regrole(quote_ident(g.role)))::oid, 'usage'::text))))))) r
     JOIN jetgate_store.message m ON ((m.stream = r.stream)))
  WHERE
        CASE
            WHEN ((m.seq < r.first_seq) OR (m.seq > r.last_seq)) THEN false
            WHEN r.is_plain THEN true
            WHEN (r.replaced[width_bucket(m.seq, r.replaced)] = m.seq) THEN false
            WHEN (COALESCE((m.seq <= r.purged_to), false) AND (EXISTS ( SELECT
               FROM jetgate_store.purge p,
                LATERAL unnest(p.filters) f(filter)
              WHERE ((p.stream = m.stream) AND (m.seq <= p.up_to_seq) AND jetgate_store.subject_matches(f.filter, m.subject))))) THEN false
            WHEN (r.allow_msg_ttl AND (POSITION(('\x0d0a4e6174732d54544c3a'::bytea) IN (m.hdr)) > 0)) THEN (NOT jetgate_store.has_expired(m.ts, m.hdr, r.cutoff, r.now))
            WHEN (m.ts <= r.cutoff) THEN false
            ELSE true
        END;

COMMENT ON VIEW jetgate.messages IS 'Every message that is there, as NATS clients see it.';

CREATE FUNCTION jetgate.latest(stream text, count integer DEFAULT 10, account text DEFAULT '$G'::text) RETURNS SETOF jetgate.messages
    LANGUAGE sql STABLE ROWS 10 PARALLEL SAFE
    BEGIN ATOMIC
 SELECT h.stream,
     h.account,
     m.seq,
     m.subject,
     jetgate_store.instant(m.ts) AS instant,
     jetgate_store.utf8_or_null(m.headers) AS utf8_or_null,
     jetgate_store.utf8_or_null(m.data) AS utf8_or_null,
     m.data,
     m.size,
     m.ts,
     (m.crc)::oid AS crc
    FROM (jetgate.heads h
      CROSS JOIN LATERAL jetgate_store.newest(h.id, latest.count) m(seq, subject, ts, headers, data, size, crc))
   WHERE ((h.stream = (latest.stream COLLATE "C")) AND (h.account = (latest.account COLLATE "C")))
   ORDER BY m.seq DESC;
END;

COMMENT ON FUNCTION jetgate.latest(stream text, count integer, account text) IS 'The newest messages of a stream, newest first.';

CREATE FUNCTION jetgate_store.first_at(of_stream integer, low bigint, high bigint, at bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
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
    $$;

CREATE FUNCTION jetgate_store.seq_at(of_stream integer, ns bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT COALESCE(jetgate_store.first_there(seq_at.of_stream, jetgate_store.first_at(seq_at.of_stream, h.first_seq, (h.last_seq + 1), seq_at.ns)), (h.last_seq + 1)) AS "coalesce"
    FROM jetgate_store.head h
   WHERE (h.stream = seq_at.of_stream);
END;

CREATE FUNCTION jetgate.seq_at(stream text, ns bigint, account text DEFAULT '$G'::text) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT jetgate_store.seq_at(h.id, seq_at.ns) AS seq_at
    FROM jetgate.heads h
   WHERE ((h.stream = (seq_at.stream COLLATE "C")) AND (h.account = (seq_at.account COLLATE "C")));
END;

CREATE FUNCTION jetgate.seq_at(stream text, at timestamp with time zone, account text DEFAULT '$G'::text) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN jetgate.seq_at(stream, ((EXTRACT(epoch FROM at) * (1000000000)::numeric))::bigint, account);

CREATE FUNCTION jetgate.subject_matches(filter text, subject text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN jetgate_store.subject_matches(filter, subject);

CREATE FUNCTION jetgate_store.fence(streams integer[], epochs bigint[], lasts bigint[], new_lasts bigint[], firsts bigint[], ts bigint[], msgs bigint[], bytes bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION jetgate_store.record_replaced(stream integer, n bigint, seqs bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
    begin
      insert into jetgate_store.replaced values (stream, n, seqs);
    end
    $$;

CREATE FUNCTION jetgate_store.ts_after(of_stream integer, after bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT m.ts
    FROM jetgate_store.message m
   WHERE ((m.stream = ts_after.of_stream) AND (m.seq = jetgate_store.first_there(ts_after.of_stream, (ts_after.after + 1))));
END;

CREATE FUNCTION jetgate_store.ttl(hdr bytea) RETURNS numeric
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
    declare
      part_of constant text := '([0-9.]+)(ns|us|\\302\\265s|\\316\\274s|ms|s|m|h)';
      value text;
      part text[];
      total numeric := 0;
    begin
      value := substring(encode(hdr, 'escape') from E'\r\nNats-TTL: *([^\r]*)\r\n');
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
    $_$;

CREATE TABLE jetgate_store.consumer (
    stream integer NOT NULL,
    consumer integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    created bigint NOT NULL,
    epoch bigint NOT NULL,
    config text NOT NULL COLLATE pg_catalog."C",
    state bytea,
    delivered_stream_seq bigint DEFAULT 0 NOT NULL,
    ack_floor_stream_seq bigint DEFAULT 0 NOT NULL,
    ack_pending bigint DEFAULT 0 NOT NULL,
    redelivered bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');
ALTER TABLE ONLY jetgate_store.consumer ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE VIEW jetgate.consumers WITH (security_barrier='true') AS
 SELECT s.name AS stream,
    s.account,
    c.name,
    c.delivered_stream_seq,
    c.ack_floor_stream_seq,
    c.ack_pending,
    c.redelivered,
    GREATEST((h.last_seq - c.delivered_stream_seq), (0)::bigint) AS lag,
    GREATEST((h.last_seq - c.ack_floor_stream_seq), (0)::bigint) AS ack_lag,
        CASE
            WHEN (h.last_seq > c.delivered_stream_seq) THEN (now() - jetgate_store.instant(jetgate_store.ts_after(s.stream, c.delivered_stream_seq)))
            ELSE NULL::interval
        END AS lag_time,
    jetgate_store.instant(c.created) AS created,
    (replace(c.config, '\u0000'::text, '\u2400'::text))::json AS config
   FROM ((jetgate_store.consumer c
     JOIN jetgate_store.stream s ON ((s.stream = c.stream)))
     JOIN jetgate_store.head h ON ((h.stream = c.stream)))
  WHERE (pg_has_role(CURRENT_USER, ( SELECT pg_class.relowner
           FROM pg_class
          WHERE (pg_class.oid = ('jetgate_store.stream'::regclass)::oid)), 'usage'::text) OR (EXISTS ( SELECT
           FROM jetgate_store.reader_grant g
          WHERE ((g.account = s.account) AND (g.stream = ANY (ARRAY[s.name, '*'::text])) AND pg_has_role(CURRENT_USER, (to_regrole(quote_ident(g.role)))::oid, 'usage'::text)))));

COMMENT ON VIEW jetgate.consumers IS 'One row per consumer, as of its last saved state.';

CREATE VIEW jetgate.streams WITH (security_barrier='true') AS
 SELECT s.name,
    s.account,
    h.msgs AS messages,
    h.bytes,
    h.first_seq,
    h.last_seq,
        CASE
            WHEN (h.last_ts > 0) THEN jetgate_store.instant(h.last_ts)
            ELSE NULL::timestamp with time zone
        END AS last_time,
    ( SELECT count(*) AS count
           FROM jetgate_store.consumer c
          WHERE (c.stream = s.stream)) AS consumers,
    jetgate_store.instant(s.created) AS created,
    (replace(s.config, '\u0000'::text, '\u2400'::text))::json AS config
   FROM (jetgate_store.stream s
     JOIN jetgate_store.head h ON ((h.stream = s.stream)))
  WHERE (pg_has_role(CURRENT_USER, ( SELECT pg_class.relowner
           FROM pg_class
          WHERE (pg_class.oid = ('jetgate_store.stream'::regclass)::oid)), 'usage'::text) OR (EXISTS ( SELECT
           FROM jetgate_store.reader_grant g
          WHERE ((g.account = s.account) AND (g.stream = ANY (ARRAY[s.name, '*'::text])) AND pg_has_role(CURRENT_USER, (to_regrole(quote_ident(g.role)))::oid, 'usage'::text)))));

COMMENT ON VIEW jetgate.streams IS 'One row per stream, with its size and configuration.';

CREATE TABLE jetgate_store.ledger (
    stream integer NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    past text NOT NULL,
    keep bigint NOT NULL,
    changed bigint NOT NULL,
    batch bigint,
    manifest text,
    rows bigint NOT NULL,
    promoted bigint NOT NULL,
    duplicates bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    place bigint[] NOT NULL,
    stop text
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

CREATE TABLE jetgate_store.message_0 (
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    stream integer NOT NULL,
    shelf integer NOT NULL,
    crc oid NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    hdr bytea,
    data bytea NOT NULL
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='500000', autovacuum_vacuum_cost_delay='0', toast.autovacuum_vacuum_scale_factor='0', toast.autovacuum_vacuum_threshold='20000', toast.autovacuum_vacuum_insert_scale_factor='0', toast.autovacuum_vacuum_insert_threshold='500000', toast.autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY jetgate_store.message_0 ALTER COLUMN hdr SET STORAGE EXTERNAL;
ALTER TABLE ONLY jetgate_store.message_0 ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE jetgate_store.message_1 (
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    stream integer NOT NULL,
    shelf integer NOT NULL,
    crc oid NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    hdr bytea,
    data bytea NOT NULL
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='500000', autovacuum_vacuum_cost_delay='0', toast.autovacuum_vacuum_scale_factor='0', toast.autovacuum_vacuum_threshold='20000', toast.autovacuum_vacuum_insert_scale_factor='0', toast.autovacuum_vacuum_insert_threshold='500000', toast.autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY jetgate_store.message_1 ALTER COLUMN hdr SET STORAGE EXTERNAL;
ALTER TABLE ONLY jetgate_store.message_1 ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE jetgate_store.node (
    node text NOT NULL COLLATE pg_catalog."C",
    session_pid integer NOT NULL,
    started timestamp with time zone NOT NULL,
    seen timestamp with time zone NOT NULL,
    nats text DEFAULT ''::text NOT NULL,
    http text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

CREATE TABLE jetgate_store.remote (
    name text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL,
    creds text DEFAULT ''::text NOT NULL,
    connected boolean DEFAULT false NOT NULL,
    server text DEFAULT ''::text NOT NULL,
    rtt_ns bigint DEFAULT 0 NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    relays integer DEFAULT 0 NOT NULL,
    told timestamp with time zone
);

CREATE TABLE jetgate_store.schedule (
    stream integer NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    due bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

CREATE TABLE jetgate_store.schema_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE jetgate_store.secret (
    name text NOT NULL COLLATE pg_catalog."C",
    value bytea NOT NULL
);

CREATE TABLE jetgate_store.source (
    stream integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    identity text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

ALTER TABLE ONLY jetgate_store.message ATTACH PARTITION jetgate_store.message_0 FOR VALUES IN (0);

ALTER TABLE ONLY jetgate_store.message ATTACH PARTITION jetgate_store.message_1 FOR VALUES IN (1);

INSERT INTO jetgate_store.consumer VALUES (1, 3, 'europe', 1795433477196055367, 2, '{"durable_name":"europe","name":"europe","deliver_policy":"all","ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"filter_subjects":["orders.eu.\u003e","orders.uk.\u003e"],"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x0104000000000000000c0000000000000004000000000000000c0000000000000000000000000000000000', 12, 12, 0, 0);
INSERT INTO jetgate_store.consumer VALUES (1, 2, 'retried', 1795433477194900450, 2, '{"durable_name":"retried","name":"retried","deliver_policy":"all","ack_policy":"explicit","ack_wait":315360000000000000,"max_deliver":9,"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x010400000000000000050000000000000000000000000000000100000000000000030102010203010101010101010101b5d0a5f1420101020101b58c86d14e0101020101020000', 5, 1, 3, 1);
INSERT INTO jetgate_store.consumer VALUES (1, 4, 'pushed', 1795433477197199049, 2, '{"durable_name":"pushed","name":"pushed","deliver_policy":"all","ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"replay_policy":"instant","max_ack_pending":1000,"deliver_subject":"pushed.here","num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x01000000000000000001000000000000000000000000000000010000000000000000000000000000000000', 1, 1, 0, 0);
INSERT INTO jetgate_store.consumer VALUES (1, 5, 'paused', 1795433477198324088, 2, '{"durable_name":"paused","name":"paused","deliver_policy":"all","ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"1"},"pause_until":"2120-01-01T00:00:00Z"}', '\x01000000000000000001000000000000000000000000000000010000000000000000000000000000000000', 1, 1, 0, 0);
INSERT INTO jetgate_store.consumer VALUES (1, 6, 'late', 1795433477199413759, 2, '{"durable_name":"late","name":"late","deliver_policy":"by_start_sequence","opt_start_seq":9,"ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x01000000000000000008000000000000000000000000000000080000000000000000000000000000000000', 8, 8, 0, 0);
INSERT INTO jetgate_store.consumer VALUES (1, 1, 'billing', 1795433477193003015, 2, '{"durable_name":"billing","name":"billing","deliver_policy":"all","ack_policy":"explicit","ack_wait":315360000000000000,"max_deliver":-1,"replay_policy":"instant","max_waiting":512,"max_ack_pending":50,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x010c00000000000000100000000000000003000000000000000500000000000000060106050102010106010403010201010101010101b5d0a5f1420101060101b58c86d14e00000000', 16, 5, 6, 0);
INSERT INTO jetgate_store.consumer VALUES (3, 1, 'workers', 1795433477200616538, 2, '{"durable_name":"workers","name":"workers","deliver_policy":"all","ack_policy":"explicit","ack_wait":315360000000000000,"max_deliver":-1,"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x010800000000000000080000000000000005000000000000000500000000000000030106010103010601010101010101b5d0a5f1420000000000010105', 8, 5, 3, 0);
INSERT INTO jetgate_store.consumer VALUES (4, 2, 'other', 1795433477202362692, 2, '{"durable_name":"other","name":"other","deliver_policy":"all","ack_policy":"explicit","ack_wait":315360000000000000,"max_deliver":-1,"filter_subject":"news.sport","replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x0108000000000000000f000000000000000300000000000000060000000000000005010702020202050104010101010101010101b5d0a5f142000000000002010302', 15, 6, 5, 0);
INSERT INTO jetgate_store.consumer VALUES (4, 1, 'one', 1795433477201538307, 2, '{"durable_name":"one","name":"one","deliver_policy":"all","ack_policy":"explicit","ack_wait":315360000000000000,"max_deliver":-1,"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.req.level":"0"}}', '\x01080000000000000008000000000000000600000000000000060000000000000002010701020107010101010101b5d0a5f1420000000000010106', 8, 6, 2, 0);

INSERT INTO jetgate_store.head VALUES (4, 2, 2, 30, 1795433477310301386, 24, 1124);
INSERT INTO jetgate_store.head VALUES (2, 2, 1, 30, 1795433477309796189, 4, 152);
INSERT INTO jetgate_store.head VALUES (8, 2, 1, 41, 1795433477240410101, 41, 3977);
INSERT INTO jetgate_store.head VALUES (1, 2, 1, 41, 1795433477240410101, 37, 3595);
INSERT INTO jetgate_store.head VALUES (0, 2, 0, 19, 0, 0, 3121886436019884312);
INSERT INTO jetgate_store.head VALUES (5, 2, 1, 3, 1795433477311348854, 3, 246);
INSERT INTO jetgate_store.head VALUES (6, 2, 1, 1, 1795433477311673650, 1, 142);
INSERT INTO jetgate_store.head VALUES (3, 2, 6, 30, 1795433477310065633, 25, 1045);
INSERT INTO jetgate_store.head VALUES (7, 2, 1, 3, 1795433477312608534, 3, 313);
INSERT INTO jetgate_store.head VALUES (10, 2, 1, 12, 1795433477316573951, 9, 570);
INSERT INTO jetgate_store.head VALUES (9, 2, 1, 13, 1795433477239372114, 13, 2162);

INSERT INTO jetgate_store.message_0 VALUES (1, 1795433477203102036, 8, 0, 929738028, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d310d0a4b696e643a206e65770d0a0d0a', '\x6f726465722031');
INSERT INTO jetgate_store.message_0 VALUES (2, 1795433477204836109, 1, 0, 3125694096, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d320d0a4b696e643a206e65770d0a0d0a', '\x6f726465722032');
INSERT INTO jetgate_store.message_0 VALUES (2, 1795433477204836109, 8, 0, 3125694096, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d320d0a4b696e643a206e65770d0a0d0a', '\x6f726465722032');
INSERT INTO jetgate_store.message_0 VALUES (3, 1795433477205750182, 1, 0, 1039547819, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d330d0a4b696e643a206e65770d0a0d0a', '\x6f726465722033');
INSERT INTO jetgate_store.message_0 VALUES (3, 1795433477205750182, 8, 0, 1039547819, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d330d0a4b696e643a206e65770d0a0d0a', '\x6f726465722033');
INSERT INTO jetgate_store.message_0 VALUES (1, 1795433477206438638, 9, 0, 3320249348, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d330d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f52444552532033206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f726465722033');
INSERT INTO jetgate_store.message_0 VALUES (4, 1795433477208547623, 8, 0, 2783706905, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d340d0a4b696e643a206e65770d0a0d0a', '\x6f726465722034');
INSERT INTO jetgate_store.message_0 VALUES (5, 1795433477212262919, 1, 0, 575900706, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d350d0a4b696e643a206e65770d0a0d0a', '\x6f726465722035');
INSERT INTO jetgate_store.message_0 VALUES (5, 1795433477212262919, 8, 0, 575900706, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d350d0a4b696e643a206e65770d0a0d0a', '\x6f726465722035');
INSERT INTO jetgate_store.message_0 VALUES (6, 1795433477213431245, 1, 0, 2943840158, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d360d0a4b696e643a206e65770d0a0d0a', '\x6f726465722036');
INSERT INTO jetgate_store.message_0 VALUES (6, 1795433477213431245, 8, 0, 2943840158, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d360d0a4b696e643a206e65770d0a0d0a', '\x6f726465722036');
INSERT INTO jetgate_store.message_0 VALUES (2, 1795433477213872148, 9, 0, 3536599216, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d360d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f52444552532036206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f726465722036');
INSERT INTO jetgate_store.message_0 VALUES (7, 1795433477214706832, 8, 0, 684661925, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d370d0a4b696e643a206e65770d0a0d0a', '\x6f726465722037');
INSERT INTO jetgate_store.message_0 VALUES (8, 1795433477215441785, 1, 0, 2594216971, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d380d0a4b696e643a206e65770d0a0d0a', '\x6f726465722038');
INSERT INTO jetgate_store.message_0 VALUES (8, 1795433477215441785, 8, 0, 2594216971, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d380d0a4b696e643a206e65770d0a0d0a', '\x6f726465722038');
INSERT INTO jetgate_store.message_0 VALUES (9, 1795433477216048446, 1, 0, 488173360, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d390d0a4b696e643a206e65770d0a0d0a', '\x6f726465722039');
INSERT INTO jetgate_store.message_0 VALUES (9, 1795433477216048446, 8, 0, 488173360, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d390d0a4b696e643a206e65770d0a0d0a', '\x6f726465722039');
INSERT INTO jetgate_store.message_0 VALUES (3, 1795433477216465758, 9, 0, 3954406764, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d390d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f52444552532039206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f726465722039');
INSERT INTO jetgate_store.message_0 VALUES (10, 1795433477217644908, 8, 0, 3854208594, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203130');
INSERT INTO jetgate_store.message_0 VALUES (11, 1795433477218333347, 1, 0, 2912866271, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31310d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203131');
INSERT INTO jetgate_store.message_0 VALUES (11, 1795433477218333347, 8, 0, 2912866271, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31310d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203131');
INSERT INTO jetgate_store.message_0 VALUES (12, 1795433477218949587, 1, 0, 1978797384, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31320d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203132');
INSERT INTO jetgate_store.message_0 VALUES (12, 1795433477218949587, 8, 0, 1978797384, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31320d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203132');
INSERT INTO jetgate_store.message_0 VALUES (4, 1795433477219307539, 9, 0, 209863270, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31320d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203132206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203132');
INSERT INTO jetgate_store.message_0 VALUES (13, 1795433477219971004, 1, 0, 1037454533, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31330d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203133');
INSERT INTO jetgate_store.message_0 VALUES (13, 1795433477219971004, 8, 0, 1037454533, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31330d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203133');
INSERT INTO jetgate_store.message_0 VALUES (14, 1795433477220589330, 1, 0, 3234332311, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31340d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203134');
INSERT INTO jetgate_store.message_0 VALUES (14, 1795433477220589330, 8, 0, 3234332311, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31340d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203134');
INSERT INTO jetgate_store.message_0 VALUES (15, 1795433477221258772, 1, 0, 2296626970, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31350d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203135');
INSERT INTO jetgate_store.message_0 VALUES (15, 1795433477221258772, 8, 0, 2296626970, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31350d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203135');
INSERT INTO jetgate_store.message_0 VALUES (5, 1795433477221689209, 9, 0, 852208283, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31350d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203135206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203135');
INSERT INTO jetgate_store.message_0 VALUES (16, 1795433477222228862, 1, 0, 1351581069, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31360d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203136');
INSERT INTO jetgate_store.message_0 VALUES (16, 1795433477222228862, 8, 0, 1351581069, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31360d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203136');
INSERT INTO jetgate_store.message_0 VALUES (17, 1795433477222862033, 1, 0, 413875200, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31370d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203137');
INSERT INTO jetgate_store.message_0 VALUES (17, 1795433477222862033, 8, 0, 413875200, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31370d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203137');
INSERT INTO jetgate_store.message_0 VALUES (18, 1795433477223426821, 1, 0, 2940235736, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31380d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203138');
INSERT INTO jetgate_store.message_0 VALUES (18, 1795433477223426821, 8, 0, 2940235736, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31380d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203138');
INSERT INTO jetgate_store.message_0 VALUES (6, 1795433477223777624, 9, 0, 2371390198, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31380d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203138206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203138');
INSERT INTO jetgate_store.message_0 VALUES (19, 1795433477224523159, 1, 0, 3882102357, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31390d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203139');
INSERT INTO jetgate_store.message_0 VALUES (19, 1795433477224523159, 8, 0, 3882102357, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d31390d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203139');
INSERT INTO jetgate_store.message_0 VALUES (20, 1795433477225306424, 1, 0, 2734717548, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203230');
INSERT INTO jetgate_store.message_0 VALUES (20, 1795433477225306424, 8, 0, 2734717548, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203230');
INSERT INTO jetgate_store.message_0 VALUES (21, 1795433477225889250, 1, 0, 3945020385, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32310d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203231');
INSERT INTO jetgate_store.message_0 VALUES (21, 1795433477225889250, 8, 0, 3945020385, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32310d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203231');
INSERT INTO jetgate_store.message_0 VALUES (7, 1795433477226335739, 9, 0, 2300783612, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32310d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203231206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203231');
INSERT INTO jetgate_store.message_0 VALUES (22, 1795433477226777888, 1, 0, 860420470, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32320d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203232');
INSERT INTO jetgate_store.message_0 VALUES (22, 1795433477226777888, 8, 0, 860420470, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32320d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203232');
INSERT INTO jetgate_store.message_0 VALUES (23, 1795433477227358697, 1, 0, 2070722811, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32330d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203233');
INSERT INTO jetgate_store.message_0 VALUES (23, 1795433477227358697, 8, 0, 2070722811, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32330d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203233');
INSERT INTO jetgate_store.message_0 VALUES (24, 1795433477227900855, 1, 0, 2256341673, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32340d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203234');
INSERT INTO jetgate_store.message_0 VALUES (24, 1795433477227900855, 8, 0, 2256341673, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32340d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203234');
INSERT INTO jetgate_store.message_0 VALUES (8, 1795433477228231192, 9, 0, 3385741236, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32340d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203234206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203234');
INSERT INTO jetgate_store.message_0 VALUES (25, 1795433477228870291, 1, 0, 3461958436, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32350d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203235');
INSERT INTO jetgate_store.message_0 VALUES (25, 1795433477228870291, 8, 0, 3461958436, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32350d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203235');
INSERT INTO jetgate_store.message_0 VALUES (26, 1795433477229537771, 1, 0, 372607411, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32360d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203236');
INSERT INTO jetgate_store.message_0 VALUES (26, 1795433477229537771, 8, 0, 372607411, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32360d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203236');
INSERT INTO jetgate_store.message_0 VALUES (27, 1795433477230084239, 1, 0, 1578223678, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32370d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203237');
INSERT INTO jetgate_store.message_0 VALUES (27, 1795433477230084239, 8, 0, 1578223678, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32370d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203237');
INSERT INTO jetgate_store.message_0 VALUES (9, 1795433477230656153, 9, 0, 181321251, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32370d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203237206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203237');
INSERT INTO jetgate_store.message_0 VALUES (28, 1795433477231120344, 1, 0, 3925515238, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32380d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203238');
INSERT INTO jetgate_store.message_0 VALUES (28, 1795433477231120344, 8, 0, 3925515238, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32380d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203238');
INSERT INTO jetgate_store.message_0 VALUES (29, 1795433477231744310, 1, 0, 2715736683, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32390d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203239');
INSERT INTO jetgate_store.message_0 VALUES (29, 1795433477231744310, 8, 0, 2715736683, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d32390d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203239');
INSERT INTO jetgate_store.message_0 VALUES (30, 1795433477232382058, 1, 0, 2660641158, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203330');
INSERT INTO jetgate_store.message_0 VALUES (30, 1795433477232382058, 8, 0, 2660641158, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203330');
INSERT INTO jetgate_store.message_0 VALUES (10, 1795433477232801404, 9, 0, 4122741898, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33300d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203330206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203330');
INSERT INTO jetgate_store.message_0 VALUES (31, 1795433477233366022, 1, 0, 3602016267, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33310d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203331');
INSERT INTO jetgate_store.message_0 VALUES (31, 1795433477233366022, 8, 0, 3602016267, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33310d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203331');
INSERT INTO jetgate_store.message_0 VALUES (32, 1795433477234080380, 1, 0, 249473692, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33320d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203332');
INSERT INTO jetgate_store.message_0 VALUES (32, 1795433477234080380, 8, 0, 249473692, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33320d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203332');
INSERT INTO jetgate_store.message_0 VALUES (33, 1795433477234667796, 1, 0, 1190849297, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33330d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203333');
INSERT INTO jetgate_store.message_0 VALUES (33, 1795433477234667796, 8, 0, 1190849297, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33330d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203333');
INSERT INTO jetgate_store.message_0 VALUES (11, 1795433477235114026, 9, 0, 918355229, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33330d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203333206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203333');
INSERT INTO jetgate_store.message_0 VALUES (34, 1795433477235579593, 1, 0, 3152763203, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33340d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203334');
INSERT INTO jetgate_store.message_0 VALUES (34, 1795433477235579593, 8, 0, 3152763203, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33340d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203334');
INSERT INTO jetgate_store.message_0 VALUES (35, 1795433477236194918, 1, 0, 4090435790, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33350d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203335');
INSERT INTO jetgate_store.message_0 VALUES (35, 1795433477236194918, 8, 0, 4090435790, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33350d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203335');
INSERT INTO jetgate_store.message_0 VALUES (36, 1795433477236887619, 1, 0, 732158553, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33360d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203336');
INSERT INTO jetgate_store.message_0 VALUES (36, 1795433477236887619, 8, 0, 732158553, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33360d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203336');
INSERT INTO jetgate_store.message_0 VALUES (12, 1795433477237264415, 9, 0, 1985059157, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33360d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203336206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203336');
INSERT INTO jetgate_store.message_0 VALUES (37, 1795433477237795492, 1, 0, 1669831636, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33370d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203337');
INSERT INTO jetgate_store.message_0 VALUES (37, 1795433477237795492, 8, 0, 1669831636, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33370d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203337');
INSERT INTO jetgate_store.message_0 VALUES (38, 1795433477238419035, 1, 0, 3563898892, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33380d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203338');
INSERT INTO jetgate_store.message_0 VALUES (38, 1795433477238419035, 8, 0, 3563898892, 'orders.us', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33380d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203338');
INSERT INTO jetgate_store.message_0 VALUES (39, 1795433477238941082, 1, 0, 2621999489, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33390d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203339');
INSERT INTO jetgate_store.message_0 VALUES (39, 1795433477238941082, 8, 0, 2621999489, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33390d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203339');
INSERT INTO jetgate_store.message_0 VALUES (13, 1795433477239372114, 9, 0, 3076928909, 'orders.eu.fr', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d33390d0a4b696e643a206e65770d0a4e6174732d53747265616d2d536f757263653a204f5244455253203339206f72646572732e65752e3e203e206f72646572732e65752e6672203477344a774352350d0a0d0a', '\x6f72646572203339');
INSERT INTO jetgate_store.message_0 VALUES (40, 1795433477239812201, 1, 0, 779457040, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d34300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203430');
INSERT INTO jetgate_store.message_0 VALUES (40, 1795433477239812201, 8, 0, 779457040, 'orders.uk', '\x4e4154532f312e300d0a4e6174732d4d73672d49643a206f726465722d34300d0a4b696e643a206e65770d0a0d0a', '\x6f72646572203430');
INSERT INTO jetgate_store.message_0 VALUES (41, 1795433477240410101, 1, 0, 232918266, 'orders.us', '\x4e4154532f312e300d0a4e6174732d54544c3a203830303030680d0a0d0a', '\x00fffe');
INSERT INTO jetgate_store.message_0 VALUES (41, 1795433477240410101, 8, 0, 232918266, 'orders.us', '\x4e4154532f312e300d0a4e6174732d54544c3a203830303030680d0a0d0a', '\x00fffe');
INSERT INTO jetgate_store.message_0 VALUES (1, 1795433477310569676, 5, 0, 1116670967, 'hits.page', '\x4e4154532f312e300d0a4e6174732d496e63723a202b310d0a0d0a', '\x7b2276616c223a2231227d');
INSERT INTO jetgate_store.message_0 VALUES (2, 1795433477310994800, 5, 0, 1339669163, 'hits.page', '\x4e4154532f312e300d0a4e6174732d496e63723a202b32300d0a0d0a', '\x7b2276616c223a223231227d');
INSERT INTO jetgate_store.message_0 VALUES (3, 1795433477311348854, 5, 0, 3511709348, 'hits.page', '\x4e4154532f312e300d0a4e6174732d496e63723a202d340d0a0d0a', '\x7b2276616c223a223137227d');
INSERT INTO jetgate_store.message_0 VALUES (1, 1795433477311673650, 6, 0, 2191961592, 'plans.a', '\x4e4154532f312e300d0a4e6174732d5363686564756c653a2040617420323132302d30312d30315430303a30303a30305a0d0a4e6174732d5363686564756c652d5461726765743a206475652e610d0a4e6174732d526f6c6c75703a207375620d0a0d0a', '\x78');
INSERT INTO jetgate_store.message_0 VALUES (1, 1795433477312608532, 7, 0, 4025986129, 'batches', '\x4e4154532f312e300d0a4e6174732d42617463682d49643a2062310d0a4e6174732d42617463682d53657175656e63653a20310d0a0d0a', '\x31');
INSERT INTO jetgate_store.message_0 VALUES (2, 1795433477312608533, 7, 0, 3357250687, 'batches', '\x4e4154532f312e300d0a4e6174732d42617463682d49643a2062310d0a4e6174732d42617463682d53657175656e63653a20320d0a0d0a', '\x32');
INSERT INTO jetgate_store.message_0 VALUES (3, 1795433477312608534, 7, 0, 1709163977, 'batches', '\x4e4154532f312e300d0a4e6174732d42617463682d49643a2062310d0a4e6174732d42617463682d53657175656e63653a20330d0a4e6174732d42617463682d436f6d6d69743a20310d0a0d0a', '\x33');

INSERT INTO jetgate_store.message_1 VALUES (6, 1795433477281601041, 3, 1, 1558084138, 'jobs.2', NULL, '\x6a6f622035');
INSERT INTO jetgate_store.message_1 VALUES (7, 1795433477282633847, 3, 1, 1334741470, 'jobs.0', NULL, '\x6a6f622036');
INSERT INTO jetgate_store.message_1 VALUES (7, 1795433477282915808, 4, 1, 2022406486, 'news.sport', NULL, '\x6e6577732036');
INSERT INTO jetgate_store.message_1 VALUES (8, 1795433477283571457, 3, 1, 3185904349, 'jobs.1', NULL, '\x6a6f622037');
INSERT INTO jetgate_store.message_1 VALUES (8, 1795433477283842496, 4, 1, 2329999957, 'news.world', NULL, '\x6e6577732037');
INSERT INTO jetgate_store.message_1 VALUES (9, 1795433477284780708, 3, 1, 3824563961, 'jobs.2', NULL, '\x6a6f622038');
INSERT INTO jetgate_store.message_1 VALUES (9, 1795433477285129396, 4, 1, 3572745841, 'news.sport', NULL, '\x6e6577732038');
INSERT INTO jetgate_store.message_1 VALUES (10, 1795433477285822623, 3, 1, 295548410, 'jobs.0', NULL, '\x6a6f622039');
INSERT INTO jetgate_store.message_1 VALUES (10, 1795433477286086676, 4, 1, 647513458, 'news.world', NULL, '\x6e6577732039');
INSERT INTO jetgate_store.message_1 VALUES (11, 1795433477286640756, 3, 1, 1729561504, 'jobs.1', NULL, '\x6a6f62203130');
INSERT INTO jetgate_store.message_1 VALUES (11, 1795433477286898767, 4, 1, 1863280103, 'news.sport', NULL, '\x6e657773203130');
INSERT INTO jetgate_store.message_1 VALUES (12, 1795433477287414753, 3, 1, 2507964579, 'jobs.2', NULL, '\x6a6f62203131');
INSERT INTO jetgate_store.message_1 VALUES (12, 1795433477287649553, 4, 1, 2640635620, 'news.world', NULL, '\x6e657773203131');
INSERT INTO jetgate_store.message_1 VALUES (13, 1795433477288165239, 3, 1, 2251060055, 'jobs.0', NULL, '\x6a6f62203132');
INSERT INTO jetgate_store.message_1 VALUES (13, 1795433477288403241, 4, 1, 2385777936, 'news.sport', NULL, '\x6e657773203132');
INSERT INTO jetgate_store.message_1 VALUES (14, 1795433477289081765, 3, 1, 1950871636, 'jobs.1', NULL, '\x6a6f62203133');
INSERT INTO jetgate_store.message_1 VALUES (14, 1795433477289347417, 4, 1, 2086639123, 'news.world', NULL, '\x6e657773203133');
INSERT INTO jetgate_store.message_1 VALUES (15, 1795433477289858346, 3, 1, 2693633215, 'jobs.2', NULL, '\x6a6f62203134');
INSERT INTO jetgate_store.message_1 VALUES (15, 1795433477290102525, 4, 1, 2828399352, 'news.sport', NULL, '\x6e657773203134');
INSERT INTO jetgate_store.message_1 VALUES (16, 1795433477290618861, 3, 1, 1390811068, 'jobs.0', NULL, '\x6a6f62203135');
INSERT INTO jetgate_store.message_1 VALUES (16, 1795433477290863265, 4, 1, 1526624763, 'news.world', NULL, '\x6e657773203135');
INSERT INTO jetgate_store.message_1 VALUES (17, 1795433477291360603, 3, 1, 1102505032, 'jobs.1', NULL, '\x6a6f62203136');
INSERT INTO jetgate_store.message_1 VALUES (17, 1795433477291615911, 4, 1, 1236173327, 'news.sport', NULL, '\x6e657773203136');
INSERT INTO jetgate_store.message_1 VALUES (18, 1795433477292134340, 3, 1, 3017631563, 'jobs.2', NULL, '\x6a6f62203137');
INSERT INTO jetgate_store.message_1 VALUES (18, 1795433477292377065, 4, 1, 3150250252, 'news.world', NULL, '\x6e657773203137');
INSERT INTO jetgate_store.message_1 VALUES (19, 1795433477293064351, 3, 1, 3989724015, 'jobs.0', NULL, '\x6a6f62203138');
INSERT INTO jetgate_store.message_1 VALUES (19, 1795433477293424541, 4, 1, 3856022824, 'news.sport', NULL, '\x6e657773203138');
INSERT INTO jetgate_store.message_1 VALUES (20, 1795433477294272124, 3, 1, 530962540, 'jobs.1', NULL, '\x6a6f62203139');
INSERT INTO jetgate_store.message_1 VALUES (20, 1795433477294633397, 4, 1, 398310955, 'news.world', NULL, '\x6e657773203139');
INSERT INTO jetgate_store.message_1 VALUES (21, 1795433477295376247, 3, 1, 1408281401, 'jobs.2', NULL, '\x6a6f62203230');
INSERT INTO jetgate_store.message_1 VALUES (21, 1795433477296064577, 4, 1, 1541983614, 'news.sport', NULL, '\x6e657773203230');
INSERT INTO jetgate_store.message_1 VALUES (22, 1795433477297233237, 3, 1, 2711300154, 'jobs.0', NULL, '\x6a6f62203231');
INSERT INTO jetgate_store.message_1 VALUES (22, 1795433477297682809, 4, 1, 2843954813, 'news.world', NULL, '\x6e657773203231');
INSERT INTO jetgate_store.message_1 VALUES (23, 1795433477298371553, 3, 1, 2999704526, 'jobs.1', NULL, '\x6a6f62203232');
INSERT INTO jetgate_store.message_1 VALUES (23, 1795433477298650000, 4, 1, 3134438793, 'news.sport', NULL, '\x6e657773203232');
INSERT INTO jetgate_store.message_1 VALUES (24, 1795433477299232051, 3, 1, 1084250317, 'jobs.2', NULL, '\x6a6f62203233');
INSERT INTO jetgate_store.message_1 VALUES (24, 1795433477299506459, 4, 1, 1220034186, 'news.world', NULL, '\x6e657773203233');
INSERT INTO jetgate_store.message_1 VALUES (25, 1795433477304839895, 3, 1, 2489990182, 'jobs.0', NULL, '\x6a6f62203234');
INSERT INTO jetgate_store.message_1 VALUES (25, 1795433477305944471, 4, 1, 2624739937, 'news.sport', NULL, '\x6e657773203234');
INSERT INTO jetgate_store.message_1 VALUES (26, 1795433477306699823, 3, 1, 1711390501, 'jobs.1', NULL, '\x6a6f62203235');
INSERT INTO jetgate_store.message_1 VALUES (26, 1795433477306982715, 4, 1, 1847187810, 'news.world', NULL, '\x6e657773203235');
INSERT INTO jetgate_store.message_1 VALUES (27, 1795433477307256574, 2, 1, 2150169574, 'last.2', NULL, '\x3236');
INSERT INTO jetgate_store.message_1 VALUES (27, 1795433477307537212, 3, 1, 1968262353, 'jobs.2', NULL, '\x6a6f62203236');
INSERT INTO jetgate_store.message_1 VALUES (27, 1795433477307790852, 4, 1, 2101947030, 'news.sport', NULL, '\x6e657773203236');
INSERT INTO jetgate_store.message_1 VALUES (28, 1795433477308050894, 2, 1, 1917024485, 'last.3', NULL, '\x3237');
INSERT INTO jetgate_store.message_1 VALUES (28, 1795433477308321970, 3, 1, 2268778450, 'jobs.0', NULL, '\x6a6f62203237');
INSERT INTO jetgate_store.message_1 VALUES (28, 1795433477308566260, 4, 1, 2401413525, 'news.world', NULL, '\x6e657773203237');
INSERT INTO jetgate_store.message_1 VALUES (29, 1795433477308957832, 2, 1, 743457985, 'last.0', NULL, '\x3238');
INSERT INTO jetgate_store.message_1 VALUES (29, 1795433477309262547, 3, 1, 3643405302, 'jobs.1', NULL, '\x6a6f62203238');
INSERT INTO jetgate_store.message_1 VALUES (29, 1795433477309513943, 4, 1, 3509687729, 'news.sport', NULL, '\x6e657773203238');
INSERT INTO jetgate_store.message_1 VALUES (30, 1795433477309796189, 2, 1, 3728459714, 'last.1', NULL, '\x3239');
INSERT INTO jetgate_store.message_1 VALUES (30, 1795433477310065633, 3, 1, 725774581, 'jobs.2', NULL, '\x6a6f62203239');
INSERT INTO jetgate_store.message_1 VALUES (30, 1795433477310301386, 4, 1, 593106610, 'news.world', NULL, '\x6e657773203239');
INSERT INTO jetgate_store.message_1 VALUES (3, 1795433477314094906, 10, 1, 989300320, '$KV.settings.colour', NULL, '\x636f6c6f75722033');
INSERT INTO jetgate_store.message_1 VALUES (4, 1795433477314385895, 10, 1, 3997033099, '$KV.settings.colour', NULL, '\x636f6c6f75722034');
INSERT INTO jetgate_store.message_1 VALUES (5, 1795433477314657903, 10, 1, 475423112, '$KV.settings.colour', NULL, '\x636f6c6f75722035');
INSERT INTO jetgate_store.message_1 VALUES (6, 1795433477314913175, 10, 1, 252088956, '$KV.settings.colour', NULL, '\x636f6c6f75722036');
INSERT INTO jetgate_store.message_1 VALUES (7, 1795433477315211825, 10, 1, 4251783551, '$KV.settings.colour', NULL, '\x636f6c6f75722037');
INSERT INTO jetgate_store.message_1 VALUES (8, 1795433477315500349, 10, 1, 439140652, '$KV.settings.size', NULL, '\x39');
INSERT INTO jetgate_store.message_1 VALUES (9, 1795433477315753259, 10, 1, 2138643056, '$KV.settings.gone', NULL, '\x736f6f6e');
INSERT INTO jetgate_store.message_1 VALUES (10, 1795433477316015608, 10, 1, 3173020139, '$KV.settings.gone', '\x4e4154532f312e300d0a4b562d4f7065726174696f6e3a2044454c0d0a0d0a', '\x');
INSERT INTO jetgate_store.message_1 VALUES (12, 1795433477316573951, 10, 1, 3694666350, '$KV.settings.purged', '\x4e4154532f312e300d0a4b562d4f7065726174696f6e3a2050555247450d0a4e6174732d526f6c6c75703a207375620d0a0d0a', '\x');

INSERT INTO jetgate_store.schema_version VALUES ('0001');

INSERT INTO jetgate_store.secret VALUES ('ack-tokens', '\xdc7be65a11c94dfcb7990fa326dc9437b015490fb1d548cab58f67facf87c5bc');

INSERT INTO jetgate_store.source VALUES (9, 'ORDERS orders.eu.> >', 39, '4w4JwCR5');

INSERT INTO jetgate_store.stream VALUES (2, '$G', 'LAST', 1, 1795433477173629131, 1, false, '{"name":"LAST","subjects":["last.*"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.req.level":"0"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (5, '$G', 'HITS', 0, 1795433477180129580, 1, false, '{"name":"HITS","subjects":["hits.*"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"allow_msg_counter":true,"metadata":{"_nats.req.level":"2"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (6, '$G', 'PLANS', 0, 1795433477181495832, 1, false, '{"name":"PLANS","subjects":["plans.\u003e","due.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":true,"consumer_limits":{},"allow_msg_ttl":false,"allow_msg_schedules":true,"metadata":{"_nats.req.level":"2"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (7, '$G', 'BATCHES', 0, 1795433477182689309, 1, false, '{"name":"BATCHES","subjects":["batches"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"allow_atomic":true,"metadata":{"_nats.req.level":"2"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (8, '$G', 'COPY', 0, 1795433477183753169, 1, false, '{"name":"COPY","retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"mirror":{"name":"ORDERS"},"compression":"none","allow_direct":false,"mirror_direct":true,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.req.level":"0"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (9, '$G', 'SOME', 0, 1795433477186361287, 1, false, '{"name":"SOME","retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"sources":[{"name":"ORDERS","filter_subject":"orders.eu.\u003e"}],"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.req.level":"0"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (10, '$G', 'KV_settings', 1, 1795433477188285840, 1, false, '{"name":"KV_settings","subjects":["$KV.settings.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":5,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":true,"deny_purge":false,"allow_rollup_hdrs":true,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.req.level":"0"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (3, '$G', 'JOBS', 1, 1795433477175181708, 2, false, '{"name":"JOBS","subjects":["jobs.*"],"retention":"workqueue","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.req.level":"0"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (4, '$G', 'NEWS', 1, 1795433477178533779, 3, false, '{"name":"NEWS","subjects":["news.*"],"retention":"interest","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.req.level":"0"}}', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO jetgate_store.stream VALUES (1, '$G', 'ORDERS', 0, 1795433477137756878, 7, false, '{"name":"ORDERS","subjects":["orders.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":315360000000000000,"compression":"none","allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":true,"metadata":{"_nats.req.level":"1","owner":"shop"}}', DEFAULT, DEFAULT, DEFAULT);

SELECT pg_catalog.setval('jetgate_store.stream_number', 10, true);

ALTER TABLE ONLY jetgate_store.consumer
    ADD CONSTRAINT consumer_pkey PRIMARY KEY (stream, consumer);

ALTER TABLE ONLY jetgate_store.consumer
    ADD CONSTRAINT consumer_stream_name_key UNIQUE (stream, name);

ALTER TABLE ONLY jetgate_store.head
    ADD CONSTRAINT head_pkey PRIMARY KEY (stream);

ALTER TABLE ONLY jetgate_store.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (stream, app);

ALTER TABLE ONLY jetgate_store.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (node);

ALTER TABLE ONLY jetgate_store.purge
    ADD CONSTRAINT purge_pkey PRIMARY KEY (stream, n);

ALTER TABLE ONLY jetgate_store.reader_grant
    ADD CONSTRAINT reader_grant_pkey PRIMARY KEY (role, account, stream);

ALTER TABLE ONLY jetgate_store.remote
    ADD CONSTRAINT remote_pkey PRIMARY KEY (name);

ALTER TABLE ONLY jetgate_store.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (stream, subject);

ALTER TABLE ONLY jetgate_store.schema_version
    ADD CONSTRAINT schema_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY jetgate_store.secret
    ADD CONSTRAINT secret_pkey PRIMARY KEY (name);

ALTER TABLE ONLY jetgate_store.source
    ADD CONSTRAINT source_pkey PRIMARY KEY (stream, key);

ALTER TABLE ONLY jetgate_store.stream
    ADD CONSTRAINT stream_account_name_key UNIQUE (account, name);

ALTER TABLE ONLY jetgate_store.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (stream);

CREATE UNIQUE INDEX message_0_seq ON jetgate_store.message_0 USING btree (stream, seq) INCLUDE (subject);

CREATE UNIQUE INDEX message_1_seq ON jetgate_store.message_1 USING btree (stream, seq) INCLUDE (subject);

CREATE INDEX replaced_stream ON jetgate_store.replaced USING btree (stream, n);
