"""JetStream in `jetgate-nats-server`, over an embedded PostgreSQL in the store directory."""

import logging
from dataclasses import replace
from functools import partial

from core.errors import OperatorError
from core.life import Lead
from core.remote.settings import Remote
from core.server import Server
from core.storage.postgres.connect import Connector
from core.storage.postgres.embedded import EmbeddedPostgres
from core.storage.postgres.migrate import migrate
from core.term import Term, TermOptions, lead
from nats_server.config.options import JetStreamOptions
from nats_server.store_directory import use_directory

log = logging.getLogger("jetgate.server")

# Many such servers share one machine; each has a small share of its memory.
_SETTINGS = {"shared_buffers": "64MB", "wal_buffers": "16MB", "min_wal_size": "80MB"}


class JetStream:
    """Life cycle: `start`, `serve` in each term, `stop`."""

    def __init__(
        self, server: Server, options: JetStreamOptions, remotes: tuple[Remote, ...]
    ) -> None:
        self._server = server
        self._clock = server.clock
        self._directory = options.directory()
        self._postgres = EmbeddedPostgres(self._directory, settings=_SETTINGS)
        self._term: Term | None = None
        self._options = TermOptions(
            strict=options.strict,
            max_memory=max(options.max_memory, 0),
            max_file=max(options.max_file, 0),
            limits=options.limits,
            remotes=remotes,
        )
        self._began = 0

    async def start(self) -> Lead:
        """Start PostgreSQL. Raises OperatorError."""
        self._began = self._clock.monotonic()
        log.info("Starting JetStream")
        log.info('  Store Directory: "%s"', self._directory)
        try:
            use_directory(self._directory)
            connector = Connector(await self._postgres.start())
            await migrate(connector)
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        return partial(self._lead, connector)

    async def _lead(self, connector: Connector) -> Term:
        return await lead(self._server, connector, self._options)

    def serve(self, term: Term | None) -> None:
        """Clients are accepted from now on."""
        if self._term is None:
            taken = (self._clock.monotonic() - self._began) // 1_000_000
            log.info("Took %d ms to start JetStream", taken)
        self._term = term

    def reconfigure(self, limits: dict[str, int], remotes: tuple[Remote, ...]) -> None:
        """Hold configurations to these limits, and use these remotes, from now on."""
        self._options = replace(self._options, limits=limits, remotes=remotes)
        if self._term is not None:
            self._term.reconfigure(self._options)

    async def retire(self) -> None:
        """Nothing here ends before PostgreSQL does."""

    async def stop(self) -> None:
        """Stop PostgreSQL."""
        await self._postgres.stop()
