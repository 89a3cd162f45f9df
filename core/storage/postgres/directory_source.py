"""Reads what has changed in the directory, in one statement: a version and what belongs to it.

A stream's row has the version that changed it last. A deleted one leaves a row of `deletion`, of
which the last ten thousand versions are kept; who knows less than that reads everything, and so
does who knows more than there is, because the database went back, and who has a new session,
before which it may have gone back and come again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from core.errors import Unavailable
from core.storage.interface import DirectoryNews, DirectoryRow
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

KEPT = 10_000
"""The versions of which deletions are kept."""
_PATIENCE_S = 2.0
_NEWS = f"""
    with known as (
      select last_seq as version,
             case when $1 between last_seq - {KEPT} and last_seq then $1 else -1 end as since
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
    """Return what has changed since a version, by the `fetch` of a session."""
    rows = await fetch(_NEWS, since)
    version, is_whole = rows[0][:2]
    found = [DirectoryRow(*row[2:]) for row in rows if row[2] is not None]
    return DirectoryNews(version, found, is_whole)


class PostgresDirectorySource:
    """DirectorySource on a session of its own, opened when something is to be read."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Any = None

    async def news(self, since: int) -> DirectoryNews:
        """Return what has changed since a version; everything, in a new session."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
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
        """End the session, if there is one."""
        self._drop()
