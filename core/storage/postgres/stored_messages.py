"""Reads single messages on a node that does not lead their stream, from the primary or a standby.

The primary decides which messages exist, by one statement with the conditions of the SQL views
(`migrations.sql_readers`): its heads, purges, records of replaced rows, and its clock. That
statement returns only time and checksum of each row, no payload. The rows are read from the standby
if there is one and it has them, else from the primary. A row is written once and a sequence is
assigned once, so a row with the same time and checksum is the same message, however late the
standby is. So the result is that of the primary: all acknowledged messages, without removed ones.

Streams with interest or work-queue retention are not read. Messages that their consumers have
acknowledged are known only from the consumers' states, which only a leader reads.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, NamedTuple

from core.errors import Unavailable
from core.runtime.clock import Clock
from core.storage.interface import Row
from core.storage.postgres.connect import Connector, Purpose, fetch
from core.storage.postgres.pages import checksum
from core.storage.postgres.subjects import WHOLE, bytes_of
from core.units import NANOS_PER_SECOND
from migrations.sql_readers import IS_THERE, STATE

log = logging.getLogger(__name__)

_SESSIONS = 2
_CHUNK_BYTES = 4 << 20
_PRIMARY_S, _STANDBY_S = 2.0, 0.5
"""Longest time for a statement on the primary and on the standby, in seconds."""
_AVOIDED = 5 * NANOS_PER_SECOND
"""Time without reads from a standby that failed or is far behind, in nanoseconds."""
_FAR_BEHIND = 10 * NANOS_PER_SECOND

_CONFIG = r"replace(s.config, '\u0000', '\u2400')::json"
_JUDGE = f"""
    select w.place::int, r.stream, r.shelf, m.seq, m.ts, m.crc, m.size, r.now - m.ts as age
      from unnest($1::text[], $2::bigint[]) with ordinality as w(name, seq, place)
      join ({STATE}
             and s.account = $3 and s.name = any($1)
             and ({_CONFIG} ->> 'allow_direct')::boolean
             and coalesce({_CONFIG} ->> 'retention', 'limits') = 'limits') as r on r.name = w.name
      left join lateral (
        select m.seq, m.ts, m.crc::bigint as crc,
               octet_length(m.data) + coalesce(octet_length(m.hdr), 0) as size
          from jetgate_store.message m
         where m.stream = r.stream and m.shelf = r.shelf and m.seq = w.seq and {IS_THERE}
      ) as m on true
"""
_ROWS = f"""
    select m.stream, m.seq, m.ts, m.crc::bigint as crc, {WHOLE} as subject, m.hdr, m.data
      from unnest($1::int[], $2::int[], $3::bigint[]) as w(stream, shelf, seq)
      join jetgate_store.message m
        on m.stream = w.stream and m.shelf = w.shelf and m.seq = w.seq
"""


class _There(NamedTuple):
    """A message that exists: index in `wanted`, key, time, CRC-32C, size in bytes, age.

    `ts` is its time in nanoseconds since the Unix epoch, `age` the nanoseconds since then.
    """

    place: int
    stream: int
    partition: int
    seq: int
    ts: int
    crc: int
    size: int
    age: int


class PostgresMessages:
    """Reads single messages through a few sessions of its own, opened when they are first needed.

    Args:
        primary: The database.
        standby: A standby of it; None if there is none.
        clock: Measures the time in which a failed standby is not used.
    """

    def __init__(self, primary: Connector, standby: Connector | None, clock: Clock) -> None:
        self.has_standby = standby is not None
        self._primary = _Sessions(primary, Purpose.GET, _PRIMARY_S)
        self._standby: _Sessions | None = None
        if standby is not None:
            self._standby = _Sessions(standby, Purpose.STANDBY, _STANDBY_S)
        self._clock = clock
        self._avoided_until = 0
        self._is_told = False

    async def read(
        self, account: str, wanted: Sequence[tuple[str, int]]
    ) -> AsyncGenerator[list[tuple[int, Row | None]]]:
        """Yield the messages that `wanted` lists as (stream name, sequence), in batches.

        The result is described at `core.storage.interface.StoredMessages.read`. Raises Unavailable
        if the primary does not answer within 2 seconds.
        """
        names, seqs = [name for name, _ in wanted], [seq for _, seq in wanted]
        judged = await self._primary.fetch(_JUDGE, names, seqs, account)
        yield [(row["place"] - 1, None) for row in judged if row["seq"] is None]
        there = [_There(row[0] - 1, *row[1:]) for row in judged if row["seq"] is not None]
        for chunk in _chunks(there):
            found = await self._from_standby(chunk)
            missing = [each for each in chunk if each.place not in found]
            if missing:
                found |= await _rows(self._primary, missing)
            # A row missing on the primary was removed after the check.
            yield [(each.place, found.get(each.place)) for each in chunk]

    async def _from_standby(self, chunk: Sequence[_There]) -> dict[int, Row]:
        """Return the messages of a chunk that the standby has; none if it is not used at
        present.
        """
        if self._standby is None or self._clock.monotonic() < self._avoided_until:
            return {}
        try:
            async with asyncio.timeout(_STANDBY_S):
                found = await _rows(self._standby, chunk)
        except (Unavailable, TimeoutError) as error:
            self._avoid(str(error) or f"no answer within {_STANDBY_S:g} s")
            return {}
        if any(each.place not in found and each.age > _FAR_BEHIND for each in chunk):
            self._avoid(f"it is more than {_FAR_BEHIND // NANOS_PER_SECOND} s behind")
        elif self._is_told:
            self._is_told = False
            log.info("reading from the standby at %s again", self._standby.address)
        return found

    def _avoid(self, why: str) -> None:
        assert self._standby is not None, "it was asked"
        self._avoided_until = self._clock.monotonic() + _AVOIDED
        if not self._is_told:
            self._is_told = True
            log.warning("not reading from the standby at %s: %s", self._standby.address, why)

    def close(self) -> None:
        """Close all sessions with PostgreSQL without waiting for running reads."""
        self._primary.close()
        if self._standby is not None:
            self._standby.close()


class _Sessions:
    """A few sessions with one server, opened when they are first needed.

    All are dropped if a statement takes longer than `within` seconds.
    """

    def __init__(self, connector: Connector, purpose: Purpose, within: float) -> None:
        self.address = connector.address
        self._connector = connector
        self._purpose = purpose
        self._within = within
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        """Return the rows of a statement. Raises Unavailable if PostgreSQL does not answer."""
        async with self._opening:
            if self._pool is None:
                self._pool = await self._connector.pool(self._purpose, _SESSIONS)
        # On cancellation the driver would wait for PostgreSQL to confirm.
        watchdog = asyncio.get_running_loop().call_later(self._within, self.close)
        try:
            return await fetch(self._pool, statement, *arguments)
        finally:
            watchdog.cancel()

    def close(self) -> None:
        """Close all sessions without waiting."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()


def _chunks(there: Sequence[_There]) -> Iterator[list[_There]]:
    """Split messages into chunks of at most 4 MiB, one message at least."""
    chunk: list[_There] = []
    size = 0
    for each in there:
        if chunk and size + each.size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += each.size
    if chunk:
        yield chunk


async def _rows(sessions: _Sessions, chunk: Sequence[_There]) -> dict[int, Row]:
    """Return the rows of a chunk that a server has, by index in `wanted`.

    A row with another time or checksum than on the primary is left out. Raises Unavailable if the
    server does not answer.
    """
    keys = zip(*((each.stream, each.partition, each.seq) for each in chunk), strict=True)
    rows = await sessions.fetch(_ROWS, *map(list, keys))
    found = {(row["stream"], row["seq"]): row for row in rows}
    messages: dict[int, Row] = {}
    for each in chunk:
        row = found.get((each.stream, each.seq))
        if row is None or (row["ts"], row["crc"]) != (each.ts, each.crc):
            continue
        headers, payload = row["hdr"] or b"", row["data"]
        if checksum(headers, payload) != each.crc:
            text = f"message at sequence {each.seq} does not match its checksum"
            raise Unavailable(f"{text} at {sessions.address}")
        messages[each.place] = (each.seq, each.ts, bytes_of(row["subject"]), headers, payload)
    return messages
