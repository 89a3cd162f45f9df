"""A PostgreSQL that is given to a process: how it is reached, and what its nodes share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from core.errors import OperatorError, Unavailable, Unreachable
from core.runtime.clock import Clock
from core.storage.health import waits

if TYPE_CHECKING:  # what serves imports the driver of PostgreSQL after its ports are open
    from core.storage.postgres.connect import Connector

T = TypeVar("T")

log = logging.getLogger("jetgate.database")

# While a database is waited for: seconds between two attempts, and between two lines of the log.
_RETRY_S, _REMIND_S = 0.5, 10.0
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Database:
    """What a command is told about its database.

    Attributes:
        dsn: a connection string.
        place: the flag, or the key of a file, that it comes from.
        password_file: a file that is the password; empty: not given.
        wait_seconds: how long a database that does not answer is waited for.
    """

    dsn: str = field(repr=False)
    place: str = "--dsn"
    password_file: str = ""
    wait_seconds: float = 0

    def connector(self) -> Connector:
        """Return what opens sessions. Raises ConfigError for a connection string of no use."""
        from core.storage.postgres.connect import Connector

        return Connector(self.dsn, place=self.place, password_file=self.password_file)

    async def checked_standby(self, primary: Connector) -> Connector:
        """Return what opens sessions with this standby of a database.

        Raises:
            ConfigError: it is a standby of none, or of another one.
            Unavailable: the primary is away.
        """
        from core.storage.postgres.standby import check_standby

        standby = self.connector()
        await check_standby(primary, standby, self.place)
        return standby

    async def checked(self, connector: Connector, clock: Clock) -> None:
        """Check the database, once it answers.

        Raises:
            OperatorError: it does not answer in time, or must not be used.
        """
        from core.storage.postgres.preflight import preflight

        replication = await self._answered(connector, clock, preflight)
        if replication.cost:
            log.warning("%s: %s", replication.found, replication.cost)

    async def migrated(self, connector: Connector, clock: Clock) -> bool:
        """Check the database and migrate it, once it answers; return whether anything was done.

        Raises:
            OperatorError: it does not answer in time, must not be used, or cannot be migrated.
        """
        from core.storage.postgres.migrate import migrate

        await self.checked(connector, clock)
        # It may go away again in between.
        return await self._answered(connector, clock, migrate)

    async def _answered(
        self, connector: Connector, clock: Clock, ask: Callable[[Connector], Awaitable[T]]
    ) -> T:
        began, told = clock.monotonic(), -1.0
        while True:
            try:
                answer = await ask(connector)
                break
            except Unreachable as error:
                waited = (clock.monotonic() - began) / _SECOND
                if waited >= self.wait_seconds:
                    after = f" (waited {waited:.0f} s)" if self.wait_seconds else ""
                    raise OperatorError(f"{error}{after}") from error
                if told < 0 or waited - told >= _REMIND_S:
                    log.warning("%s; waiting, %.0f s more", error, self.wait_seconds - waited)
                    told = waited
            await asyncio.sleep(min(_RETRY_S, self.wait_seconds))
        if told >= 0:
            waited = (clock.monotonic() - began) / _SECOND
            log.info("PostgreSQL at %s answers after %.1f s", connector.address, waited)
        return answer


async def link_secret(connector: Connector) -> bytes:
    """Return the key by which nodes of a database know each other, as soon as it is told."""
    from core.storage.postgres.secrets import link_secret

    return await told("its secret", partial(link_secret, connector))


async def ack_secret(connector: Connector) -> bytes:
    """Return the key of tokens for acknowledgements, as soon as it is told."""
    from core.storage.postgres.secrets import secret

    return await told("its secret", partial(secret, connector, "ack-tokens"))


async def told(what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Return what PostgreSQL is asked for, as soon as it answers."""
    while True:
        try:
            return await ask()
        except Unavailable as error:
            waits.warning("PostgreSQL does not tell %s: %s", what, error)
            await asyncio.sleep(_RETRY_S)
