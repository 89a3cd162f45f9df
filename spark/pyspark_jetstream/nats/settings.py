"""Settings of a NATS connection, as plain values that Spark can send to executors."""

from dataclasses import dataclass

from pyspark_jetstream.values import Secret

API_PREFIX = "$JS.API"
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings of a connection. Paths are files on the machine that connects.

    Attributes:
        ca: File of trusted certificates; "" for those of the system.
        cert, key: Files of the client's certificate and key; "" for none.
        key_password: Password of the key file.
        verify: True to check the certificate of the server.
        first: True if the server expects the TLS handshake before its INFO (`handshake_first`).
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    key_password: Secret | None = None
    verify: bool = True
    first: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Servers of a NATS connection, credentials and time limits.

    Each connection reads secrets on the machine that opens it.

    Attributes:
        servers: `nats://host:port` or `tls://host:port`, tried in turn, beginning with a random
            one.
        name: Name of the client in CONNECT.
        token, user, password: Secrets of CONNECT; None if not used.
        nkey: The seed of a user's key, `SU...`.
        creds: Text of a `.creds` file: a JWT and the seed of its key.
        tls: TLS settings; None for TLS only if server or address require it.
        api_prefix: Subject prefix of JetStream's API.
        inbox_prefix: Subject prefix of replies.
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
