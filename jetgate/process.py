"""The process of `jetgate dev` and `jetgate serve`: a server, PostgreSQL, and the façade over HTTP.

`dev` brings its PostgreSQL, `serve` is given one. What the process does when, `core.life` says;
here is what it does then. HTTP is there all the time: without a leadership it answers as a standby.
What it takes to serve is imported while PostgreSQL starts; where that is given, once the campaign
is won, or while another process leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.config.addresses import listen, probe, refusal
from core.errors import OperatorError, Unavailable
from core.life import Candidacy, Life
from core.runtime.clock import SystemClock
from core.runtime.garbage import FullCollections
from core.runtime.nuid import nuid
from core.runtime.service_manager import ServiceManager
from core.runtime.stalls import StallWatch
from core.runtime.standard_streams import tell
from core.runtime.tasks import spawn, stop
from core.runtime.threads import imported
from core.server import Server, ServerOptions
from core.storage.health import StorageHealth, waits
from gateway.http_start import HttpStart
from jetgate.banner import ready
from jetgate.config import Config
from jetgate.database import Database
from jetgate.http_tls import tls_of
from jetgate.ports_file import PortsFile, url

if TYPE_CHECKING:
    from core.cluster.leadership import Leadership
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.embedded import EmbeddedPostgres
    from core.term import Term
    from jetgate.facade import Facade
    from jetgate.server_numbers import Node

log = logging.getLogger("jetgate")

# What is imported before the campaign.
_CAMPAIGN = (
    "core.storage.postgres.preflight",
    "core.storage.postgres.migrate",
    "core.campaign",
)
# What is imported beside the start of PostgreSQL, or after the first attempt to lead: it takes the
# processor longer than all before, and would keep it from the campaign.
_FACADE, _TERM = "jetgate.facade", "core.term"


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
        self._health = StorageHealth(self._clock)
        self._stalls = StallWatch(self._clock)
        self._collections = FullCollections(self._clock)
        self._ports = PortsFile(config.data)
        self._manager = ServiceManager()
        self._connector: Connector
        self._postgres: EmbeddedPostgres | None = None
        self._http_start: HttpStart | None = None
        self._http_port = 0
        self._lock = -1
        self._facade: Facade | None = None
        self._node: Node | None = None
        self._imports: asyncio.Task[None] | None = None
        self._stands_by = False
        self._has_stood_by = False
        self._obstacle = ""  # why it could not serve if it led
        self._was_ready = False

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM.

        Raises:
            OperatorError: it cannot be started.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_asked, number)
        waits.addFilter(self._health.may_log)
        try:
            await self._life.run()
        finally:
            waits.removeFilter(self._health.may_log)
            self._health.close()
        log.info("stopped")

    def _stop_asked(self, number: signal.Signals) -> None:
        log.info("stopping (%s)", signal.Signals(number).name)
        self._manager.stopping()
        self._life.stop()
        # Whoever asks twice does not want to wait.
        asyncio.get_running_loop().remove_signal_handler(number)

    # -- the whole life ----------------------------------------------------------------------

    async def open(self) -> bool:
        """Open the HTTP port. Who has PostgreSQL for himself accepts clients at once."""
        config = self._config
        if config.database is None:
            self._lock = self._claim()
            # A standby may share the port of the node that leads; `dev` has nobody to share with.
            probe(config.host, config.nats_port, "NATS")
            if config.ws_port:
                probe(config.host, config.ws_port, "WS")
        tls = tls_of(config.http_tls_cert, config.http_tls_key)
        self._http_start = HttpStart(listen(config.host, config.http_port, "HTTP"), tls=tls)
        self._http_port = self._http_start.port
        await self._http_start.start()
        if config.is_exposed and config.users is None:
            log.warning("listening on %s: whoever reaches it may read and write", config.host)
        return config.database is None

    def _claim(self) -> int:
        """Lock the data directory."""
        if sys.platform == "win32":
            raise OperatorError("embedded PostgreSQL does not run on Windows: use serve --dsn")
        from core.storage.claims import claim  # not on every platform

        assert self._config.data is not None
        return claim(Path(os.path.abspath(self._config.data)))

    def listening(self) -> None:
        """Write where everything is, as soon as whoever reads it is served or made to wait."""
        if self._facade is None or not self._facade.is_answering:
            self._ports.write(self._addresses())

    async def prepare(self) -> Candidacy:
        """Open the database and bring the schema up to date."""
        if (database := self._config.database) is not None:
            await self._open_given(database)
        else:
            await self._open_embedded()
        from core.storage.postgres.migrate import migrate  # imported by now

        if await migrate(self._connector):
            log.info("the schema in %s is now that of this release", self._connector.address)
        return Candidacy(self._campaign, self._load)

    def _rest(self) -> asyncio.Task[None]:
        """The import of what it takes to serve, begun with the first call."""
        if self._imports is None:
            self._imports = spawn(self._import_rest(), name="imports")
        return self._imports

    async def _import_rest(self) -> None:
        """Import the façade, which may have to say that this process stands by, and the term."""
        await imported(_FACADE)
        from jetgate.facade import Facade  # imported by now
        from jetgate.server_numbers import Node

        assert self._http_start is not None, "opened first"
        settings = self._config.http
        if not (settings.hosts or settings.trusted_proxies or self._config.is_exposed):
            settings = replace(settings, hosts=("localhost",))  # no name of another leads here
        self._node = Node(self._server.hub, self._health, self._stalls, self._clock)
        self._node.obstacle = self._obstacle
        self._facade = Facade(self._http_start, self._server, self._node, settings)
        if self._stands_by:
            self._facade.stand_by(self._why_not_leading)
        await imported(_TERM)

    async def _open_given(self, database: Database) -> None:
        await imported(*_CAMPAIGN)
        self._connector = database.connector()
        self._manager.starting(f"connecting to PostgreSQL at {self._connector.address}")
        await database.checked(self._connector, self._clock)

    async def _open_embedded(self) -> None:
        embedded = await imported(*_CAMPAIGN, "core.storage.postgres.embedded")
        self._postgres = postgres = embedded.EmbeddedPostgres(self._config.data, lock=self._lock)
        self._rest()
        await postgres.start()
        self._connector = postgres.connector

    async def _campaign(self) -> Leadership:
        """Wait until this process leads; HTTP says meanwhile that it stands by."""
        from core.campaign import campaign  # imported by now

        leadership = await campaign(
            self._connector,
            self._clock,
            name=f"{socket.gethostname()}-{nuid()[-6:]}",
            health=self._health,
            standing_by=self._stand_by,
            obstacle=self._find_obstacle,
        )
        self._stands_by = False
        return leadership

    def _find_obstacle(self) -> str:
        """Say why this process could not serve if it led.

        Who starts as the only node finds out when he leads, and ends.
        """
        if self._has_stood_by or self._was_ready:
            self._obstacle = self._taken_address()
            if self._node is not None:
                self._node.obstacle = self._obstacle
        return self._obstacle

    def _taken_address(self) -> str:
        ports = {"NATS": self._server.port, "WS": self._server.ws_port}
        try:
            for what, port in ports.items():
                if port:
                    probe(self._config.host, port, what)
        except OperatorError as error:
            return str(error)
        return ""

    def _why_not_leading(self) -> str:
        """Say what is known of that, for /readyz."""
        trouble = self._health.trouble
        parts = [f"storage is away: {trouble}"] if trouble else []
        return "; ".join([*parts, self._obstacle] if self._obstacle else parts)

    def _stand_by(self) -> None:
        """Say over HTTP that another process leads, as soon as that is imported."""
        self._manager.ready("standing by")
        self._stands_by = self._has_stood_by = True
        if self._facade is not None:
            self._facade.stand_by(self._why_not_leading)
        self._rest()

    async def _load(self, leadership: Leadership) -> Term:
        """Load the streams."""
        await asyncio.shield(self._rest())
        from core.term import TermOptions, load  # imported by now

        options = TermOptions(remotes=self._config.remotes)
        return await load(self._server, self._connector, leadership, options)

    async def close(self) -> None:
        """Close the HTTP port and stop an embedded PostgreSQL."""
        await stop(self._imports)
        await self._close_http()
        if self._postgres is not None:
            await self._postgres.stop()
        self._stalls.stop()
        self._collections.stop()

    async def _close_http(self) -> None:
        if self._facade is not None:
            await self._facade.stop()
        elif self._http_start is not None:
            self._http_start.stop()

    def cannot_listen(self, error: OSError) -> Exception:
        """Return the error for a NATS port that cannot be had."""
        found = refusal(self._config.host, self._server.port, "NATS", error)
        if not self._has_stood_by:
            return found
        return Unavailable(f"the leadership is given back: {found}")

    # -- one leadership ----------------------------------------------------------------------

    async def serve(self, term: Term | None) -> None:
        """Serve the façade, and tell that all is there."""
        assert term is not None
        assert self._facade is not None
        await self._facade.serve(term, self._connector)
        addresses = self._addresses()
        self._ports.write(addresses)
        row = term.leadership.row
        row.nats, row.http = addresses["nats"], addresses["http"]
        log.info("leading as %s since epoch %d: %s", row.node, term.leadership.epoch, row.shown)
        self._say_ready(addresses)

    async def step_down(self, *, for_good: bool) -> None:
        """End the façade; HTTP answers as a standby again."""
        self._ports.remove()
        if for_good:
            await self._close_http()
        elif self._facade is not None:
            self._facade.stand_by(self._why_not_leading)
            await self._facade.step_down()

    def _addresses(self) -> dict[str, str]:
        host, ws_port = self._config.host, self._server.ws_port
        found = {
            "nats": url("nats", host, self._server.port),
            "http": url("https" if self._config.http_tls_cert else "http", host, self._http_port),
        }
        return found | ({"ws": url("ws", host, ws_port)} if ws_port is not None else {})

    def _say_ready(self, addresses: dict[str, str]) -> None:
        self._collections.start()
        self._manager.ready(f"leading: {addresses['nats']} {addresses['http']}")
        if self._was_ready:
            return
        self._was_ready = True
        self._stalls.start()
        embedded = self._postgres is not None
        text = ready(
            addresses["nats"],
            addresses["http"],
            ws=addresses.get("ws", ""),
            where=f"data in {self._config.data}" if embedded else self._connector.address,
            psql=_psql(),
            dsn=f"'{self._connector.parts.url()}'",
        )
        tell(text, sys.stdout)


def _psql() -> str:
    """psql, or the one that came with the embedded server."""
    if shutil.which("psql") is None:
        with contextlib.suppress(OperatorError, ImportError):
            from core.storage.postgres.embedded.installation import find_installation

            return str(find_installation().binary("psql"))
    return "psql"
