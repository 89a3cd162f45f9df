"""JetStream in `jetgate-nats-server`: over a PostgreSQL of its own, or over one that is given.

Clients are accepted before it is there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError, OperatorError, Unavailable
from core.life import Candidacy
from core.remote.settings import Remote
from core.server import Server
from nats_server.config.options import JetStreamOptions
from nats_server.embedded import Embedded
from nats_server.shared import Shared

if TYPE_CHECKING:
    from core.cluster.leadership import Leadership
    from core.front import Front
    from core.storage.health import StorageHealth
    from core.storage.postgres.connect import Connector
    from core.term import Term, TermOptions

log = logging.getLogger("jetgate.server")


class JetStream:
    """Life cycle: `open`, `start`, `serve` and `step_down` in each term, `stop`.

    `shared`: the database, where it is one that other servers may use too.
    """

    def __init__(
        self, server: Server, options: JetStreamOptions, remotes: tuple[Remote, ...]
    ) -> None:
        self._server = server
        self._clock = server.clock
        self.shared = Shared(server, options) if options.is_given else None
        self._storage = self.shared or Embedded(options.directory())
        self._connector: Connector
        self._front: Front
        self._term: Term | None = None
        self._health: StorageHealth | None = None
        self._told: dict[str, Any] = {
            "strict": options.strict,
            "max_memory": max(options.max_memory, 0),
            "max_file": max(options.max_file, 0),
            "limits": options.limits,
            "remotes": remotes,
        }
        self._began = 0
        self._has_led = False

    def open(self) -> bool:
        """Claim the store directory; clients may be accepted then. Raises OperatorError."""
        self._began = self._clock.monotonic()
        log.info("Starting JetStream")
        try:
            self._storage.open()
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        return True

    async def start(self, front: Front) -> Candidacy:
        """Make PostgreSQL ready. Raises OperatorError."""
        try:
            self._connector = await self._storage.start()
        except (ConfigError, OperatorError, Unavailable) as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        self._front = front
        if self.shared is not None:
            await self.shared.follow(self._connector, front)
        return Candidacy(self._campaign, self._load)

    async def _campaign(self) -> Leadership:
        from core.campaign import campaign  # imported by `start`
        from core.storage.health import StorageHealth, waits

        if self._health is None:
            self._health = StorageHealth(self._clock)
            waits.addFilter(self._health.may_log)
        shared = self.shared
        return await campaign(
            self._connector,
            self._clock,
            row=None if shared is None else shared.row,
            health=self._health,
            follower=None if shared is None else shared.neighbours,
        )

    async def _load(self, leadership: Leadership) -> Term:
        from core.term import load  # imported by `start`

        known = None if self.shared is None else self.shared.known(self._connector)
        return await load(self._server, self._connector, leadership, self._options(), known)

    def _options(self) -> TermOptions:
        from core.term import TermOptions  # imported by `start`

        cluster = None if self.shared is None else self.shared.neighbours.cluster
        return TermOptions(**self._told, cluster=cluster, peers=self._front)

    def serve(self, term: Term | None) -> None:
        """JetStream is served from now on."""
        if not self._has_led:
            taken = (self._clock.monotonic() - self._began) // 1_000_000
            log.info("Took %d ms to start JetStream", taken)
        self._has_led = True
        self._term = term

    def step_down(self) -> None:
        """The term of `serve` is about to end."""
        self._term = None

    def reconfigure(self, limits: dict[str, int], remotes: tuple[Remote, ...]) -> None:
        """Hold configurations to these limits, and use these remotes, from now on."""
        self._told |= {"limits": limits, "remotes": remotes}
        if self._term is not None:
            self._term.reconfigure(self._options())

    async def retire(self) -> None:
        """Nothing here ends before PostgreSQL does."""

    async def stop(self) -> None:
        """Stop PostgreSQL."""
        if self._health is not None:
            self._health.close()
        await self._storage.stop()
