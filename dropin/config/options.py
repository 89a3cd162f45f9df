"""The settings of `jetgate-nats-server`, from flags and a configuration file.

Names and defaults are nats-server's; times are seconds, sizes bytes. A feature that is not served
is in one of two lists. `warnings` are for harmless features, such as a listener that closes every
connection. `refusals` prevent the start; they are for features that would connect to other servers
or restrict access.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import OperatorError
from core.pubsub.limits import Limits
from core.units import Seconds

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
    """The settings in the block `jetstream` and its flags.

    Attributes:
        enabled: True to serve JetStream.
        store_dir: Parent of the data directory; "": the directory of temporary files.
        dsn: Connection string of the PostgreSQL that stores the streams; "": an embedded one.
        dsn_file: File with the connection string.
        dsn_password_file: File with the password of the database role.
        wait_for_db: Seconds to wait for PostgreSQL at the start.
        max_memory, max_file: Limits of memory and file storage in bytes; 0: no limit;
            monitoring then shows three quarters of the machine's memory or free disk space.
        domain: JetStream domain; "": none.
        strict: True to refuse API requests with unknown fields.
        is_block: True if the file has a block `jetstream`, False if only a flag enables JetStream.
        sync_interval: Seconds, shown by monitoring only: every message is on disk before its ack.
        sync_always: True if `sync_interval` is `always`; shown by monitoring only.
        limits: Limits of streams and consumers, by the names of `ServerLimits`.
    """

    enabled: bool = False
    store_dir: str = ""
    dsn: str = ""
    """Connection string of the PostgreSQL that stores the streams, in libpq's format."""
    dsn_file: str = ""
    dsn_password_file: str = ""
    wait_for_db: Seconds = Seconds(0.0)
    max_memory: int = 0
    max_file: int = 0
    domain: str = ""
    strict: bool = True
    is_block: bool = False
    """True if the file has a block `jetstream`, False if only a flag enables JetStream."""
    sync_interval: Seconds = Seconds(120.0)
    sync_always: bool = False
    limits: dict[str, int] = field(default_factory=dict)
    """Limits of streams and consumers, by the names of `ServerLimits`."""

    @property
    def is_given(self) -> bool:
        """True if an existing PostgreSQL stores the streams, False for an embedded one."""
        return bool(self.dsn or self.dsn_file)

    def directory(self) -> Path:
        """Return the data directory: `jetstream` below the store directory, as in nats-server."""
        if self.store_dir:
            return Path(self.store_dir) / "jetstream"
        import tempfile  # rarely needed

        return Path(tempfile.gettempdir()) / "nats" / "jetstream"


@dataclass(slots=True)
class ClusterOptions:
    """The settings in the block `cluster` and its flags.

    Attributes:
        name: Name of the cluster; empty: a generated one, if there is a port.
        host: Address to accept routes on; empty: every address.
        port: Port to accept routes on; 0: no cluster; -1: any free port.
        routes: Servers to connect to.
        user, password: Credentials that routes must send; empty: none.
        timeout: Seconds in which a route must send them.
        advertise: `host:port` for other servers; empty: the listening address.
        no_advertise: True to hide the addresses of other servers from clients.
        connect_retries: Number of retries of a route that another server announced.
        pool_size: Number of connections of a route; without effect.
        accounts: Accounts with a connection of their own; without effect.
        compression: The mode; any except "off" and "accept" requests compression.
        thresholds: Round trip times in seconds at which the mode `s2_auto` compresses more.
    """

    name: str = ""
    host: str = ""
    port: int = 0
    routes: tuple[RouteUrl, ...] = ()
    user: str = ""
    password: str = ""
    timeout: Seconds = Seconds(2.0)
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0
    pool_size: int = 0
    accounts: tuple[str, ...] = ()
    compression: str = ""
    thresholds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class UnservedListener:
    """A listener of a protocol that is not served: every connection is closed.

    Attributes:
        kind: The protocol: `gateway`, `leafnodes` or `mqtt`.
        host, port: Address; port -1: any free port.
    """

    kind: str
    host: str
    port: int


@dataclass(slots=True)
class Options:
    """All settings of `jetgate-nats-server`, with the names of nats-server's configuration file.

    Times are in seconds, sizes in bytes. `warnings` are texts that the start logs, `refusals` are
    errors that prevent it.
    """

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
    """Allowed Host names of the monitoring port; `*`: any; (): see `monitoring_access`."""
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
    ping_interval: Seconds = Seconds(120.0)
    ping_max: int = 2
    write_deadline: Seconds = Seconds(10.0)
    lame_duck_duration: Seconds = Seconds(120.0)
    lame_duck_grace_period: Seconds = Seconds(10.0)
    no_auth_user: str = ""
    author_permissions: bool = False
    """True if a publisher needs permission for the subjects that its message's headers name."""
    system_account: str = ""
    store_dir: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    jetstream: JetStreamOptions = field(default_factory=JetStreamOptions)
    authorization: dict[str, Any] | None = None
    """The block as plain values; None: every client may connect."""
    websocket: dict[str, Any] | None = None
    mappings: tuple[Mapping, ...] | None = None
    """Subject mappings; None: the file has no such block, and a reload keeps the current
    mappings.
    """
    remotes: tuple[Remote, ...] = ()
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    unserved_listeners: list[UnservedListener] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)
    """Warnings, one line each; a check of the file (`-t`) treats them as errors."""
    config_file: str = ""
    digest: str = ""

    def limits(self) -> Limits:
        """Return the limits of client connections, such as `max_payload`."""
        names = {limit.name for limit in fields(Limits)} & {own.name for own in fields(self)}
        return Limits(**{name: getattr(self, name) for name in names})

    def complete(self) -> None:
        """Complete the settings that depend on others; call it after flags and file are read.

        If neither names a database, its connection string is read from environment variables.
        Raises OperatorError if the variable JETGATE_WAIT_FOR_DB is invalid.
        """
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
        """Read the database from environment variables if flags and file name none."""
        told = self.jetstream
        if not told.is_given:
            told.dsn = os.environ.get("JETGATE_DSN", "")
            told.dsn_file = os.environ.get("JETGATE_DSN_FILE", "")
        named = os.environ.get("JETGATE_DSN_PASSWORD_FILE", "")
        told.dsn_password_file = told.dsn_password_file or named
        told.wait_for_db = told.wait_for_db or _seconds_of("JETGATE_WAIT_FOR_DB")


def _seconds_of(variable: str) -> Seconds:
    """Return an environment variable as seconds; 0 if it is not set.

    Raises OperatorError if its value is not a finite number from 0.
    """
    text = os.environ.get(variable, "") or "0"
    try:
        seconds = Seconds(float(text))
    except ValueError:
        seconds = Seconds(-1.0)
    if not 0 <= seconds < math.inf:
        raise OperatorError(f"{variable}: {text!r}: expected a number of seconds")
    return seconds
