"""Reads the changes of the stream directory (the list of all streams) since a version.

Each change of a stream increments the version of the directory. The row of a stream has the version
of its last change. A deleted stream leaves a row in table `deletion`, kept for ten thousand
versions. A node gets the whole directory in three cases: its version is older than that; its
version is higher than the stored one, because an older database was restored; or it has a new
session.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from core.errors import Unavailable
from core.storage.interface import DirectoryNews, DirectoryRow
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

DELETIONS_MAX = 10_000
"""Number of versions of the stream directory for which deletions of streams are kept."""
_TIMEOUT_S = 2.0
_NEWS = f"""
    with known as (
      select last_seq as version,
             case when $1 between last_seq - {DELETIONS_MAX} and last_seq then $1 else -1 end
               as since
        from jetgate_store.head where stream = 0)
    select k.version, k.since < 0, c.*
      from known k left join lateral (
        select s.stream, s.account, s.name, s.lease_group, s.creation, s.config, false
          from jetgate_store.stream s where s.version > k.since and not s.dropped
         union all
        select d.stream, '', '', 0, 0, '', true
          from jetgate_store.deletion d where d.version > k.since and k.since >= 0) c on true
"""

Fetch = Callable[..., Awaitable[Sequence[Any]]]


async def read_news(fetch: Fetch, since: int) -> DirectoryNews:
    """Return the changes of the stream directory since version `since` (-1: the whole directory).

    `fetch` runs a query in a session.
    """
    rows = await fetch(_NEWS, since)
    version, is_whole = rows[0][:2]
    found = [DirectoryRow(*row[2:]) for row in rows if row[2] is not None]
    return DirectoryNews(version, found, is_whole)


class PostgresDirectorySource:
    """Reads changes of the stream directory through one session, opened for the first read."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Any = None

    async def news(self, since: int) -> DirectoryNews:
        """Return the changes since version `since`; with a new session, the whole directory.

        Raises Unavailable if PostgreSQL does not answer within 2 seconds.
        """
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._connector.open(Purpose.READ)
                    since = -1
                return await read_news(self._connection.fetch, since)
        except DATABASE_ERRORS as error:
            self._drop()
            raise Unavailable(trouble(error)) from error
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*DATABASE_ERRORS):
                connection.terminate()

    async def close(self) -> None:
        """Close the session with PostgreSQL, if one is open."""
        self._drop()
