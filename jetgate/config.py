"""The configuration of `jetgate dev` and `jetgate serve` as one frozen, checked value."""

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
    """Transports on which a publisher's permissions are checked for the headers of its messages.

    Some headers let the server publish to, or read, another subject. The author of the message, the
    client that published it, then needs permission for that subject (`--author-permissions`).
    """

    HTTP = "http"
    NATS = "nats"
    ALL = "all"
    NONE = "none"

    @property
    def doors(self) -> frozenset[str]:
        """The connection types whose message headers are checked, for `core.pubsub.server.Hub`."""
        over_http = AUTHORS_OVER_HTTP if self in ("http", "all") else frozenset[str]()
        return over_http | AUTHORS_OVER_NATS if self in ("nats", "all") else over_http


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a server process.

    Attributes:
        host: Address to listen on; the default is reachable only from this machine.
        nats_port: Port for NATS clients; 0: any free port.
        http_port: Port for HTTP; 0: any free port.
        ws_port: Port of NATS over WebSocket; 0: any free port, None: not served.
        data: Directory of `ports.json`, and of the data of an embedded PostgreSQL; None: neither.
        database: The database of `serve`; None: an embedded PostgreSQL in `data`.
        standby: A standby of `database` that Direct Get reads from; None: there is none.
        users: Users that may connect; None: everyone may.
        mappings: Subject mappings of the clients' publishes.
        remotes: Other NATS systems to connect to, besides those stored in the database.
        http: Limits and rules of HTTP; its key of ack tokens comes from the database.
        http_tls_cert: PEM file of the HTTP port's certificate; empty: no TLS.
        http_tls_key: PEM file of the certificate's key.
        cluster_listen: Host and port for links of other nodes; None: `host` with any free port.
        cluster_advertise: Host and port that other nodes connect to; None: `cluster_listen`.
        tags: Tags of the node, by which streams are placed.
        author_permissions: Transports on which a publisher needs permission for the subjects that
            its messages' headers name.

    Raises:
        ConfigError: A port is out of range or used twice, `host` is empty, or both `database` and
            `data` are None.
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
        """True if `host` is not a loopback address, so other machines may reach this process."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"


def directory_of(text: str) -> Path:
    """Return the value of `--data` as a path.

    Raises ConfigError if it is empty, because pathlib would use the current directory.
    """
    if not text:
        raise ConfigError("--data", "is empty, expected a directory")
    return Path(text)


def place_of(flag: str, text: str) -> tuple[str, int] | None:
    """Parse the value `host:port` of a flag; return None if it is empty.

    Raises ConfigError, with the name of the flag, if it has another form.
    """
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(flag, f"{text!r} is no address, expected host:port")
    return host.strip("[]"), int(port)


def users_of(
    token: str, user: str, password: str, system_user: str = "", system_password: str = ""
) -> Users | None:
    """Return the users that the flags of a command configure; None without a user or token.

    Raises ConfigError if flags exclude each other, or one of a pair is missing.

    Args:
        token: Token that every client must send.
        user, password: The user of clients.
        system_user, system_password: The user of the system account, in addition to `user`.
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
