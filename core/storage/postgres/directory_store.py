"""The stream directory in PostgreSQL: streams, consumers, and the states of consumers.

Every change of a stream increments the version of the directory: the `last_seq` of its own head row
(stream 0). That row stays locked until the transaction ends, so changes of all nodes are
serialized. A node that finds changes of other nodes since its last read applies them to its memory
and repeats its checks within the transaction. To create a stream, a node must own its lease group;
to change or delete one, it must have the stream's current epoch. Consumers are changed under the
epoch of their stream alone (`consumer_changes`); their states are in `consumer_states`. Stream
numbers are never reused.

*Locks.* All transactions lock in this order: lease, heads by number, streams. That includes those
by which a node takes over streams.

*Failure.* A change whose COMMIT was not answered is repeated until its outcome is known, so memory
and storage do not differ. The id of the request identifies rows that an earlier attempt has
created; no other rows are touched. If the outcome stays unknown, the node must load all streams
again (`in_doubt`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import Fenced
from core.rules.stream.transactions.ledger import LedgerEntry
from core.storage.interface import (
    ConsumerRow,
    DirectoryNews,
    DirectoryRow,
    DirectoryView,
    Head,
    NewStream,
    PurgeRow,
    StateWrite,
    StreamRow,
)
from core.storage.postgres import consumer_changes, consumer_states
from core.storage.postgres.connect import fetch
from core.storage.postgres.directory_source import DELETIONS_MAX, read_news
from core.storage.postgres.ledger import LOAD_LEDGERS, entry_of
from core.storage.postgres.outcomes import Outcomes
from core.units import Epoch, LeaseGroup

_LOAD_STREAMS = """
    select s.stream, s.account, s.name, s.shelf, s.created, s.config, s.lease_group, s.creation,
           s.consumer_changes, h.epoch, h.first_seq, h.last_seq, h.last_ts, h.msgs, h.bytes
    from jetgate_store.stream s join jetgate_store.head h using (stream)
    where not s.dropped and s.lease_group = any($1::int[]) order by s.stream
"""
_LOAD_CONSUMERS = """
    select c.stream, c.consumer, c.name, c.created, c.epoch, c.config, c.state, c.creation
    from jetgate_store.consumer c join jetgate_store.stream s using (stream)
    where not s.dropped and s.lease_group = any($1::int[]) order by c.stream, c.consumer
"""
_HEAD = """
    select epoch, first_seq, last_seq, last_ts, msgs, bytes
    from jetgate_store.head where stream = 0
"""
_LOAD_DROPPED = """
    select stream, shelf from jetgate_store.stream where dropped and lease_group = any($1::int[])
"""
_LOAD_PURGES = """
    select p.stream, p.n, p.filters, p.up_to_seq
    from jetgate_store.purge p join jetgate_store.stream s using (stream)
    where s.lease_group = any($1::int[]) order by p.stream, p.n
"""
_RAISE_HEADS = """
    update jetgate_store.head h
       set last_seq = x.last, first_seq = case h.msgs when 0 then x.last + 1 else h.first_seq end
      from unnest($1::int[], $2::bigint[], $3::bigint[]) as x(stream, epoch, last)
     where h.stream = x.stream and h.epoch = x.epoch and h.last_seq < x.last
"""

_RAISE = "update jetgate_store.head set last_seq = last_seq + 1 where stream = 0 returning last_seq"
# Waits for any earlier attempt whose COMMIT is still in flight.
_WAIT = "select last_seq from jetgate_store.head where stream = 0 for no key update"
_FIRST_EPOCH = Epoch(1)
# A takeover of the group writes the lease first, so either waits for the other.
_HOLD = """
    select from jetgate_store.lease where lease_group = $1 and token = $2 for share
"""
_ADD = f"""
    with s as (
      insert into jetgate_store.stream
             (lease_group, version, account, name, shelf, created, creation, config)
      values ($1, $2, $3, $4, $5, $6, $7, $8) returning stream)
    insert into jetgate_store.head (stream, epoch, first_seq, last_seq, last_ts, msgs, bytes)
    select stream, {_FIRST_EPOCH}, $9::bigint, greatest($9::bigint, 1) - 1, 0, 0, 0 from s
 returning stream
"""
_CREATED = """
    select s.stream, s.lease_group, h.epoch
      from jetgate_store.stream s join jetgate_store.head h using (stream) where s.creation = $1
"""
_LED = "select from jetgate_store.head where stream = $1 and epoch = $2"
_SET = """
    update jetgate_store.stream set config = $2, version = $3 where stream = $1
 returning account, name, lease_group, creation
"""
_DROPPED = "select from jetgate_store.stream where stream = $1 and not dropped"
# The rows of a stream. The janitor deletes its messages, and last its row in `stream`.
_BELONGINGS = ("consumer", "purge", "replaced", "source", "schedule", "ledger", "head")
_DELETE = "".join(f"delete from jetgate_store.{t} where stream = {{0}};" for t in _BELONGINGS)
_DROP = """
    with dropped as (
      update jetgate_store.stream set dropped = true, name = '' || stream || ' dropped'
       where stream = $1 returning stream)
    insert into jetgate_store.deletion (version, stream) select $2, stream from dropped
"""
_FORGET = "delete from jetgate_store.deletion where version < $1"

Check = Callable[[], None]
"""Checks a change again after other nodes' changes; raises ApiError if it is no longer possible."""


class PostgresDirectoryStore:
    """The stream directory and the states of consumers in PostgreSQL, over a pool of sessions.

    Args:
        pool: Sessions that may write.
        in_doubt: Called with a text if the outcome of a change stays unknown.
        view: The directory in this process's memory; changes that are read or made are applied to
            it.
        leases: Returns the fencing tokens of the lease groups that this node owns.
    """

    def __init__(
        self,
        pool: Any,
        in_doubt: Callable[[str], None],
        view: DirectoryView,
        leases: Callable[[], Mapping[LeaseGroup, int]],
    ) -> None:
        self._pool = pool
        self._outcomes = Outcomes(pool, in_doubt)
        self._view = view
        self._leases = leases
        self._coming: dict[int, tuple[LeaseGroup, frozenset[str]]] = {}

    async def _fetch(self, statement: str, *arguments: object) -> list[Any]:
        return await fetch(self._pool, statement, *arguments)

    def _checked(self, check: Check) -> Check:
        """Return a function that calls `check` only if the view has changed since this call."""
        updates = self._view.updates
        return lambda: check() if self._view.updates != updates else None

    async def _raise(self, session: Any, check: Check) -> int:
        """Increment the version of the stream directory in a transaction; return the new version.

        Changes of other nodes are applied to the view before `check` is called, whose errors are
        passed on.
        """
        version = int(await session.fetchval(_RAISE))
        if version != self._view.version + 1:
            news = await read_news(session.fetch, self._view.version)
            self._view.apply(replace(news, version=version - 1))
        check()
        return version

    async def _hold(self, session: Any, new: NewStream) -> LeaseGroup:
        """Choose the lease group of a new stream, and lock its lease against a takeover.

        Raises:
            Fenced: This node does not own the group.
        """
        leases = self._leases()
        if not leases:
            raise Fenced("this node leads no lease group")
        group = new.lease_group
        if group is None:
            group = self._view.group_for_new_stream(leases, new.tags, self._coming.values())
        self._coming[new.creation] = group, new.tags
        if group not in leases:
            raise Fenced(f"this node does not lead lease group {group}")
        if await session.fetchrow(_HOLD, group, leases[group]) is None:
            raise Fenced(f"another node leads lease group {group}")
        return group

    async def _catch_up(self, session: Any) -> None:
        """Wait for earlier attempts of this node to end, then apply new changes to the view."""
        await session.execute(_WAIT)
        self._view.apply(await read_news(session.fetch, self._view.version))

    async def load(
        self, groups: Collection[LeaseGroup]
    ) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
        """Return the streams of lease groups, their consumers, and unfinished purges.

        An unfinished purge is committed, but some rows of its messages are not deleted yet. Raises
        Unavailable if PostgreSQL does not answer.
        """
        of = list(groups)
        streams = [
            StreamRow(row[0], row[1], row[2], row[3], row[4], row[5], Head(*row[9:]), *row[6:9])
            for row in await self._fetch(_LOAD_STREAMS, of)
        ]
        consumers = [ConsumerRow(*row) for row in await self._fetch(_LOAD_CONSUMERS, of)]
        purges = await self._fetch(_LOAD_PURGES, of)
        return streams, consumers, [PurgeRow(r[0], r[1], tuple(r[2]), r[3]) for r in purges]

    async def head(self) -> Head:
        """Return the head row of the stream directory.

        Its `last_seq` is the version of the directory.
        """
        (row,) = await self._fetch(_HEAD)
        return Head(*row)

    async def ledgers(self, groups: Collection[LeaseGroup]) -> list[tuple[int, LedgerEntry]]:
        """Return (stream number, ledger entry) of the streams of lease groups.

        An entry records the last batch of messages that one application has committed.
        """
        return list(map(entry_of, await self._fetch(LOAD_LEDGERS, list(groups))))

    async def add_stream(self, new: NewStream, check: Check) -> StreamRow:
        """Create a stream and its head row; return the stream.

        Without `lease_group` the stream gets the group that `DirectoryView.group_for_new_stream`
        chooses among the owned ones. `check` is called within the transaction if the directory has
        changed since this call; its errors are passed on.

        Raises:
            Fenced: This node does not own the lease group.
        """
        check = self._checked(check)
        made = (new.account, new.name, new.partition, new.created, new.creation, new.config)

        async def add(session: Any, is_again: bool) -> tuple[int, int, LeaseGroup, Epoch]:
            if is_again:
                await self._catch_up(session)
                if (found := await session.fetchrow(_CREATED, new.creation)) is not None:
                    return 0, *found
            group = await self._hold(session, new)
            version = await self._raise(session, check)
            number = await session.fetchval(_ADD, group, version, *made, new.first_seq)
            return version, number, group, _FIRST_EPOCH

        try:
            version, number, group, epoch = await self._outcomes.run(add)
            row = DirectoryRow(number, new.account, new.name, group, new.creation, new.config)
            self._changed(version, row)
        finally:
            self._coming.pop(new.creation, None)
        last = max(new.first_seq, 1) - 1
        head = Head(epoch, new.first_seq, last, 0, 0, 0)
        return StreamRow(
            number,
            new.account,
            new.name,
            new.partition,
            new.created,
            new.config,
            head,
            group,
            new.creation,
        )

    def _changed(self, version: int, row: DirectoryRow) -> None:
        """Apply a change of this node to the view.

        Version 0 means that an earlier attempt was committed.
        """
        self._view.apply(DirectoryNews(version, (row,), is_whole=False))

    async def set_stream(
        self, stream: int, config: str, epoch: Callable[[], Epoch], check: Check
    ) -> None:
        """Change the configuration of a stream; `check` as in `add_stream`.

        Raises:
            Fenced: Another node has raised the stream's epoch.
        """
        check = self._checked(check)

        async def change(session: Any, is_again: bool) -> tuple[int, DirectoryRow]:
            version = await self._raise(session, check)
            await _require(session, stream, epoch(), "for key share")
            account, name, group, creation = await session.fetchrow(_SET, stream, config, version)
            return version, DirectoryRow(stream, account, name, group, creation, config)

        self._changed(*await self._outcomes.run(change))

    async def raise_heads(self, heads: Mapping[int, tuple[Epoch, int]]) -> None:
        """Raise the last sequence of streams, so that no lost sequence is assigned again.

        `heads` has (epoch, new last sequence) by stream number.
        """
        columns = (
            list(heads),
            [epoch for epoch, _ in heads.values()],
            [s for _, s in heads.values()],
        )

        async def change(session: Any, is_again: bool) -> None:
            await session.execute(_RAISE_HEADS, *columns)

        await self._outcomes.run(change)

    async def drop_stream(self, stream: int, epoch: Callable[[], Epoch]) -> None:
        """Delete a stream and its consumers.

        The janitor deletes its messages later (`dropped_streams`).

        Raises Fenced if another node has raised the stream's epoch.
        """

        async def drop(session: Any, is_again: bool) -> int:
            if is_again:
                await self._catch_up(session)
                if await session.fetchrow(_DROPPED, stream) is None:
                    return 0
            version = await self._raise(session, lambda: None)
            await _require(session, stream, epoch(), "for update")
            await session.execute(_DELETE.format(stream))
            await session.execute(_DROP, stream, version)
            await session.execute(_FORGET, version - DELETIONS_MAX)
            return version

        version = await self._outcomes.run(drop)
        self._changed(version, DirectoryRow(stream, is_deleted=True))

    async def dropped_streams(self, groups: Collection[LeaseGroup]) -> list[tuple[int, int]]:
        """Return (stream, partition) of deleted streams that may still have messages."""
        rows = await self._fetch(_LOAD_DROPPED, list(groups))
        return [(r[0], r[1]) for r in rows]

    async def forget_stream(self, stream: int) -> None:
        """Delete the last row of a deleted stream, after its messages are deleted."""
        await self._fetch("delete from jetgate_store.stream where stream = $1 and dropped", stream)

    async def add_consumer(self, row: ConsumerRow, epoch: Callable[[], Epoch]) -> tuple[int, int]:
        """Create a consumer under the current epoch of its stream.

        Returns:
            (number of the consumer, never used before in its stream; number of changes of the
                stream's consumers).

        Raises:
            Fenced: Another node has raised the stream's epoch.
        """

        async def add(session: Any, is_again: bool) -> tuple[int, int]:
            return await consumer_changes.add(session, row, epoch())

        return await self._outcomes.run(add)

    async def set_consumer(
        self, stream: int, consumer: int, config: str, epoch: Callable[[], Epoch]
    ) -> int:
        """Change a consumer's configuration; return the number of changes of the stream's
        consumers.

        Raises Fenced if another node has raised the stream's epoch.
        """

        async def change(session: Any, is_again: bool) -> int:
            return await consumer_changes.change(session, stream, consumer, config, epoch())

        return await self._outcomes.run(change)

    async def drop_consumer(self, stream: int, consumer: int, epoch: Callable[[], Epoch]) -> int:
        """Delete a consumer; return the number of changes of the stream's consumers.

        Raises Fenced if another node has raised the stream's epoch.
        """

        async def drop(session: Any, is_again: bool) -> int:
            return await consumer_changes.drop(session, stream, consumer, epoch())

        return await self._outcomes.run(drop)

    async def write_states(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]:
        """Write states of consumers in one statement.

        Return the (stream, consumer) pairs that were written. A state is not written if the
        consumer was deleted or has another epoch.
        """
        rows = await self._fetch(consumer_states.WRITE, *consumer_states.columns(states))
        return {(row[0], row[1]) for row in rows}


async def _require(session: Any, stream: int, epoch: Epoch, lock: str) -> None:
    """Lock the head row of a stream in a transaction. Raises Fenced if it has another epoch."""
    if await session.fetchrow(f"{_LED} {lock}", stream, epoch) is None:
        raise Fenced(f"epoch {epoch} of stream {stream} is over")
