"""`jetgate dev` and `jetgate serve`: their flags, and the configuration that these make."""

import logging
import re
from collections.abc import Callable
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
from jetgate.logs import Format, Level
from jetgate.process import Process
from jetgate.run import LogFormat, LogLevel, run

log = logging.getLogger("jetgate")

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
Auth = Annotated[str, typer.Option(envvar="JETGATE_AUTH", help="Token that clients must know.")]
AuthFile = Annotated[
    str, typer.Option(envvar="JETGATE_AUTH_FILE", help="File that holds what --auth would say.")
]
UserName = Annotated[
    str, typer.Option("--user", envvar="JETGATE_USER", help="User that clients must be.")
]
Password = Annotated[
    str,
    typer.Option(
        "--pass", envvar="JETGATE_PASS", help="Password of the user, or its hash; see --pass-file."
    ),
]
PasswordFile = Annotated[
    str,
    typer.Option(
        "--pass-file", envvar="JETGATE_PASS_FILE", help="File that holds what --pass would say."
    ),
]
SystemUser = Annotated[
    str,
    typer.Option(envvar="JETGATE_SYSTEM_USER", help="User who may ask about the cluster itself."),
]
SystemPass = Annotated[
    str,
    typer.Option(
        "--system-pass", envvar="JETGATE_SYSTEM_PASS", help="His password; see --system-pass-file."
    ),
]
SystemPassFile = Annotated[
    str,
    typer.Option(
        "--system-pass-file",
        envvar="JETGATE_SYSTEM_PASS_FILE",
        help="File that holds what --system-pass would say.",
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
    str, typer.Option(help="host:port by which they reach it, if that is another.")
]
NodeTags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Tag of the node, by which streams are placed; repeatable."),
]
Authors = Annotated[
    AuthorPermissions,
    typer.Option(help="Where headers need permission too (docs/signin.md)."),
]
HttpHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--http-host", help="Name by which HTTP may be asked, or *; repeatable (docs/signin.md)."
    ),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option("--http-trusted-proxy", help="Network whose Forwarded is believed; repeatable."),
]
CorsOrigins = Annotated[
    list[str] | None,
    typer.Option("--http-cors-origin", help="https://host of pages that may ask; repeatable."),
]
RateLimit = Annotated[
    str, typer.Option("--http-rate-limit", help="Requests/seconds of each identity: 600/60.")
]


def dev(
    context: typer.Context,
    host: Host = "127.0.0.1",
    nats_port: NatsPort = NATS_PORT,
    http_port: HttpPort = HTTP_PORT,
    ws_port: WsPort = None,
    data: Annotated[str, typer.Option(help="Directory for the data.")] = str(DATA_DIRECTORY),
    auth: Auth = "",
    auth_file: AuthFile = "",
    user: UserName = "",
    password: Password = "",
    password_file: PasswordFile = "",
    config: ConfigFile = "",
    http_tls_cert: TlsCert = "",
    http_tls_key: TlsKey = "",
    http_host: HttpHosts = None,
    http_trusted_proxy: TrustedProxies = None,
    http_cors_origin: CorsOrigins = None,
    http_rate_limit: RateLimit = "",
    author_permissions: Authors = AuthorPermissions.HTTP,
    tag: NodeTags = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> None:
    """Start everything on this machine: PostgreSQL, NATS on 4222, HTTP on 8080.

    Data stay in ./.jetgate; only this machine can connect.
    Ctrl-C stops. Messages survive that, and kill -9.

    [bold]Examples[/bold]

      jetgate dev

      jetgate dev --nats-port 0 --http-port 0 --data /tmp/try

    The second takes any free ports; /tmp/try/ports.json says which.
    """
    _serve(
        context,
        log_level,
        log_format,
        lambda: Config(
            host=host,
            nats_port=nats_port,
            http_port=http_port,
            ws_port=ws_port,
            data=directory_of(data),
            users=_users(auth, auth_file, user, password, password_file),
            http_tls_cert=http_tls_cert,
            http_tls_key=http_tls_key,
            author_permissions=author_permissions,
            tags=clean_tags(tag or ()),
            **members_of(config, http_host, http_trusted_proxy, http_cors_origin, http_rate_limit),
        ),
    )


def serve(
    context: typer.Context,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    read_dsn: ReadDsn = None,
    read_dsn_file: ReadDsnFile = "",
    wait_for_db: WaitForDb = 0,
    host: Host = "127.0.0.1",
    nats_port: NatsPort = NATS_PORT,
    http_port: HttpPort = HTTP_PORT,
    ws_port: WsPort = None,
    data: Annotated[
        str | None, typer.Option(help="Directory for ports.json; none is written without.")
    ] = None,
    auth: Auth = "",
    auth_file: AuthFile = "",
    user: UserName = "",
    password: Password = "",
    password_file: PasswordFile = "",
    system_user: SystemUser = "",
    system_password: SystemPass = "",
    system_password_file: SystemPassFile = "",
    config: ConfigFile = "",
    http_tls_cert: TlsCert = "",
    http_tls_key: TlsKey = "",
    http_host: HttpHosts = None,
    http_trusted_proxy: TrustedProxies = None,
    http_cors_origin: CorsOrigins = None,
    http_rate_limit: RateLimit = "",
    cluster_listen: ClusterListen = "",
    cluster_advertise: ClusterAdvertise = "",
    author_permissions: Authors = AuthorPermissions.HTTP,
    tag: NodeTags = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
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
        log_level,
        log_format,
        lambda: Config(
            host=host,
            nats_port=nats_port,
            http_port=http_port,
            ws_port=ws_port,
            data=None if data is None else directory_of(data),
            database=required(dsn, dsn_file, dsn_password_file, wait_for_db),
            standby=standby(read_dsn, read_dsn_file, dsn_password_file),
            users=_users(
                auth,
                auth_file,
                user,
                password,
                password_file,
                system_user,
                secret_of("--system-pass", system_password, system_password_file),
            ),
            http_tls_cert=http_tls_cert,
            http_tls_key=http_tls_key,
            cluster_listen=place_of("--cluster-listen", cluster_listen),
            cluster_advertise=place_of("--cluster-advertise", cluster_advertise),
            author_permissions=author_permissions,
            tags=clean_tags(tag or ()),
            **members_of(config, http_host, http_trusted_proxy, http_cors_origin, http_rate_limit),
        ),
    )


def _users(
    token: str,
    token_file: str,
    user: str,
    password: str,
    file: str,
    system_user: str = "",
    system_password: str = "",
) -> Users | None:
    return users_of(
        secret_of("--auth", token, token_file),
        user,
        secret_of("--pass", password, file),
        system_user,
        system_password,
    )


def members_of(
    path: str,
    hosts: list[str] | None,
    proxies: list[str] | None,
    origins: list[str] | None,
    rate: str,
) -> dict[str, Any]:
    """What a configuration file and flags say, as members of a Config. Raises ConfigError."""
    members: dict[str, Any] = {}
    if path:
        from jetgate.config_file import read_blocks  # most servers have none

        blocks = read_blocks(path)
        members = {"mappings": blocks.mappings, "remotes": blocks.remotes, "http": blocks.http}
    if hosts or proxies or origins or rate:
        from jetgate.http_settings import with_flags  # most servers need none of them

        members["http"] = with_flags(
            members.get("http", Settings()),
            hosts=hosts or [],
            proxies=proxies or [],
            origins=origins or [],
            rate=rate,
        )
    return members


def exposed_secrets(context: typer.Context) -> list[str]:
    """Return the flags by which the command line says a secret: every user of the machine sees it.

    A variable of the environment is seen by the same user alone.
    """
    return [
        flag
        for name, flag in _SECRETS.items()
        if (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
        and (name not in _DSNS or _HAS_PASSWORD.search(context.params[name] or ""))
    ]


def _serve(context: typer.Context, level: Level, form: Format, make: Callable[[], Config]) -> None:
    async def work() -> None:
        process = Process(make())
        for flag in exposed_secrets(context):
            log.warning("the list of processes shows what %s says: use %s-file", flag, flag)
        await process.run()

    run(work, level, form)
