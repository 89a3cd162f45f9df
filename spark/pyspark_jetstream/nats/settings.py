"""Settings of a connection to NATS: values only, so that Spark can send them to executors."""

from dataclasses import dataclass

from pyspark_jetstream.values import Secret

API_PREFIX = "$JS.API"
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings of a connection; paths are files on the machine that connects.

    `first` means that the server expects the handshake before INFO (`handshake_first` in its
    configuration).
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    key_password: Secret | None = None
    verify: bool = True
    first: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Servers and the credentials to connect with.

    Each connection resolves the secrets on the machine that opens it.

    Attributes:
        servers: `nats://host:port` or `tls://host:port`, tried in turn from a random one on.
        creds: Text of a `.creds` file, a JWT and the seed of its key; mostly `file:PATH`.
        nkey: The seed of a user's key, `SU...`.
        connect_timeout: Limit of one server's handshake, in seconds.
        timeout: Limit of silence after a request, in seconds.
        retries: Consecutive attempts to reconnect without progress; see `tries_within`.
        reconnect_limit: Limit of reconnecting in seconds, even if `retries` allows more.
    """

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    name: str = "pyspark-jetstream"
    token: Secret | None = None
    user: Secret | None = None
    password: Secret | None = None
    nkey: Secret | None = None
    creds: Secret | None = None
    tls: Tls | None = None
    api_prefix: str = API_PREFIX
    inbox_prefix: str = "_INBOX"
    connect_timeout: float = CONNECT_TIMEOUT
    timeout: float = 30.0
    retries: int = 5
    reconnect_limit: float = float("inf")
