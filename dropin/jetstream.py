"""JetStream in `jetgate-nats-server`, over an embedded or an existing PostgreSQL.

Clients are accepted before PostgreSQL is ready.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError, OperatorError, Unavailable
from core.node.bootstrap import Bootstrap
from core.node.lifecycle import Candidacy
from core.node.server import Server
from core.remote.settings import Remote
from dropin.config.options import JetStreamOptions
from dropin.embedded import Embedded
from dropin.shared import Shared

if TYPE_CHECKING:
    from core.node.publish_gate import PublishGate
    from core.node.runtime import JetStreamRuntime, RuntimeOptions
    from core.storage.health import StorageHealth
    from core.storage.postgres.connect import Connector

log = logging.getLogger(__name__)


class JetStream:
    """JetStream. Life cycle: `open`, `start`, `serve` and `step_down` for each runtime, `stop`.

    Attributes:
        shared: The existing database, which other servers may share; None for an embedded one.
    """

    def __init__(
        self, server: Server, options: JetStreamOptions, remotes: tuple[Remote, ...]
    ) -> None:
        self._server = server
        self._clock = server.clock
        self.shared = Shared(server, options) if options.is_given else None
        self._storage = self.shared or Embedded(options.directory())
        self._connector: Connector
        self._gate: PublishGate
        self._runtime: JetStreamRuntime | None = None
        self._bootstrap: Bootstrap | None = None
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
        """Claim the store directory; clients may be accepted afterwards. Raises OperatorError."""
        self._began = self._clock.monotonic()
        log.info("Starting JetStream")
        try:
            self._storage.open()
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        return True

    async def start(self, gate: PublishGate) -> Candidacy:
        """Start or reach PostgreSQL, and return the candidacy. Raises OperatorError."""
        try:
            self._connector = await self._storage.start()
        except (ConfigError, OperatorError, Unavailable) as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        from core.storage.health import StorageHealth, waits  # imported before, in a thread

        self._gate, self._health = gate, StorageHealth(self._clock)
        waits.addFilter(self._health.may_log)
        shared = self.shared
        self._bootstrap = Bootstrap(
            self._server,
            gate,
            self._connector,
            self._health,
            self._options,
            row=None if shared is None else shared.row,
            peers=None if shared is None else shared.peers,
        )
        if shared is not None:
            await shared.follow(self._connector, gate)
            self._bootstrap.refuse_without_owner()
        return self._bootstrap.candidacy

    def _options(self) -> RuntimeOptions:
        from core.node.runtime import RuntimeOptions  # imported by `start`, in a thread

        cluster = None if self.shared is None else self.shared.peers.cluster
        return RuntimeOptions(**self._told, cluster=cluster, gate=self._gate)

    def serve(self, runtime: JetStreamRuntime | None) -> None:
        """Record the serving runtime; log the duration of the start once."""
        if not self._has_led:
            taken = (self._clock.monotonic() - self._began) // 1_000_000
            log.info("Took %d ms to start JetStream", taken)
        self._has_led = True
        self._runtime = runtime

    def step_down(self) -> None:
        """Forget the runtime of `serve`, which is about to end."""
        self._runtime = None

    def reconfigure(self, limits: dict[str, int], remotes: tuple[Remote, ...]) -> None:
        """Apply these limits to configurations, and replace the remotes."""
        self._told |= {"limits": limits, "remotes": remotes}
        if self._runtime is not None:
            self._runtime.reconfigure(self._options())

    async def retire(self) -> None:
        """Do nothing: only the end of PostgreSQL ends a part of this class."""

    async def stop(self) -> None:
        """Stop PostgreSQL, or leave the shared one."""
        if self._bootstrap is not None:
            await self._bootstrap.close()
        if self._health is not None:
            self._health.close()
        await self._storage.stop()
