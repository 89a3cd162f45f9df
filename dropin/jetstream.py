"""JetStream in `jetgate-nats-server`, over an embedded or an existing PostgreSQL.

The server accepts clients before PostgreSQL is ready; their publishes to streams wait.
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
    """JetStream of a server, over PostgreSQL.

    Life cycle: `open`, `start`; then `serve` and `step_down` for each runtime (`core.node.runtime`,
    the streams in memory between two losses of PostgreSQL); `stop`.

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
        """Lock the store directory of an embedded PostgreSQL.

        Returns True: this server has JetStream, so publishes wait until streams are loaded. Raises
        OperatorError if the directory is not writable, or another server uses it.
        """
        self._began = self._clock.monotonic()
        log.info("Starting JetStream")
        try:
            self._storage.open()
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        return True

    async def start(self, gate: PublishGate) -> Candidacy:
        """Start or connect to PostgreSQL.

        Returns the functions by which the server acquires leases and loads streams. Raises
        OperatorError if PostgreSQL does not start or answer.

        Args:
            gate: Holds publishes while streams have no leader.
        """
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
        """Store a new runtime (`core.node.runtime`, the streams in memory), for `reconfigure`.

        The first call logs the duration of the start. `runtime` is None if this server owns no
        streams.
        """
        if not self._has_led:
            taken = (self._clock.monotonic() - self._began) // 1_000_000
            log.info("Took %d ms to start JetStream", taken)
        self._has_led = True
        self._runtime = runtime

    def step_down(self) -> None:
        """Forget the runtime that `serve` received; called just before that runtime is stopped.

        A runtime (`core.node.runtime`) is the streams in memory; the process continues.
        """
        self._runtime = None

    def reconfigure(self, limits: dict[str, int], remotes: tuple[Remote, ...]) -> None:
        """Apply new limits of streams and consumers, and replace the remotes, after a reload.

        Args:
            limits: Limits by the names of `ServerLimits`.
            remotes: Other NATS systems to connect to.
        """
        self._told |= {"limits": limits, "remotes": remotes}
        if self._runtime is not None:
            self._runtime.reconfigure(self._options())

    async def retire(self) -> None:
        """Do nothing when lame duck mode begins: `stop` ends JetStream."""

    async def stop(self) -> None:
        """Release leases, close connections to PostgreSQL, and stop an embedded PostgreSQL."""
        if self._bootstrap is not None:
            await self._bootstrap.close()
        if self._health is not None:
            self._health.close()
        await self._storage.stop()
