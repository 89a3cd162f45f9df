"""How a NATS server is reached: values only, so that executors can be sent them."""

from dataclasses import dataclass

from pyspark_jetstream.values import Secret

API_PREFIX = "$JS.API"
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Tls:
    """What encrypts a connection; paths are files on the machine that connects.

    `first` says that the server expects the handshake before it says anything
    (`handshake_first` in its configuration).
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    key_password: Secret | None = None
    verify: bool = True
    first: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """One set of servers and who connects to them.

    Secrets are looked up where a connection is made, on the machine that makes it.

    Args:
        servers: `nats://host:port` or `tls://host:port`, tried in turn from a random one on.
        creds: What a `.creds` file holds, a JWT and the seed of its key; mostly `file:PATH`.
        nkey: The seed of a user's key, `SU...`.
        connect_timeout: Seconds for one server to answer the handshake.
        timeout: Seconds without a word from a server that was asked.
        retries: How often a broken connection is made again without progress; see `tries_within`.
        patience: Seconds after which it is not made again, whatever `retries` says.
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
    patience: float = float("inf")
