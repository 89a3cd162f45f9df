"""The process of `jetgate dev` and `jetgate serve`: a server, PostgreSQL, and the façade over HTTP.

`dev` brings its PostgreSQL, `serve` is given one. What the process does when, `core.life` says;
here is what it does then. HTTP is there all the time: without a leadership it answers as a standby.
"""

import asyncio
import contextlib
import gc
import logging
import shutil
import signal
import sys
from functools import partial
from typing import Any

from core.client import Client, Options, attach, connect
from core.config.addresses import listen, refusal
from core.errors import OperatorError
from core.life import Lead, Life
from core.runtime.clock import SystemClock
from core.runtime.stalls import StallWatch
from core.runtime.standard_streams import tell
from core.server import Server, ServerOptions
from core.storage.postgres.connect import Connector, without_password
from core.storage.postgres.migrate import migrate
from core.storage.postgres.preflight import preflight
from core.storage.postgres.secrets import secret
from core.term import Term, TermOptions, lead
from core.transport.loopback import connect_loopback
from gateway.app import create_app
from gateway.http_server import HttpServer, standby
from gateway.identities import Identities
from gateway.observations import Observation, RequestFailed
from gateway.settings import Settings
from jetgate.banner import ready
from jetgate.config import Config
from jetgate.login import login_to
from jetgate.ports_file import PortsFile, url
from jetgate.server_numbers import snapshot

log = logging.getLogger("jetgate")


class Process:
    """What `core.life.Life` asks of the two commands."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._server = Server(
            ServerOptions(
                host=config.host,
                port=config.nats_port,
                users=config.users,
                ws_port=config.ws_port,
                mappings=config.mappings,
            ),
            self._clock,
        )
        self._life = Life(self._server, self)
        self._stalls = StallWatch(self._clock)
        self._ports = PortsFile(config.data)
        self._connector = Connector(config.dsn)
        self._postgres: Any = None
        self._http: HttpServer | None = None
        self._client: Client | None = None
        self._identities: Identities | None = None
        self._was_ready = False

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM.

        Raises:
            OperatorError: it cannot be started.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_asked, number)
        await self._life.run()

    def _stop_asked(self, number: signal.Signals) -> None:
        log.info("stopping (%s)", signal.Signals(number).name)
        self._life.stop()
        # Whoever asks twice does not want to wait.
        asyncio.get_running_loop().remove_signal_handler(number)

    # -- the whole life ----------------------------------------------------------------------

    async def prepare(self) -> Lead:
        """Open the HTTP port and the database, and bring the schema up to date."""
        self._http = self._open_http()
        if self._config.dsn:
            await preflight(self._connector)
        else:
            self._connector = await self._open_embedded()
        if await migrate(self._connector):
            log.info("created the schema in %s", self._connector.address)
        self._http.start()
        options = TermOptions(remotes=self._config.remotes)
        return partial(lead, self._server, self._connector, options)

    def _open_http(self) -> HttpServer:
        config = self._config
        if not config.dsn:
            # A standby may share the port of the node that leads; `dev` has nobody to share with.
            listen(config.host, config.nats_port, "NATS").close()
            if config.ws_port:
                listen(config.host, config.ws_port, "WS").close()
        http = HttpServer(listen(config.host, config.http_port, "HTTP"))
        if config.is_exposed and config.users is None:
            log.warning("listening on %s: whoever reaches it may read and write", config.host)
        return http

    async def _open_embedded(self) -> Connector:
        if sys.platform == "win32":
            raise OperatorError("embedded PostgreSQL does not run on Windows: use serve --dsn")
        from core.storage.postgres.embedded import EmbeddedPostgres  # not on every platform

        assert self._config.data is not None
        self._postgres = EmbeddedPostgres(self._config.data)
        return Connector(await self._postgres.start())

    async def close(self) -> None:
        """Close the HTTP port and stop an embedded PostgreSQL."""
        if self._http is not None:
            await self._http.stop()
        if self._postgres is not None:
            await self._postgres.stop()
        self._stalls.stop()

    def cannot_listen(self, error: OSError) -> OperatorError:
        """Return the error for a NATS port that cannot be had."""
        return refusal(self._config.host, self._server.port, "NATS", error)

    # -- one leadership ----------------------------------------------------------------------

    async def serve(self, term: Term | None) -> None:
        """Serve the façade, and tell where everything is."""
        assert term is not None
        assert self._http is not None
        hub = self._server.hub
        link = attach(partial(connect_loopback, hub))
        # Where users are configured every request has a connection of its own identity.
        self._client = Client(link, Options()) if hub.authenticator else await connect(link)
        settings = Settings(ack_key=await secret(self._connector, "ack-tokens"))
        app = create_app(
            settings,
            self._client,
            login=login_to(hub) if hub.authenticator else None,
            observe=_observe,
            snapshot=partial(snapshot, hub, term, self._stalls),
            clock=self._clock,
        )
        self._identities = app.state.identities
        self._http.use(app)
        host = self._config.host
        nats, http = url("nats", host, self._server.port), url("http", host, self._http.port)
        self._say_ready(nats, http)
        row = term.leadership.row
        row.nats, row.http = nats, http

    async def step_down(self, *, for_good: bool) -> None:
        """End the façade; HTTP answers as a standby again."""
        self._ports.remove()
        if self._http is not None:
            if for_good:
                await self._http.stop()
            else:
                self._http.use(standby)
        if self._identities is not None:
            await self._identities.close()
            self._identities = None
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _say_ready(self, nats: str, http: str) -> None:
        ws_port = self._server.ws_port
        ws = url("ws", self._config.host, ws_port) if ws_port is not None else ""
        self._ports.write({"nats": nats, "http": http} | ({"ws": ws} if ws else {}))
        # What start-up made lives as long as the process: the collector need not look at it.
        gc.collect()
        gc.freeze()
        if self._was_ready:
            log.info("leading again: %s %s", nats, http)
            return
        self._was_ready = True
        self._stalls.start()
        embedded = self._postgres is not None
        text = ready(
            nats,
            http,
            ws=ws,
            where=f"data in {self._config.data}" if embedded else self._connector.address,
            psql=_psql(),
            dsn=f"'{without_password(self._connector.dsn)}'",
        )
        tell(text, sys.stdout)


def _psql() -> str:
    """psql, or the one that came with the embedded server."""
    if shutil.which("psql") is None:
        with contextlib.suppress(OperatorError, ImportError):
            from core.storage.postgres.embedded.installation import find_installation

            return str(find_installation().binary("psql"))
    return "psql"


def _observe(observation: Observation) -> None:
    if isinstance(observation, RequestFailed):
        log.error("request %s failed", observation.operation, exc_info=observation.error)
