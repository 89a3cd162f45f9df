"""The configuration of `jetgate dev` and `jetgate serve`: one frozen value, checked when made."""

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from core.auth.users import User, Users
from core.errors import ConfigError
from core.node.database import Database
from core.pubsub.mappings import Mapping
from core.pubsub.server import AUTHORS_OVER_HTTP, AUTHORS_OVER_NATS, SYSTEM_ACCOUNT
from core.remote.settings import Remote
from gateway.settings import Settings

NATS_PORT, HTTP_PORT = 4222, 8080
_PORT_OF = {"--nats-port": "NATS", "--http-port": "HTTP", "--ws-port": "WebSocket"}
_SYSTEM_TYPES = frozenset(("STANDARD", "WEBSOCKET"))
"""Connection types of a user of the system account; HTTP is excluded, because it serves streams."""
DATA_DIRECTORY = Path(".jetgate")


class AuthorPermissions(StrEnum):
    """Transports over which authors need permission for the requests in their messages' headers."""

    HTTP = "http"
    NATS = "nats"
    ALL = "all"
    NONE = "none"

    @property
    def doors(self) -> frozenset[str]:
        """Connection types, as in `core.pubsub.server.Hub.author_connection_types`."""
        over_http = AUTHORS_OVER_HTTP if self in ("http", "all") else frozenset[str]()
        return over_http | AUTHORS_OVER_NATS if self in ("nats", "all") else over_http


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a process.

    Attributes:
        host: Address to listen on; only this machine reaches the default.
        nats_port: 0 means any free port.
        http_port: 0 means any free port.
        ws_port: Port of NATS over WebSocket; 0 means any free port, None: not served.
        data: Directory of `ports.json`, and of the data of an embedded PostgreSQL.
        database: The database of flags; None: an embedded one in `data`.
        standby: A standby of `database` that Direct Get reads from; None: there is none.
        users: Users that may connect; None: all.
        mappings: Subject mappings of the clients' publishes.
        remotes: Other systems, besides those in the database.
        http: Limits and rules of HTTP; its key of ack tokens comes from the database.
        http_tls_cert: Certificate file of the HTTP port; empty: no TLS.
        http_tls_key: Key file of the certificate.
        cluster_listen: Address for links of other nodes; None: `host` with any free port.
        cluster_advertise: Address that other nodes use instead, with a port.
        tags: Tags for the placement of streams.
        author_permissions: Transports over which authors need permission for their headers.

    Raises:
        ConfigError: A value is invalid.
    """

    host: str = "127.0.0.1"
    nats_port: int = NATS_PORT
    http_port: int = HTTP_PORT
    ws_port: int | None = None
    data: Path | None = None
    database: Database | None = None
    standby: Database | None = None
    users: Users | None = None
    mappings: tuple[Mapping, ...] = ()
    remotes: tuple[Remote, ...] = ()
    http: Settings = field(default_factory=Settings)
    http_tls_cert: str = ""
    http_tls_key: str = ""
    cluster_listen: tuple[str, int] | None = None
    cluster_advertise: tuple[str, int] | None = None
    tags: tuple[str, ...] = ()
    author_permissions: AuthorPermissions = AuthorPermissions.HTTP

    def __post_init__(self) -> None:
        ports = {"--nats-port": self.nats_port, "--http-port": self.http_port}
        if self.ws_port is not None:
            ports["--ws-port"] = self.ws_port
        taken = dict[int, str]()
        for key, port in ports.items():
            if not 0 <= port <= 65535:
                raise ConfigError(key, f"{port} is not a port, expected 0 to 65535")
            if port and port in taken:
                raise ConfigError(key, f"{port} is the {taken[port]} port already")
            taken[port] = _PORT_OF[key]
        if not self.host:
            raise ConfigError("--host", "is empty, expected an address to listen on")
        if self.database is None and self.data is None:
            raise ConfigError("--data", "an embedded PostgreSQL needs a directory")

    @property
    def is_exposed(self) -> bool:
        """True if other machines may reach this process."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"


def directory_of(text: str) -> Path:
    """Parse `--data`. Raises ConfigError for an empty text, which pathlib reads as `.`."""
    if not text:
        raise ConfigError("--data", "is empty, expected a directory")
    return Path(text)


def place_of(flag: str, text: str) -> tuple[str, int] | None:
    """Parse `host:port`; return None for an empty text. Raises ConfigError."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(flag, f"{text!r} is no address, expected host:port")
    return host.strip("[]"), int(port)


def users_of(
    token: str, user: str, password: str, system_user: str = "", system_password: str = ""
) -> Users | None:
    """Return the users of a command's flags; None without a user or token.

    Raises ConfigError for flags that exclude each other, and for a missing one.
    """
    if bool(system_user) != bool(system_password):
        missing = "--system-pass" if system_user else "--system-user"
        raise ConfigError(missing, "not given; expected --system-user and --system-pass together")
    if system_user and not user:
        raise ConfigError("--system-user", "needs --user: users are distinguished by name")
    if token and (user or password):
        raise ConfigError("--auth", "a token, or a user with a password, not both")
    if bool(user) != bool(password):
        missing = "--pass" if user else "--user"
        raise ConfigError(missing, "not given; expected --user and --pass together")
    if token:
        return Users(token=token)
    users: tuple[User, ...] = (User(user, password),) if user else ()
    if system_user:
        users += (User(system_user, system_password, None, _SYSTEM_TYPES, SYSTEM_ACCOUNT),)
    return Users(users=users) if users else None
