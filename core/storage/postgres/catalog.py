"""The catalogue in PostgreSQL: which streams and consumers exist, and the states of consumers.

Every transaction that changes it checks the epoch of the catalogue's own head row (stream 0), so a
deposed node can create, change or drop nothing. Stream numbers are never reused.

*Failure.* A change whose COMMIT was sent and not answered is repeated, over whatever the first
attempt left, until its outcome is known, so that memory and storage never differ. When the outcome
stays unknown the node must load everything anew (`in_doubt`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.errors import Fenced, OutcomeUnknown, StorageError
from core.storage.interface import ConsumerRow, Head, PurgeRow, StateWrite, StreamRow
from core.storage.postgres.connect import DATABASE_ERRORS, fetch, unavailable
from core.storage.postgres.ledger import LOAD_LEDGERS, entry_of
from core.storage.postgres.locks import LEASE_GROUPS
from core.stream.ledger import Entry

_LOAD_STREAMS = """
    select s.stream, s.account, s.name, s.shelf, s.created, s.config,
           h.epoch, h.first_seq, h.last_seq, h.last_ts, h.msgs, h.bytes, s.lease_group
    from jetgate_store.stream s join jetgate_store.head h using (stream)
    where not s.dropped order by s.stream
"""
_LOAD_CONSUMERS = """
    select c.stream, c.consumer, c.name, c.created, c.epoch, c.config, c.state
    from jetgate_store.consumer c join jetgate_store.stream s using (stream)
    where not s.dropped order by c.stream, c.consumer
"""
_WRITE_STATES = """
    update jetgate_store.consumer c
    set state = x.state, delivered_stream_seq = x.delivered, ack_floor_stream_seq = x.ack_floor,
        ack_pending = x.pending, redelivered = x.redelivered
    from unnest($1::int[], $2::int[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[],
                $7::bigint[], $8::bigint[])
         as x(stream, consumer, epoch, state, delivered, ack_floor, pending, redelivered)
    where c.stream = x.stream and c.consumer = x.consumer and c.epoch = x.epoch
    returning c.stream, c.consumer
"""
_RAISE_HEADS = """
    update jetgate_store.head h
       set last_seq = x.last, first_seq = case h.msgs when 0 then x.last + 1 else h.first_seq end
      from unnest($1::int[], $2::bigint[]) as x(stream, last)
     where h.stream = x.stream and h.last_seq < x.last
"""

# The stream goes to the lease group that has the fewest, of several the lowest.
_ADD_STREAM = f"""
    with s as (
      insert into jetgate_store.stream (account, name, shelf, created, config, lease_group)
      select $1, $2, $3, $4, $5, g
        from generate_series(0, {LEASE_GROUPS - 1}) as g
        left join jetgate_store.stream o on o.lease_group = g and not o.dropped
       group by g order by count(o.stream), g limit 1
      returning stream, lease_group),
    h as (
      insert into jetgate_store.head (stream, epoch, first_seq, last_seq, last_ts, msgs, bytes)
      select stream, $6, $7, $8, 0, 0, 0 from s)
    select stream, lease_group from s
"""

# Seconds between two attempts to find out the outcome of a change, and for all of them.
_RETRY_S = 0.1
_OUTCOME_TIMEOUT_S = 2.0

Statement = tuple[Any, ...]
"""SQL and its arguments."""


class PostgresCatalog:
    """Catalog and StateStore over a pool.

    Args:
        pool: sessions that may write.
        in_doubt: called when the outcome of a change stays unknown.

    Attributes:
        epoch: that of the catalogue's head.
        changes: how many the catalogue had since the beginning, as far as this node knows.
    """

    def __init__(self, pool: Any, in_doubt: Callable[[str], None]) -> None:
        self._pool = pool
        self._in_doubt = in_doubt
        self.epoch = 0
        self.changes = 0

    async def _fetch(self, statement: str, *arguments: object) -> list[Any]:
        return await fetch(self._pool, statement, *arguments)

    async def _change(self, *statements: Statement, undo: Sequence[Statement] = ()) -> Any:
        """Run statements in one transaction fenced by the catalogue's epoch.

        Args:
            statements: what to change.
            undo: what to run before them if an earlier attempt may have been committed.

        Returns the first row of the last statement. Raises Fenced, Unavailable, OutcomeUnknown.
        """
        try:
            return await self._attempt(statements)
        except OutcomeUnknown:
            pass
        try:
            async with asyncio.timeout(_OUTCOME_TIMEOUT_S):
                return await self._retry((*undo, *statements))
        except TimeoutError:
            self._in_doubt("the outcome of a change of the catalogue is not known")
            raise OutcomeUnknown("no answer to COMMIT of a change of the catalogue") from None

    async def _retry(self, statements: Sequence[Statement]) -> Any:
        """Repeat a transaction until it is known to be committed."""
        while True:
            try:
                return await self._attempt(statements)
            except StorageError:
                # Fenced too: the lane may just have bumped the epochs for the same reason.
                await asyncio.sleep(_RETRY_S)

    async def _attempt(self, statements: Sequence[Statement]) -> Any:
        complete = False
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                # Waits for any earlier change whose COMMIT is still in flight.
                held = await connection.fetchval(
                    "update jetgate_store.head set last_seq = last_seq + 1 "
                    "where stream = 0 and epoch = $1 returning last_seq",
                    self.epoch,
                )
                if held is None:
                    raise Fenced(f"catalogue epoch {self.epoch} is over")
                row = None
                for statement, *arguments in statements:
                    row = await connection.fetchrow(statement, *arguments)
                complete = True
        except DATABASE_ERRORS as error:
            if complete:
                raise OutcomeUnknown(f"connection lost during COMMIT: {error}") from error
            raise await unavailable(self._pool, error) from error
        self.changes = held
        return row

    async def load(self) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
        """Return all streams, consumers and unfinished purges."""
        streams = [
            StreamRow(row[0], row[1], row[2], row[3], row[4], row[5], Head(*row[6:12]), row[12])
            for row in await self._fetch(_LOAD_STREAMS)
        ]
        consumers = [ConsumerRow(*row) for row in await self._fetch(_LOAD_CONSUMERS)]
        purges = await self._fetch(
            "select stream, n, filters, up_to_seq from jetgate_store.purge order by stream, n"
        )
        return streams, consumers, [PurgeRow(r[0], r[1], tuple(r[2]), r[3]) for r in purges]

    async def ledgers(self) -> list[tuple[int, Entry]]:
        """Return what the ledgers of all streams have, each with its stream."""
        return list(map(entry_of, await self._fetch(LOAD_LEDGERS)))

    async def add_stream(
        self, account: str, name: str, shelf: int, created: int, config: str, head: Head
    ) -> tuple[int, int]:
        """Add a stream with its head row; return its number and its lease group."""
        row = await self._change(
            (
                _ADD_STREAM,
                account,
                name,
                shelf,
                created,
                config,
                head.epoch,
                head.first_seq,
                head.last_seq,
            ),
            undo=(
                (
                    "with s as (delete from jetgate_store.stream where account = $1 and name = $2 "
                    "returning stream) delete from jetgate_store.head using s "
                    "where head.stream = s.stream",
                    account,
                    name,
                ),
            ),
        )
        return row[0], row[1]

    async def set_stream(self, stream: int, config: str) -> None:
        """Change a stream's configuration."""
        await self._change(
            ("update jetgate_store.stream set config = $2 where stream = $1", stream, config)
        )

    async def raise_heads(self, last: Mapping[int, int]) -> None:
        """Let streams, by number, go on behind a sequence that they do not have."""
        await self._change((_RAISE_HEADS, list(last), list(last.values())))

    async def drop_stream(self, stream: int) -> None:
        """Delete a stream; its messages are deleted later (`dropped_streams`)."""
        await self._change(
            ("delete from jetgate_store.consumer where stream = $1", stream),
            ("delete from jetgate_store.purge where stream = $1", stream),
            ("delete from jetgate_store.replaced where stream = $1", stream),
            ("delete from jetgate_store.source where stream = $1", stream),
            ("delete from jetgate_store.schedule where stream = $1", stream),
            ("delete from jetgate_store.ledger where stream = $1", stream),
            ("delete from jetgate_store.head where stream = $1", stream),
            (
                "update jetgate_store.stream set dropped = true, name = '' || stream || ' dropped' "
                "where stream = $1",
                stream,
            ),
        )

    async def dropped_streams(self) -> list[tuple[int, int]]:
        """Return (stream, shelf) of deleted streams that may still have messages."""
        rows = await self._fetch("select stream, shelf from jetgate_store.stream where dropped")
        return [(r[0], r[1]) for r in rows]

    async def forget_stream(self, stream: int) -> None:
        """Delete the row of a deleted stream, after its messages."""
        await self._fetch("delete from jetgate_store.stream where stream = $1 and dropped", stream)

    async def add_consumer(self, row: ConsumerRow) -> int:
        """Add a consumer; return its number, never used before in its stream.

        A row of that name, left by an earlier attempt with unknown outcome, is replaced.
        """
        found = await self._change(
            (
                "delete from jetgate_store.consumer where stream = $1 and name = $2",
                row.stream,
                row.name,
            ),
            (
                "with s as (update jetgate_store.stream set next_consumer = next_consumer + 1 "
                "where stream = $1 returning next_consumer - 1 as n) "
                "insert into jetgate_store.consumer "
                "(stream, consumer, name, created, epoch, config, state) "
                # The epoch as it is now: it may have been bumped since the row was made.
                "select $1, n, $2, $3, h.epoch, $4, $5 from s, jetgate_store.head h "
                "where h.stream = $1 returning consumer",
                row.stream,
                row.name,
                row.created,
                row.config,
                row.state,
            ),
        )
        return int(found[0])

    async def set_consumer(self, stream: int, consumer: int, config: str) -> None:
        """Change a consumer's configuration."""
        await self._change(
            (
                "update jetgate_store.consumer set config = $3 where stream = $1 and consumer = $2",
                stream,
                consumer,
                config,
            )
        )

    async def drop_consumer(self, stream: int, consumer: int) -> None:
        """Delete a consumer."""
        await self._change(
            (
                "delete from jetgate_store.consumer where stream = $1 and consumer = $2",
                stream,
                consumer,
            )
        )

    async def write(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]:
        """Write the states of consumers in one statement; return the (stream, consumer) written.

        The state of a consumer that was deleted, or has another epoch, is not written.
        """
        rows = await self._fetch(
            _WRITE_STATES,
            [s.stream for s in states],
            [s.consumer for s in states],
            [s.epoch for s in states],
            [s.state for s in states],
            [s.delivered_stream_seq for s in states],
            [s.ack_floor_stream_seq for s in states],
            [s.ack_pending for s in states],
            [s.redelivered for s in states],
        )
        return {(row[0], row[1]) for row in rows}
