"""The process of `jetgate dev` and `jetgate serve`, from its configuration to its end.

PostgreSQL -> checked, migrated -> standby -> leading -> serving -> ... -> stopped
                                      ^------ another node led --------|
"""

import asyncio
import contextlib
import gc
import logging
import shutil
import signal
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any

from core.client import Client, Options, attach, connect
from core.cluster.leadership import Leadership
from core.config.addresses import listen, refusal
from core.errors import Fenced, OperatorError, Unavailable
from core.node import Node, NodeOptions
from core.runtime.clock import SystemClock
from core.runtime.nuid import nuid
from core.runtime.stalls import StallWatch
from core.runtime.tasks import outcome, spawn, stop
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector, without_password
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.migrate import migrate
from core.storage.postgres.preflight import preflight
from core.storage.postgres.secrets import secret
from core.transport.loopback import connect_loopback
from gateway.app import create_app
from gateway.http_server import HttpServer, standby
from gateway.identities import Identities
from gateway.observations import Observation, RequestFailed
from gateway.settings import Settings
from jetgate.banner import ready
from jetgate.config import Config
from jetgate.login import login_to
from jetgate.node_numbers import snapshot
from jetgate.ports_file import PortsFile, url

log = logging.getLogger("jetgate")

_RETRY_S = 0.5


class Process:
    """One process: from its configuration to its end."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._stalls = StallWatch(self._clock)
        self._ports = PortsFile(config.data)
        self._asked = asyncio.Event()
        self._connector = Connector(config.dsn)
        self._postgres: Any = None
        self._http: HttpServer | None = None
        self._node: Node | None = None
        self._client: Client | None = None
        self._identities: Identities | None = None
        self._nats_port = config.nats_port
        self._ws_port = config.ws_port
        self._was_ready = False

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM.

        Raises:
            OperatorError: it cannot be started.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_asked, number)
        try:
            self._open_http()
            await self._unless_asked(self._open_storage())
            while not self._asked.is_set():
                await self._lead()
        finally:
            await self._shut_down()

    def _stop_asked(self, number: signal.Signals) -> None:
        log.info("stopping (%s)", signal.Signals(number).name)
        self._asked.set()
        # Whoever asks twice does not want to wait.
        asyncio.get_running_loop().remove_signal_handler(number)

    async def _unless_asked(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work, but not longer than until we are asked to stop; whether it was done."""
        task = spawn(outcome(work), name="start")
        asked = spawn(self._asked.wait(), name="asked to stop")
        await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
        await stop(asked)
        if not task.done():
            await stop(task)
            return False
        if (error := task.result()) is not None:
            raise error
        return True

    # -- starting ----------------------------------------------------------------------------

    def _open_http(self) -> None:
        config = self._config
        if not config.dsn:
            # A standby may share the port of the node that leads; `dev` has nobody to share with.
            listen(config.host, config.nats_port, "NATS").close()
            if config.ws_port:
                listen(config.host, config.ws_port, "WS").close()
        self._http = HttpServer(listen(config.host, config.http_port, "HTTP"))
        if config.is_exposed and config.users is None:
            log.warning("listening on %s: whoever reaches it may read and write", config.host)

    async def _open_storage(self) -> None:
        assert self._http is not None
        if self._config.dsn:
            await preflight(self._connector)
        else:
            self._connector = await self._open_embedded()
        if await migrate(self._connector):
            log.info("created the schema in %s", self._connector.address)
        self._http.start()

    async def _open_embedded(self) -> Connector:
        if sys.platform == "win32":
            raise OperatorError("embedded PostgreSQL does not run on Windows: use serve --dsn")
        from core.storage.postgres.embedded import EmbeddedPostgres  # not on every platform

        assert self._config.data is not None
        self._postgres = EmbeddedPostgres(self._config.data)
        return Connector(await self._postgres.start())

    # -- one leadership ----------------------------------------------------------------------

    async def _lead(self) -> None:
        """Wait to lead, serve, return when that is over."""
        row = NodeRow(nuid())
        leadership = Leadership(PostgresLeases(self._connector), self._clock, row)
        options = NodeOptions(
            host=self._config.host,
            port=self._nats_port,
            users=self._config.users,
            ws_port=self._ws_port,
            mappings=self._config.mappings,
            remotes=self._config.remotes,
        )
        self._node = Node(options, self._connector, leadership, self._clock)
        try:
            if await self._unless_asked(self._start_node()):
                row.nats, row.http = self._urls()
                await self._until_over(leadership)
        except (Unavailable, Fenced) as error:
            log.warning("%s; trying again", error)
            await self._unless_asked(asyncio.sleep(_RETRY_S))
        finally:
            await self._step_down()

    async def _start_node(self) -> None:
        assert self._node is not None
        assert self._http is not None
        try:
            await self._node.start()
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise Unavailable(str(error)) from error
            raise refusal(self._config.host, self._nats_port, "NATS", error) from error
        self._nats_port = self._node.hub.port
        self._ws_port = self._node.ws_port
        hub = self._node.hub
        link = attach(partial(connect_loopback, hub))
        # Where users are configured every request has a connection of its own identity.
        self._client = Client(link, Options()) if hub.gate else await connect(link)
        settings = Settings(ack_key=await secret(self._connector, "ack-tokens"))
        app = create_app(
            settings,
            self._client,
            login=login_to(hub) if hub.gate else None,
            observe=_observe,
            snapshot=partial(snapshot, self._node, self._stalls),
            clock=self._clock,
        )
        self._identities = app.state.identities
        self._http.use(app)
        self._say_ready()

    async def _until_over(self, leadership: Leadership) -> None:
        assert self._node is not None
        ends = [
            spawn(event.wait(), name=name)
            for event, name in (
                (self._asked, "asked to stop"),
                (self._node.deposed, "deposed"),
                (leadership.lost, "leadership lost"),
            )
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await stop(*ends)

    async def _step_down(self) -> None:
        """End what one leadership opened; HTTP answers as a standby again."""
        self._ports.remove()
        if self._http is not None:
            if self._asked.is_set():
                await self._http.stop()
            else:
                self._http.use(standby)
        if self._identities is not None:
            await self._identities.close()
            self._identities = None
        if self._client is not None:
            await self._client.close()
            self._client = None
        if self._node is not None:
            await self._node.stop()
            self._node = None

    async def _shut_down(self) -> None:
        await self._step_down()
        if self._http is not None:
            await self._http.stop()
        if self._postgres is not None:
            await self._postgres.stop()
        self._stalls.stop()

    # -- telling -----------------------------------------------------------------------------

    def _urls(self) -> tuple[str, str]:
        assert self._http is not None
        host = self._config.host
        return url("nats", host, self._nats_port), url("http", host, self._http.port)

    def _say_ready(self) -> None:
        nats, http = self._urls()
        ws = url("ws", self._config.host, self._ws_port) if self._ws_port is not None else ""
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
        print(text, end="", flush=True)


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
