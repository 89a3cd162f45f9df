"""Repeats a transaction until it is known whether it was committed.

The answer to COMMIT may be lost with its connection. A transaction that has sent COMMIT holds its
locks until it ends. The next attempt takes the same locks, so it waits for the first and finds its
result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from core import retry
from core.errors import OutcomeUnknown, StorageError
from core.storage.postgres.connect import DATABASE_ERRORS, unavailable

T = TypeVar("T")
Work = Callable[[Any, bool], Awaitable[T]]
"""The statements of a transaction, called with a session and `is_again`.

`is_again` is True if an earlier attempt may be committed.
"""

# In seconds: between two attempts to find out an outcome, and for all of them.
OUTCOME_TIMEOUT_S = 2.0


class Outcomes:
    """Runs changes of the stream directory as transactions until their outcome is known.

    Args:
        pool: Sessions that may write.
        in_doubt: Called with a text if the outcome of a transaction stays unknown.
    """

    def __init__(self, pool: Any, in_doubt: Callable[[str], None]) -> None:
        self._pool = pool
        self._in_doubt = in_doubt

    async def run(self, work: Work[T]) -> T:
        """Run `work` in a transaction and commit it; return its result.

        If COMMIT has no answer, call `work` again in a new transaction with `is_again` True; it
        must find out whether the first one was committed.

        Raises:
            Fenced: Another node leads the streams to be changed.
            Unavailable: PostgreSQL does not answer; nothing was changed.
            OutcomeUnknown: The outcome stays unknown for two seconds.
        """
        try:
            return await self._attempt(work, is_again=False)
        except OutcomeUnknown:
            pass
        try:
            async with asyncio.timeout(OUTCOME_TIMEOUT_S):
                return await self._retry(work)
        except TimeoutError:
            self._in_doubt("the outcome of a change of the stream directory is not known")
            raise OutcomeUnknown(
                "no answer to COMMIT of a change of the stream directory"
            ) from None

    async def _retry(self, work: Work[T]) -> T:
        while True:
            try:
                return await self._attempt(work, is_again=True)
            except StorageError:
                # Fenced too: the group committer may just have bumped the epochs for the same
                # reason.
                await asyncio.sleep(retry.COMMIT_S)

    async def _attempt(self, work: Work[T], *, is_again: bool) -> T:
        complete = False
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                result = await work(connection, is_again)
                complete = True
        except DATABASE_ERRORS as error:
            if complete:
                raise OutcomeUnknown(f"connection lost during COMMIT: {error}") from error
            raise await unavailable(self._pool, error) from error
        return result
