"""`jetgate dev` and `jetgate serve`: their flags, and the configuration that results from them."""

import logging
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from core.auth.users import Users
from core.config.secret_files import secret_of
from core.model.tags import clean_tags
from gateway.settings import Settings
from jetgate.config import (
    DATA_DIRECTORY,
    HTTP_PORT,
    NATS_PORT,
    AuthorPermissions,
    Config,
    directory_of,
    place_of,
    users_of,
)
from jetgate.database import (
    Dsn,
    DsnFile,
    DsnPasswordFile,
    ReadDsn,
    ReadDsnFile,
    WaitForDb,
    required,
    standby,
)
from jetgate.flag_groups import grouped
from jetgate.logs import Format, Level
from jetgate.process import Process
from jetgate.run import LogFormat, LogLevel, run

log = logging.getLogger(__name__)

_DSNS = ("dsn", "read_dsn")
_SECRETS = {
    "auth": "--auth",
    "password": "--pass",
    "system_password": "--system-pass",
    "dsn": "--dsn",
    "read_dsn": "--read-dsn",
}
_HAS_PASSWORD = re.compile(r"://[^/?@]*:[^/?@]+@|\bpassword\s*=")

Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
NatsPort = Annotated[int, typer.Option(help="Port for NATS clients; 0 for any free one.")]
HttpPort = Annotated[int, typer.Option(help="Port for HTTP; 0 for any free one.")]
WsPort = Annotated[
    int | None,
    typer.Option(help="Port for NATS over WebSocket; 0 for any free one; without it: none."),
]
Auth = Annotated[str, typer.Option(envvar="JETGATE_AUTH", help="Token that clients must send.")]
AuthFile = Annotated[
    str, typer.Option(envvar="JETGATE_AUTH_FILE", help="File with the value of --auth.")
]
UserName = Annotated[
    str, typer.Option("--user", envvar="JETGATE_USER", help="User name that clients must send.")
]
Password = Annotated[
    str,
    typer.Option(
        "--pass", envvar="JETGATE_PASS", help="Password of the user, or its hash; see --pass-file."
    ),
]
PasswordFile = Annotated[
    str,
    typer.Option("--pass-file", envvar="JETGATE_PASS_FILE", help="File with the value of --pass."),
]
SystemUser = Annotated[
    str,
    typer.Option(envvar="JETGATE_SYSTEM_USER", help="User that may read the state of the cluster."),
]
SystemPass = Annotated[
    str,
    typer.Option(
        "--system-pass",
        envvar="JETGATE_SYSTEM_PASS",
        help="Password of --system-user; see --system-pass-file.",
    ),
]
SystemPassFile = Annotated[
    str,
    typer.Option(
        "--system-pass-file",
        envvar="JETGATE_SYSTEM_PASS_FILE",
        help="File with the value of --system-pass.",
    ),
]
ConfigFile = Annotated[
    str,
    typer.Option("--config", help="File with the blocks http, remotes, mappings; else flags."),
]
TlsCert = Annotated[
    str, typer.Option(help="PEM file: certificate of the HTTP port, and its chain.")
]
TlsKey = Annotated[str, typer.Option(help="PEM file: the key of that certificate.")]
ClusterListen = Annotated[
    str,
    typer.Option(help="host:port for links of other nodes; without it: --host, any free port."),
]
ClusterAdvertise = Annotated[
    str, typer.Option(help="host:port that other nodes connect to, if it differs.")
]
NodeTags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Tag of the node, by which streams are placed; repeatable."),
]
Authors = Annotated[
    AuthorPermissions,
    typer.Option(help="Where headers need permission too (docs/http-auth.md)."),
]
HttpHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--http-host", help="Host name accepted over HTTP, or *; repeatable (docs/http-auth.md)."
    ),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--http-trusted-proxy", help="Network of trusted proxies (Forwarded); repeatable."
    ),
]
CorsOrigins = Annotated[
    list[str] | None,
    typer.Option(
        "--http-cors-origin", help="Origin of web pages allowed by CORS, https://host; repeatable."
    ),
]
RateLimit = Annotated[
    str,
    typer.Option(
        "--http-rate-limit", help="Rate limit of each principal, requests/seconds: 600/60."
    ),
]


@dataclass(frozen=True)
class Listeners:
    """The flags of the host and the ports on which clients are served."""

    host: Host = "127.0.0.1"
    nats_port: NatsPort = NATS_PORT
    http_port: HttpPort = HTTP_PORT
    ws_port: WsPort = None


@dataclass(frozen=True)
class Credentials:
    """The flags of the token, or of the user and password, that clients must send."""

    auth: Auth = ""
    auth_file: AuthFile = ""
    user: UserName = ""
    password: Password = ""
    password_file: PasswordFile = ""

    def users(self, system_user: str = "", system_password: str = "") -> Users | None:
        """Return the users that may connect; None if every client may.

        Raises ConfigError if flags exclude each other, one is missing, or a file is unusable.
        """
        return users_of(
            secret_of("--auth", self.auth, self.auth_file),
            self.user,
            secret_of("--pass", self.password, self.password_file),
            system_user,
            system_password,
        )


@dataclass(frozen=True)
class SystemCredentials:
    """The flags of a system account user, with permission to read the state of the cluster."""

    system_user: SystemUser = ""
    system_password: SystemPass = ""
    system_password_file: SystemPassFile = ""

    def secret(self) -> str:
        """Return the password of the system account user, from the flag or the file.

        Raises ConfigError if both are given or the file is unusable.
        """
        return secret_of("--system-pass", self.system_password, self.system_password_file)


@dataclass(frozen=True)
class HttpFlags:
    """The flags of HTTP, and the flag `--config` of the configuration file."""

    config: ConfigFile = ""
    http_tls_cert: TlsCert = ""
    http_tls_key: TlsKey = ""
    http_host: HttpHosts = None
    http_trusted_proxy: TrustedProxies = None
    http_cors_origin: CorsOrigins = None
    http_rate_limit: RateLimit = ""

    def members(self) -> dict[str, Any]:
        """Return the values as keyword arguments of `Config`.

        Raises ConfigError if a flag or the file is invalid.
        """
        return {
            "http_tls_cert": self.http_tls_cert,
            "http_tls_key": self.http_tls_key,
            **members_of(
                self.config,
                self.http_host,
                self.http_trusted_proxy,
                self.http_cors_origin,
                self.http_rate_limit,
            ),
        }


@dataclass(frozen=True)
class DatabaseFlags:
    """The flags of an existing PostgreSQL and its standby."""

    dsn: Dsn = None
    dsn_file: DsnFile = ""
    dsn_password_file: DsnPasswordFile = ""
    read_dsn: ReadDsn = None
    read_dsn_file: ReadDsnFile = ""
    wait_for_db: WaitForDb = 0

    def members(self) -> dict[str, Any]:
        """Return the values as keyword arguments of `Config`.

        Raises ConfigError if flags exclude each other or a file is unusable.
        """
        return {
            "database": required(self.dsn, self.dsn_file, self.dsn_password_file, self.wait_for_db),
            "standby": standby(self.read_dsn, self.read_dsn_file, self.dsn_password_file),
        }


@dataclass(frozen=True)
class LinkFlags:
    """The flags of the addresses for links between nodes."""

    cluster_listen: ClusterListen = ""
    cluster_advertise: ClusterAdvertise = ""

    def members(self) -> dict[str, Any]:
        """Return the values as keyword arguments of `Config`.

        Raises ConfigError if one is not host:port.
        """
        return {
            "cluster_listen": place_of("--cluster-listen", self.cluster_listen),
            "cluster_advertise": place_of("--cluster-advertise", self.cluster_advertise),
        }


@dataclass(frozen=True)
class NodeFlags:
    """The flags `--tag` and `--author-permissions` of a node."""

    author_permissions: Authors = AuthorPermissions.HTTP
    tag: NodeTags = None

    def members(self) -> dict[str, Any]:
        """Return the values as keyword arguments of `Config`.

        Raises ConfigError if a tag is invalid.
        """
        return {
            "author_permissions": self.author_permissions,
            "tags": clean_tags(self.tag or ()),
        }


@dataclass(frozen=True)
class Logging:
    """The flags of level and format of the log."""

    log_level: LogLevel = Level.INFO
    log_format: LogFormat = Format.TEXT


@grouped
def dev(
    context: typer.Context,
    *,
    listeners: Listeners,
    data: Annotated[str, typer.Option(help="Directory for the data.")] = str(DATA_DIRECTORY),
    credentials: Credentials,
    http: HttpFlags,
    node: NodeFlags,
    logs: Logging,
) -> None:
    """Start everything on this machine: PostgreSQL, NATS on 4222, HTTP on 8080.

    Data stay in ./.jetgate; only this machine can connect.
    Ctrl-C stops. Messages survive that, and kill -9.

    [bold]Examples[/bold]

      jetgate dev

      jetgate dev --nats-port 0 --http-port 0 --data /tmp/try

    The second takes any free ports; /tmp/try/ports.json lists them.
    """
    _serve(
        context,
        logs,
        lambda: Config(
            **asdict(listeners),
            data=directory_of(data),
            users=credentials.users(),
            **http.members(),
            **node.members(),
        ),
    )


@grouped
def serve(
    context: typer.Context,
    *,
    database: DatabaseFlags,
    listeners: Listeners,
    data: Annotated[
        str | None, typer.Option(help="Directory for ports.json; none is written without.")
    ] = None,
    credentials: Credentials,
    system: SystemCredentials,
    http: HttpFlags,
    links: LinkFlags,
    node: NodeFlags,
    logs: Logging,
) -> None:
    """Serve from a PostgreSQL of yours.

    The database must be durable (fsync, full_page_writes, synchronous_commit)
    and reached directly, not through a transaction pooler.

    Start the command several times: each node leads a part of the streams and
    serves every client; when one ends, others take over within seconds.

    [bold]Examples[/bold]

      jetgate serve --dsn postgresql://jetgate@db.example/jetgate --host 0.0.0.0

      jetgate serve --dsn-file /run/secrets/dsn --wait-for-db 60
    """
    _serve(
        context,
        logs,
        lambda: Config(
            **asdict(listeners),
            data=None if data is None else directory_of(data),
            **database.members(),
            users=credentials.users(system.system_user, system.secret()),
            **http.members(),
            **links.members(),
            **node.members(),
        ),
    )


def members_of(
    path: str,
    hosts: list[str] | None,
    proxies: list[str] | None,
    origins: list[str] | None,
    rate: str,
) -> dict[str, Any]:
    """Return the settings of a configuration file and HTTP flags as keyword arguments of `Config`.

    Raises ConfigError if the file or a flag is invalid.

    Args:
        path: Value of `--config`; empty: no file.
        hosts: Values of `--http-host`.
        proxies: Values of `--http-trusted-proxy`.
        origins: Values of `--http-cors-origin`.
        rate: Value of `--http-rate-limit`; empty: not set.
    """
    members: dict[str, Any] = {}
    if path:
        from jetgate.config_file import read_blocks  # imported late: rarely needed

        blocks = read_blocks(path)
        members = {"mappings": blocks.mappings, "remotes": blocks.remotes, "http": blocks.http}
    if hosts or proxies or origins or rate:
        from jetgate.http_settings import with_flags  # imported late: rarely needed

        members["http"] = with_flags(
            members.get("http", Settings()),
            hosts=hosts or [],
            proxies=proxies or [],
            origins=origins or [],
            rate=rate,
        )
    return members


def exposed_secrets(context: typer.Context) -> list[str]:
    """Return the flags whose secret is on the command line.

    Every user of the machine can see it there. Environment variables are excluded, because only the
    same user sees them.
    """
    return [
        flag
        for name, flag in _SECRETS.items()
        if (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
        and (name not in _DSNS or _HAS_PASSWORD.search(context.params[name] or ""))
    ]


def _serve(context: typer.Context, logs: Logging, make: Callable[[], Config]) -> None:
    async def work() -> None:
        process = Process(make())
        for flag in exposed_secrets(context):
            log.warning("the list of processes shows the value of %s: use %s-file", flag, flag)
        await process.run()

    run(work, logs.log_level, logs.log_format)
