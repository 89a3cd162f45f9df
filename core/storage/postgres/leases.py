"""Leases in PostgreSQL: advisory locks, heartbeats and epochs.

Each stream belongs to a lease group; the node that holds the advisory lock of a group leads its
streams. A node holds one session-level advisory lock per owned group, all on one direct connection
that has no other use. Rows of table `lease` name the owner of each group, for operators and for a
node that starts again: while a row has the node's own token, no other node has led the group.

*Holders.* Any role may lock any key. Each acquisition therefore locks a fresh random key, and
writes key and session to the group's row in `lease_holder`, which no other role can write. A group
is held while the session of its row holds the key of its row; other locks do not count. `acquire`
keeps the row locked between its check and its write, so only one of two nodes acquires.

*The directory.* `bump` locks the head of the stream directory (stream 0) after the rows of the
groups and before the heads of streams. A running change of the directory ends first, so the new
leader reads its result. A change holds the row of its group, or the head of its stream under the
epoch, so a former leader makes none afterwards.

Heartbeats are written on the same session, so each proves that the locks still exist. A heartbeat
may be lost in a crash of the database (`synchronous_commit = off`); an epoch is written durably.
"""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import asyncpg

from core.errors import Unavailable
from core.storage.health import Outage
from core.storage.leases import ForeignLocks, Holder, NodeRow, PeerRow, RaisedEpochs
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble
from core.storage.postgres.foreign_locks import foreign_locks
from core.storage.postgres.locks import IS_HELD, LOCK_CLASS, SERIALIZE_BUMPS, fresh_key
from core.units import LeaseGroup, Nanos

# Another node is acquiring a row that is locked.
_LOCK_HOLDERS = """
    select lease_group from jetgate_store.lease_holder
     where lease_group = any($1::int[]) order by lease_group for update skip locked
"""
# A statement of its own, because it must read the locks after the rows are locked. The lock is
# tried in the select list: in a condition it might be tried for groups that are not free.
_TAKE = f"""
    with held as materialized (
      select h.lease_group from jetgate_store.lease_holder h cross join pg_locks k
        join pg_stat_activity a on {IS_HELD}
    ), free as materialized (
      select x.lease_group, x.key from unnest($1::int[], $2::int[]) as x(lease_group, key)
       where x.lease_group not in (select lease_group from held)
    ), tried as materialized (
      select lease_group, key, pg_try_advisory_lock({LOCK_CLASS}, key) as is_locked from free
    )
    update jetgate_store.lease_holder h
       set lock_key = t.key::oid, session_pid = pg_backend_pid(),
           session_role = (select usesysid from pg_stat_activity where pid = pg_backend_pid())
      from tried t where t.is_locked and h.lease_group = t.lease_group
 returning h.lease_group
"""
_GIVE = f"select count(pg_advisory_unlock({LOCK_CLASS}, k)) from unnest($1::int[]) as k"

# A holder without a heartbeat is silent since its session began. A process id may be reused: a
# heartbeat older than the session is another node's and does not count.
_HOLDERS = f"""
    select array_agg(h.lease_group::int) as groups, a.pid,
           coalesce(n.node, '') as node, coalesce(n.nats, '') as nats,
           (extract(epoch from clock_timestamp() - greatest(n.seen, a.backend_start))
             * 1000000000)::bigint as silence
      from jetgate_store.lease_holder h
      cross join pg_locks k
      join pg_stat_activity a on {IS_HELD}
      left join lateral (
             select node, nats, seen from jetgate_store.node
              where session_pid = a.pid order by seen desc limit 1) as n on true
     group by a.pid, a.backend_start, n.node, n.nats, n.seen
"""

_DIRECTORY = 0
"""Stream number of the directory's head, and the number of its lease group."""

TIME = "select (extract(epoch from clock_timestamp()) * 1000000000)::bigint"
"""Query of the time of the database, in nanoseconds since the Unix epoch."""

_BEAT = """
    insert into jetgate_store.node
           (node, session_pid, started, seen, nats, http, clock_ahead, server_id, version,
            route_host, route_port, links, tags, lease_groups, streams)
    values ($1, pg_backend_pid(), clock_timestamp(), clock_timestamp(), $2, $3, $4, $5, $6,
            coalesce(nullif($7, ''), host(inet_client_addr()), '127.0.0.1'), $8, $9,
            $10, $11, $12)
    on conflict (node) do update
       set session_pid = excluded.session_pid, seen = excluded.seen,
           nats = excluded.nats, http = excluded.http, clock_ahead = excluded.clock_ahead,
           server_id = excluded.server_id, version = excluded.version,
           route_host = excluded.route_host, route_port = excluded.route_port,
           links = excluded.links, tags = excluded.tags,
           lease_groups = excluded.lease_groups, streams = excluded.streams
 returning (extract(epoch from clock_timestamp()) * 1000000000)::bigint
"""

_PEERS = """
    select node, server_id, route_host as host, route_port as port,
           (extract(epoch from clock_timestamp() - seen) * 1000000000)::bigint as silence,
           (extract(epoch from clock_timestamp() - started) * 1000000000)::bigint as age,
           (select last_seq from jetgate_store.head where stream = 0) as directory_version,
           tags
      from jetgate_store.node where server_id <> ''
"""

_OUTAGES = "update jetgate_store.node set outages = $2 where node = $1"

# A table that no other session sees, gone with the transaction. Plain storage: compressed, a
# megabyte would be a few bytes.
_FILL = """
    create table jetgate_store.space_probe (filler text);
    alter table jetgate_store.space_probe alter filler set storage plain;
    insert into jetgate_store.space_probe select repeat('x', 8000) from generate_series(1, 128)
"""

# Ends sessions of a node that stalls in the middle of a transaction, or of a COPY: they do not end
# by themselves while the node's machine answers. Readers may lock the heads too, in a weak mode.
# Sessions that this role may not end are left out, since one refusal would fail the whole
# statement.
_WAIT_FOR_LOCKS = "set local lock_timeout = '1s'"
_END_STANDING_STILL = """
    select pg_terminate_backend(a.pid) from pg_stat_activity a join pg_locks l using (pid)
     where l.relation in ('jetgate_store.head'::regclass, 'jetgate_store.lease'::regclass)
       and l.granted and l.mode <> 'AccessShareLock'
       and l.database = (select oid from pg_database where datname = current_database())
       and a.pid <> pg_backend_pid() and a.wait_event = 'ClientRead'
       and a.state_change < clock_timestamp() - interval '1 second'
       and pg_has_role(a.usesysid, 'usage')
"""
# Rows of groups before heads, and heads in the order of writers, against deadlocks. The head of the
# directory is locked by a statement of its own: the next one then sees every created stream.
# Consumers get the epoch of their stream.
_TOKENS = """
    select lease_group, token from jetgate_store.lease where lease_group = any($1::int[])
"""
# Bumps are serialized (`SERIALIZE_BUMPS`). Of two concurrent ones, one that got its number at the
# first row could wait at the next for one with a later number.
_LOCK_LEASES = """
    select lease_group from jetgate_store.lease
     where lease_group = any($1::int[]) and ($2::bigint is null or token = $2)
     order by lease_group for update
"""
_LOCK_DIRECTORY = "select from jetgate_store.head where stream = 0 for update"
_LOCK_HEADS = """
    select stream from jetgate_store.head
     where stream in (select stream from jetgate_store.stream
                       where lease_group = any($1::int[]) and not dropped)
     order by stream for update
"""
_BUMP_HEADS = "update jetgate_store.head set epoch = epoch + 1 where stream = any($1::int[])"
_BUMP_CONSUMERS = """
    update jetgate_store.consumer c set epoch = h.epoch
      from jetgate_store.head h where h.stream = c.stream and h.stream = any($1::int[])
"""
# A node that continues in another session keeps its start of leadership.
_LEAD = """
    update jetgate_store.lease
       set token = $2, node = $3, since = case when token = $2 then since else clock_timestamp() end
     where lease_group = any($1::int[])
"""
# A later bump has a higher number.
_FENCING_TOKEN = "select pg_current_xact_id()::text::bigint"


class PostgresLeases:
    """The locks, heartbeats and epochs of a node in PostgreSQL, on one connection of their own.

    All methods raise Unavailable if the connection is lost.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Any = None
        self._pid = 0
        self._keys: dict[LeaseGroup, int] = {}  # keys of the locks of this session, by group
        self._told: tuple[Outage, ...] = ()  # outages in the row, as last written by this session

    @property
    def pid(self) -> int:
        """Process id of the session's PostgreSQL backend, or of the last session.

        0 before the first.
        """
        return self._pid

    @property
    def is_open(self) -> bool:
        """True while the session with PostgreSQL is open, as far as this node knows.

        It may be lost already.
        """
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> None:
        """Open a new session; close an earlier one.

        Raises Unavailable if PostgreSQL does not answer.
        """
        self.close()
        self._told = ()
        try:
            self._connection = await self._connector.open(
                Purpose.LOCK, settings={"synchronous_commit": "off"}
            )
        except DATABASE_ERRORS as error:
            raise Unavailable(trouble(error)) from error
        self._pid = self._connection.get_server_pid()

    def close(self) -> None:
        """End the session without waiting. PostgreSQL then releases its locks."""
        connection, self._connection = self._connection, None
        self._keys.clear()
        if connection is not None:
            # A connection that broke in the middle of an operation may raise even here.
            with contextlib.suppress(asyncpg.InternalClientError, OSError):
                connection.terminate()

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Try to lock lease groups without waiting.

        Return the groups that this session now holds.
        """
        keys = {group: fresh_key() for group in groups if group not in self._keys}
        with self._translated() as connection:
            async with connection.transaction():
                rows = await connection.fetch(_LOCK_HOLDERS, list(keys))
                found = {row[0]: keys[row[0]] for row in rows}
                taken = await connection.fetch(_TAKE, list(found), list(found.values()))
        self._keys.update((row[0], keys[row[0]]) for row in taken)
        return frozenset(group for group in groups if group in self._keys)

    async def release(self, groups: Collection[LeaseGroup]) -> None:
        """Release the locks of lease groups. Groups that this session does not hold are ignored."""
        with self._translated() as connection:
            keys = [self._keys[group] for group in groups if group in self._keys]
            await connection.execute(_GIVE, keys)
        for group in groups:
            self._keys.pop(group, None)

    async def holders(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]:
        """Return the session that holds the lock of each lease group.

        Groups left out have no holder.
        """
        with self._translated() as connection:
            found = {}
            for row in await connection.fetch(_HOLDERS):
                holder = Holder(row["pid"], row["silence"] or Nanos(0), row["node"], row["nats"])
                found.update(dict.fromkeys(row["groups"], holder))
        wanted = frozenset(groups)
        return {group: holder for group, holder in found.items() if group in wanted}

    async def foreign(self) -> Sequence[ForeignLocks]:
        """Return the locks with jetgate's keys that sessions other than nodes hold or await."""
        with self._translated() as connection:
            return await foreign_locks(connection)

    async def end_session(self, pid: int) -> None:
        """Terminate the PostgreSQL backend `pid`, which must run under this node's role."""
        with self._translated() as connection:
            await connection.execute("select pg_terminate_backend($1)", pid)

    async def bump(
        self, groups: Collection[LeaseGroup], token: int, expected: int | None, node: str
    ) -> RaisedEpochs:
        """Raise the epochs of all streams and consumers of lease groups durably.

        Record `node` as owner. Waits for transactions of the former leader; ends those that have
        been idle for a second. Groups with another stored token than `expected` are left out; None
        accepts every token.
        """
        with self._translated() as connection:
            while True:
                try:
                    return await self._bump(connection, groups, token, expected, node)
                except asyncpg.LockNotAvailableError:
                    await connection.execute(_END_STANDING_STILL)

    async def _bump(
        self,
        connection: Any,
        groups: Collection[LeaseGroup],
        token: int,
        expected: int | None,
        node: str,
    ) -> RaisedEpochs:
        async with connection.transaction():
            await connection.execute("set local synchronous_commit = on")
            await connection.execute(_WAIT_FOR_LOCKS)
            await connection.execute(SERIALIZE_BUMPS)
            rows = await connection.fetch(_LOCK_LEASES, list(groups), expected)
            found = [row[0] for row in rows]
            await connection.execute(_LOCK_DIRECTORY)
            streams = [row[0] for row in await connection.fetch(_LOCK_HEADS, found)]
            heads = [_DIRECTORY, *streams] if _DIRECTORY in found else streams
            await connection.execute(_BUMP_HEADS, heads)
            await connection.execute(_BUMP_CONSUMERS, streams)
            await connection.execute(_LEAD, found, token, node)
            claim = await connection.fetchval(_FENCING_TOKEN)
        # After COMMIT: an uncommitted bump must not count as leadership.
        return RaisedEpochs(frozenset(found), int(claim))

    async def tokens(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, int]:
        """Return the session token that the last `bump` has stored for each lease group."""
        with self._translated() as connection:
            return {row[0]: row[1] for row in await connection.fetch(_TOKENS, list(groups))}

    async def beat(self, row: NodeRow) -> Nanos:
        """Write the row of this node as a heartbeat.

        Returns:
            The time of the database, in nanoseconds since the Unix epoch.
        """
        with self._translated() as connection:
            time = await connection.fetchval(
                _BEAT,
                *(row.node, row.nats, row.http, row.clock_ahead),
                *(row.server_id, row.version, row.route_host, row.route_port, row.links),
                *(row.tags, row.lease_groups, row.streams),
            )
            if row.outages != self._told:
                # The update may need disk space, which may be exhausted.
                with contextlib.suppress(asyncpg.InsufficientResourcesError):
                    told = json.dumps([asdict(outage) for outage in row.outages])
                    await connection.execute(_OUTAGES, row.node, told)
                    self._told = row.outages
            return Nanos(int(time))

    async def peers(self) -> Sequence[PeerRow]:
        """Return all nodes that have route connections or accept them, this one included."""
        with self._translated() as connection:
            return [PeerRow(**row) for row in await connection.fetch(_PEERS)]

    async def has_space(self) -> bool:
        """Write one megabyte to a table and roll back. Return False if the disk is full."""
        with self._translated() as connection:
            attempt = connection.transaction()
            await attempt.start()
            try:
                await connection.execute(_FILL)
            except asyncpg.InsufficientResourcesError:
                return False
            finally:
                await attempt.rollback()
            return True

    async def leave(self, row: NodeRow) -> None:
        """Delete the row of this node, release all locks and close the session.

        Called when a node stops.

        Rows of nodes without a heartbeat for a day are deleted too.
        """
        with self._translated() as connection:
            await connection.execute(
                "delete from jetgate_store.node"
                " where node = $1 or seen < clock_timestamp() - interval '1 day'",
                row.node,
            )
            await connection.execute("select pg_advisory_unlock_all()")
            await connection.close(timeout=0.5)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[Any]:
        if self._connection is None:
            raise Unavailable("there is no session with PostgreSQL")
        try:
            yield self._connection
        except DATABASE_ERRORS as error:
            raise Unavailable(trouble(error)) from error
