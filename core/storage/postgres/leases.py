"""LeaseStore in PostgreSQL: advisory locks, heartbeats and epochs.

Streams hash into lease groups. A node holds one session-level advisory lock per group it leads, all
on one direct connection that does nothing else. Today a node leads all groups or none.

Heartbeats are written on the same session, so each proves that the locks still exist. A heartbeat
need not survive a crash of the database (`synchronous_commit = off`); an epoch must, and does.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import asyncpg

from core.errors import Fenced, Unavailable
from core.storage.health import Outage
from core.storage.leases import Holder, NodeRow, PeerRow
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble
from core.storage.postgres.locks import LEASE_GROUPS, LOCK_CLASS

# Group 0 is taken first: whoever has it finds the others free.
_TAKE_FIRST = f"select pg_try_advisory_lock({LOCK_CLASS}, 0)"
_TAKE_REST = f"""
    select count(*) filter (where not pg_try_advisory_lock({LOCK_CLASS}, g))
      from generate_series(1, {LEASE_GROUPS - 1}) as g
"""

# A holder without a heartbeat is silent since its session began. A process id may be reused, so a
# heartbeat from before the session began is that of another node and does not count.
_HOLDER = f"""
    select l.pid, coalesce(n.node, '') as node, coalesce(n.nats, '') as nats,
           (extract(epoch from clock_timestamp() - greatest(n.seen, a.backend_start))
             * 1000000000)::bigint as silence
      from pg_locks l
      left join lateral (
             select node, nats, seen from jetgate_store.node
              where session_pid = l.pid order by seen desc limit 1) as n on true
      left join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'advisory' and l.classid = {LOCK_CLASS} and l.objid = 0 and l.objsubid = 2
       and l.granted
       and l.database = (select oid from pg_database where datname = current_database())
"""

TIME = "select (extract(epoch from clock_timestamp()) * 1000000000)::bigint"
"""The time of the database, nanoseconds since the Unix epoch."""

_BEAT = """
    insert into jetgate_store.node
           (node, session_pid, started, seen, nats, http, clock_ahead, server_id, version,
            route_host, route_port, links)
    values ($1, pg_backend_pid(), clock_timestamp(), clock_timestamp(), $2, $3, $4, $5, $6,
            coalesce(nullif($7, ''), host(inet_client_addr()), '127.0.0.1'), $8, $9)
    on conflict (node) do update
       set session_pid = excluded.session_pid, seen = excluded.seen,
           nats = excluded.nats, http = excluded.http, clock_ahead = excluded.clock_ahead,
           server_id = excluded.server_id, version = excluded.version,
           route_host = excluded.route_host, route_port = excluded.route_port,
           links = excluded.links
 returning (extract(epoch from clock_timestamp()) * 1000000000)::bigint
"""

_PEERS = """
    select server_id, route_host as host, route_port as port,
           (extract(epoch from clock_timestamp() - seen) * 1000000000)::bigint as silence,
           (extract(epoch from clock_timestamp() - started) * 1000000000)::bigint as age
      from jetgate_store.node where route_port > 0
"""

_OUTAGES = "update jetgate_store.node set outages = $2 where node = $1"

# A table that nobody else sees and that is gone with the transaction. Plain storage: compressed, a
# megabyte would be a few bytes.
_FILL = """
    create table jetgate_store.space_probe (filler text);
    alter table jetgate_store.space_probe alter filler set storage plain;
    insert into jetgate_store.space_probe select repeat('x', 8000) from generate_series(1, 128)
"""

# Heads are locked in the order in which writers lock them, against deadlocks. The token is in a
# column of the catalogue's head that has no other use. Consumers get the epoch of their stream.
_TOKEN = "select bytes from jetgate_store.head where stream = 0"
_LOCK_HEADS = "select stream from jetgate_store.head order by stream for update"
_BUMP_HEADS = """
    update jetgate_store.head
       set epoch = epoch + 1, bytes = case when stream = 0 then $1 else bytes end
"""
_BUMP_CONSUMERS = """
    update jetgate_store.consumer c set epoch = h.epoch
      from jetgate_store.head h where h.stream = c.stream
"""


class PostgresLeases:
    """LeaseStore on a connection of its own."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Any = None
        self._pid = 0
        self._told: tuple[Outage, ...] = ()  # what the row has, as far as this session knows

    @property
    def pid(self) -> int:
        """The process id of the session, or of the last one; 0 before the first."""
        return self._pid

    @property
    def is_open(self) -> bool:
        """Whether there is a session; one may be lost without this node knowing yet."""
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> None:
        """Open a session."""
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
        """End the session without waiting."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # A connection that broke in the middle of an operation may raise even here.
            with contextlib.suppress(asyncpg.InternalClientError, OSError):
                connection.terminate()

    async def take(self) -> bool:
        """Take the locks of all groups, or none."""
        with self._translated() as connection:
            if not await connection.fetchval(_TAKE_FIRST):
                return False
            if await connection.fetchval(_TAKE_REST) == 0:
                return True
            await connection.execute("select pg_advisory_unlock_all()")
            return False

    async def holder(self) -> Holder | None:
        """Return the holder of the lock of the first group."""
        with self._translated() as connection:
            row = await connection.fetchrow(_HOLDER)
            if row is None:
                return None
            return Holder(row["pid"], row["silence"] or 0, row["node"], row["nats"])

    async def end_session(self, pid: int) -> None:
        """Terminate a backend, which runs under this node's role."""
        with self._translated() as connection:
            await connection.execute("select pg_terminate_backend($1)", pid)

    async def bump(self, token: int, expected: int | None) -> int:
        """Give every head and consumer a new epoch, durably; return the catalogue's."""
        with self._translated() as connection:
            async with connection.transaction():
                await connection.execute("set local synchronous_commit = on")
                await connection.execute(_LOCK_HEADS)
                if expected is not None and await connection.fetchval(_TOKEN) != expected:
                    raise Fenced("another node has led since")
                await connection.execute(_BUMP_HEADS, token)
                await connection.execute(_BUMP_CONSUMERS)
                return int(
                    await connection.fetchval(
                        "select epoch from jetgate_store.head where stream = 0"
                    )
                )

    async def token(self) -> int:
        """Return the token that the last `bump` stored."""
        with self._translated() as connection:
            return int(await connection.fetchval(_TOKEN))

    async def beat(self, row: NodeRow) -> int:
        """Write the row of a node with the current time; return that."""
        with self._translated() as connection:
            time = await connection.fetchval(
                _BEAT,
                *(row.node, row.nats, row.http, row.clock_ahead),
                *(row.server_id, row.version, row.route_host, row.route_port, row.links),
            )
            if row.outages != self._told:
                # It may need room, of which there may be none.
                with contextlib.suppress(asyncpg.InsufficientResourcesError):
                    told = json.dumps([asdict(outage) for outage in row.outages])
                    await connection.execute(_OUTAGES, row.node, told)
                    self._told = row.outages
            return int(time)

    async def peers(self) -> Sequence[PeerRow]:
        """Return all nodes that accept routes."""
        with self._translated() as connection:
            return [PeerRow(**row) for row in await connection.fetch(_PEERS)]

    async def has_space(self) -> bool:
        """Say whether a table could grow by a megabyte."""
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
        """Delete the row of a node, release the locks and close the session."""
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
