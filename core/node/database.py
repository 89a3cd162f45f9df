"""Access of a process to PostgreSQL: options, checks at the start, and the shared secrets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from core import retry
from core.errors import OperatorError, Unavailable, Unreachable
from core.runtime.clock import Clock
from core.storage.health import waits
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:  # a serving process imports the driver of PostgreSQL after its ports are open
    from core.storage.postgres.connect import Connector

T = TypeVar("T")

log = logging.getLogger(__name__)

# Seconds between two lines of the log while a database is awaited.
_REMIND_S = 10.0


@dataclass(frozen=True, slots=True)
class Database:
    """The database options of a command line.

    Attributes:
        dsn: A connection string.
        place: Name of the flag, or of the key in a file, that contains `dsn`; for error messages.
        password_file: Path of a file that contains only the password; empty if not given.
        wait_seconds: Longest wait for a database that does not answer, in seconds; 0: no wait.
    """

    dsn: str = field(repr=False)
    place: str = "--dsn"
    password_file: str = ""
    wait_seconds: float = 0

    def connector(self) -> Connector:
        """Return a connector to this database.

        Raises ConfigError if the connection string is unusable.
        """
        from core.storage.postgres.connect import Connector

        return Connector(self.dsn, place=self.place, password_file=self.password_file)

    async def checked_standby(self, primary: Connector) -> Connector:
        """Check that this database is a hot standby of `primary`; return a connector to it.

        Raises:
            ConfigError: The server is no standby, or a standby of another database.
            Unavailable: The primary does not answer.
        """
        from core.storage.postgres.standby import check_standby

        standby = self.connector()
        await check_standby(primary, standby, self.place)
        return standby

    async def checked(self, connector: Connector, clock: Clock) -> None:
        """Check that the database can be used; wait at most `wait_seconds` until it answers.

        Logs a warning if its replication settings risk the loss of commits.

        Raises:
            OperatorError: The database does not answer in time, or cannot be used because of its
                version, encoding, settings or missing rights.
        """
        from core.storage.postgres.preflight import preflight

        replication = await self._answered(connector, clock, preflight)
        if replication.cost:
            log.warning("%s: %s", replication.found, replication.cost)

    async def migrated(self, connector: Connector, clock: Clock) -> bool:
        """Check the database as `checked` does, and migrate its schema to this release.

        Returns True if a migration was applied, False if the schema was already up to date.

        Raises:
            OperatorError: The database does not answer in time, cannot be used, or cannot be
                migrated.
        """
        from core.storage.postgres.migrate import migrate

        await self.checked(connector, clock)
        # The database may go away again in between.
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
                waited = (clock.monotonic() - began) / NANOS_PER_SECOND
                if waited >= self.wait_seconds:
                    after = f" (waited {waited:.0f} s)" if self.wait_seconds else ""
                    raise OperatorError(f"{error}{after}") from error
                if told < 0 or waited - told >= _REMIND_S:
                    log.warning("%s; waiting, %.0f s more", error, self.wait_seconds - waited)
                    told = waited
            await asyncio.sleep(min(retry.START_S, self.wait_seconds))
        if told >= 0:
            waited = (clock.monotonic() - began) / NANOS_PER_SECOND
            log.info("PostgreSQL at %s answers after %.1f s", connector.address, waited)
        return answer


async def link_secret(connector: Connector) -> bytes:
    """Return the secret with which the nodes of a database authenticate each other.

    Retries every 0.5 s until PostgreSQL answers.
    """
    from core.storage.postgres.secrets import link_secret

    return await told("its secret", partial(link_secret, connector))


async def ack_secret(connector: Connector) -> bytes:
    """Return the secret key that signs acknowledgement tokens.

    Retries every 0.5 s until PostgreSQL answers.
    """
    from core.storage.postgres.secrets import secret

    return await told("its secret", partial(secret, connector, "ack-tokens"))


async def told(what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `ask`; call it again every 0.5 s while it raises Unavailable.

    `what` names the result in the log.
    """
    while True:
        try:
            return await ask()
        except Unavailable as error:
            waits.warning("PostgreSQL does not tell %s: %s", what, error)
            await asyncio.sleep(retry.START_S)
