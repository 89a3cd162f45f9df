"""The settings of `jetgate-nats-server`: values read from flags and from a configuration file.

Names and defaults are nats-server's; times are seconds, sizes bytes. What is not served here
ends up in one of two lists: `warnings` for what changes nothing for anybody (a listener that turns
everybody away), `refusals` for what would connect to others or keep somebody out.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import OperatorError
from core.pubsub.limits import Limits

if TYPE_CHECKING:  # most servers start without them
    from core.pubsub.mappings import Mapping
    from core.remote.settings import Remote
    from core.route.settings import RouteUrl

__all__ = ["ClusterOptions", "JetStreamOptions", "Options", "UnservedListener"]

DEFAULT_HOST = "0.0.0.0"
PORT = 4222
RANDOM_PORT = -1


@dataclass(slots=True)
class JetStreamOptions:
    """The block `jetstream`; 0 means what the machine offers."""

    enabled: bool = False
    store_dir: str = ""
    dsn: str = ""
    """The PostgreSQL where streams are stored, as libpq reads it."""
    dsn_file: str = ""
    dsn_password_file: str = ""
    wait_for_db: float = 0.0
    max_memory: int = 0
    max_file: int = 0
    domain: str = ""
    strict: bool = True
    is_block: bool = False
    """Whether it was a block of the file, and not a flag."""
    sync_interval: float = 120.0
    sync_always: bool = False
    limits: dict[str, int] = field(default_factory=dict)
    """Of streams and consumers, as `ServerLimits` names them."""

    @property
    def is_given(self) -> bool:
        """Whether streams are stored in a PostgreSQL that is there, not in one of its own."""
        return bool(self.dsn or self.dsn_file)

    def directory(self) -> Path:
        """Where the data are: as with nats-server, `jetstream` below the given directory."""
        if self.store_dir:
            return Path(self.store_dir) / "jetstream"
        import tempfile  # rarely needed

        return Path(tempfile.gettempdir()) / "nats" / "jetstream"


@dataclass(slots=True)
class ClusterOptions:
    """The block `cluster`, and its flags.

    Attributes:
        name: of the cluster; empty: one is made up, if there is a port.
        host: where routes are accepted; empty: every address.
        port: 0: the server is in no cluster; -1: any.
        compression: the mode; anything but "off" and "accept" asks for it.
        thresholds: round trips in seconds at which the mode `s2_auto` compresses more.
        accounts: those that are to have a connection of their own.
    """

    name: str = ""
    host: str = ""
    port: int = 0
    routes: tuple[RouteUrl, ...] = ()
    user: str = ""
    password: str = ""
    timeout: float = 2.0
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0
    pool_size: int = 0
    accounts: tuple[str, ...] = ()
    compression: str = ""
    thresholds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class UnservedListener:
    """A listener of a protocol that is not served: bound, and everybody is turned away."""

    kind: str
    host: str
    port: int


@dataclass(slots=True)
class Options:
    """Everything the command can be told."""

    host: str = DEFAULT_HOST
    port: int = PORT
    server_name: str = ""
    client_advertise: str = ""
    http_host: str = ""
    http_port: int = 0
    http_base_path: str = ""
    http_allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may read the monitoring port; `*`: all."""
    http_allowed_hosts: tuple[str, ...] = ()
    """Names by which it may be asked; `*`: any; none: see `nats_server.monitoring_access`."""
    debug: bool = False
    trace: bool = False
    trace_headers: bool = False
    max_traced_msg_len: int = 0
    logtime: bool = True
    logtime_utc: bool = False
    log_file: str = ""
    log_size_limit: int = 0
    log_max_num: int = 0
    syslog: bool = False
    remote_syslog: str = ""
    pid_file: str = ""
    ports_file_dir: str = ""
    prof_port: int = 0
    max_control_line: int = 4096
    no_header_support: bool = False
    max_payload: int = 1024 * 1024
    max_pending: int = 64 * 1024 * 1024
    max_connections: int = 65536
    max_subscriptions: int = 0
    max_subscription_tokens: int = 0
    max_closed_clients: int = 10000
    ping_interval: float = 120.0
    ping_max: int = 2
    write_deadline: float = 10.0
    lame_duck_duration: float = 120.0
    lame_duck_grace_period: float = 10.0
    no_auth_user: str = ""
    author_permissions: bool = False
    """Whether authors need permission for what the headers of their messages ask for."""
    system_account: str = ""
    store_dir: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    jetstream: JetStreamOptions = field(default_factory=JetStreamOptions)
    authorization: dict[str, Any] | None = None
    """The block as plain values, or None: anybody may connect."""
    websocket: dict[str, Any] | None = None
    mappings: tuple[Mapping, ...] | None = None
    """None: there is no such block, and a reload leaves what is in force."""
    remotes: tuple[Remote, ...] = ()
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    unserved_listeners: list[UnservedListener] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)
    """What a check of the file complains of and a start does not, a line each."""
    config_file: str = ""
    digest: str = ""

    def limits(self) -> Limits:
        """The limits of the NATS port."""
        names = {limit.name for limit in fields(Limits)} & {own.name for own in fields(self)}
        return Limits(**{name: getattr(self, name) for name in names})

    def complete(self) -> None:
        """Fill in what follows from the rest; call it when everything is set."""
        jetstream = self.jetstream
        jetstream.store_dir = jetstream.store_dir or self.store_dir
        if jetstream.enabled:
            self._read_environment()
        if jetstream.enabled and jetstream.is_given and jetstream.store_dir:
            self.warnings.append("jetstream store_dir has no effect: a dsn is given")
        if self.prof_port:
            self.warnings.append("profiles are not served")
        self.host = self.host or DEFAULT_HOST

    def _read_environment(self) -> None:
        """Take what variables say of the database where flags and file name none."""
        told = self.jetstream
        if not told.is_given:
            told.dsn = os.environ.get("JETGATE_DSN", "")
            told.dsn_file = os.environ.get("JETGATE_DSN_FILE", "")
        named = os.environ.get("JETGATE_DSN_PASSWORD_FILE", "")
        told.dsn_password_file = told.dsn_password_file or named
        told.wait_for_db = told.wait_for_db or _seconds_of("JETGATE_WAIT_FOR_DB")


def _seconds_of(variable: str) -> float:
    """Read a variable as seconds; 0 where it is not set. Raises OperatorError."""
    text = os.environ.get(variable, "") or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise OperatorError(f"{variable}: {text!r}: expected a number of seconds")
    return seconds
