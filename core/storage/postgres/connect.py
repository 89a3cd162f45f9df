"""Opens sessions with PostgreSQL, each with the settings for its purpose.

All of them notice a dead peer within seconds, have no schema of ours in their search path, do not
use JIT, and set what the role or the database may have set otherwise (`ALTER ROLE ... SET`).
"""

import enum
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import asyncpg

from core.errors import OperatorError, Unavailable, Unreachable
from core.storage.postgres.dsn import Host, KeepAlive, read
from core.storage.postgres.hosts import first_of

CONNECT_TIMEOUT_S = 10.0

_SEND_BUFFER_BYTES = 4 << 20  # nearly all commits are smaller

# A limit of a role would end what takes as long as it takes: loading a stream, waiting for a lock.
_WITHOUT_LIMITS = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
# Both sides drop a dead peer after about six seconds.
_OURS = KeepAlive()
_COMMON = {
    **_WITHOUT_LIMITS,
    "search_path": "pg_catalog",
    "jit": "off",
    "timezone": "UTC",
    # A stricter level would fail with serialization errors that nobody tries again.
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": str(_OURS.idle),
    "tcp_keepalives_interval": str(_OURS.interval),
    "tcp_keepalives_count": str(_OURS.count),
    "tcp_user_timeout": str(_OURS.user_timeout_ms),
}
# PostgreSQL 17 has a limit that older ones would refuse a session for.
_HAS_TRANSACTION_TIMEOUT = 17
_WITHOUT_TRANSACTION_LIMIT = "set transaction_timeout = 0"
# `remote_apply` stays. Preflight refuses anything else; a role may be changed afterwards.
_DURABLE = """
    select set_config('synchronous_commit', 'on', false)
     where current_setting('synchronous_commit') not in ('on', 'remote_apply')
"""


class Purpose(enum.Enum):
    """The purposes of sessions."""

    LANE = "lane"  # log and heads: the write path
    WRITE = "write"  # consumer state, removals, directory
    READ = "read"
    GET = "get"  # single messages, while another node leads or none does
    STANDBY = "standby"  # the same, from a standby
    LOCK = "lock"  # holds the leases and nothing else
    ADMIN = "admin"  # migrations, checks


# The exceptions of a statement that PostgreSQL or the network caused. InterfaceError and
# InternalClientError are raised by the operations after the one in which a connection broke.
DATABASE_ERRORS = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
# Never a standby, whose data may be old. "read-write", which a connection string may ask for, would
# refuse our own read-only sessions.
_PRIMARY = "primary"
# The error of a write on a standby.
READ_ONLY = asyncpg.ReadOnlySQLTransactionError
# What PostgreSQL says while it starts, stops or has no session left, and what the driver says when
# the connection is gone: that may pass.
_PASSES = (
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.ConnectionFailureError,
)
POOLER = "a connection pooler is in between (PgBouncer or alike), expected a direct connection"
# What asyncpg says of a host that is a standby.
_NOT_PRIMARY = asyncpg.TargetServerAttributeNotMatched

# A message is found by its key, or somebody has stopped waiting for it.
_GET = {
    "enable_seqscan": "off",
    "default_transaction_read_only": "on",
    "statement_timeout": "2s",
}
_SETTINGS: dict[Purpose, dict[str, str]] = {
    # Every statement of the write path names its rows by key. A new table has no statistics, and
    # without them the planner has been seen to read all of it.
    Purpose.LANE: {"enable_seqscan": "off", "idle_in_transaction_session_timeout": "30s"},
    Purpose.WRITE: {"enable_seqscan": "off", "idle_in_transaction_session_timeout": "30s"},
    # A generic plan would search the index once for each of a list of subjects.
    Purpose.READ: {
        "plan_cache_mode": "force_custom_plan",
        "enable_seqscan": "off",
        "default_transaction_read_only": "on",
        "statement_timeout": "60s",
        # All of a stream is read after a restart: let parallel workers aggregate it.
        "parallel_tuple_cost": "0.001",
        "work_mem": "64MB",
    },
    Purpose.GET: _GET,
    Purpose.STANDBY: _GET,
    Purpose.LOCK: {"statement_timeout": "10s"},
    Purpose.ADMIN: {},
}


class _Pooled(asyncpg.Connection):  # type: ignore[misc]  # the driver is not typed
    """A session of a pool that is not reset on release.

    The reset (LISTEN, advisory locks, settings) would cost a round trip per use, and nothing here
    uses these. A transaction that was left open is rolled back all the same.
    """

    def get_reset_query(self) -> str:
        """Return the statements that reset the session: none."""
        return ""


class Connector:
    """Opens sessions with one database.

    Args:
        dsn: a connection string as libpq reads it.
        place: where it stands, for errors.
        environment: whose variables (PGHOST and the like) count.
        password_file: a file that is all password; empty: where libpq looks.
        on_open: called once each session is open.

    Attributes:
        dsn: the text of the connection string.
        parts: what it says.

    Raises:
        ConfigError: it cannot be used.
    """

    def __init__(
        self,
        dsn: str,
        *,
        place: str = "--dsn",
        environment: Mapping[str, str] = os.environ,
        password_file: str = "",
        on_open: Callable[[], None] | None = None,
    ) -> None:
        self.dsn = dsn
        self.parts = read(dsn, place, environment=environment, password_file=password_file)
        self._on_open = on_open
        self._answered: Host | None = None  # it is tried first

    @property
    def address(self) -> str:
        """The database for messages to operators: without user and password."""
        return self.parts.address

    @property
    def answered(self) -> Host | None:
        """The host of the last session that was opened."""
        return self._answered

    async def open(
        self,
        purpose: Purpose,
        *,
        connection_class: type[asyncpg.Connection] = asyncpg.Connection,
        settings: Mapping[str, str] | None = None,
        timeout: float = CONNECT_TIMEOUT_S,  # noqa: ASYNC109 (asyncpg's own, and it cleans up)
    ) -> Any:
        """Open a session.

        Raises what asyncpg raises (DATABASE_ERRORS).
        """
        wanted = None if purpose in (Purpose.ADMIN, Purpose.STANDBY) else _PRIMARY
        server_settings = {
            **self.parts.settings,
            "application_name": f"{self.parts.application_name} {purpose.value}",
            **_COMMON,
            **_SETTINGS[purpose],
            **(settings or {}),
        }
        try:
            connection = await self._open(
                timeout,
                connection_class=connection_class,
                target_session_attrs=self._attributes(wanted),
                server_settings=server_settings,
            )
        except OperatorError as error:  # a file that may be there again soon
            raise ConnectionError(str(error)) from error
        try:
            await _set_late(connection, purpose)
        except BaseException:
            connection.terminate()
            raise
        if purpose is Purpose.LANE:
            _enlarge_send_buffer(connection)
        if self._on_open is not None:
            self._on_open()
        return connection

    async def pool(self, purpose: Purpose, size: int) -> Any:
        """Open a pool of up to `size` sessions, each opened when it is first needed.

        Raises:
            Unavailable: PostgreSQL is not reachable.
        """

        async def connect(*_arguments: object, **_options: object) -> Any:
            return await self.open(purpose, connection_class=_Pooled)

        pool = asyncpg.create_pool(connect=connect, min_size=0, max_size=size)
        try:
            await pool
            await pool.fetchval("select 1")
        except DATABASE_ERRORS as error:
            raise Unavailable(trouble(error)) from error
        return pool

    async def open_plain(self, *, timeout: float = CONNECT_TIMEOUT_S) -> Any:  # noqa: ASYNC109
        """Open a session with the database's own settings but its limits, to look at them.

        Raises:
            Unreachable: PostgreSQL does not answer, or not yet.
            OperatorError: the connection fails; the text says why.
        """
        try:
            connection = await self._open(
                timeout,
                statement_cache_size=0,
                target_session_attrs=self._attributes(None),
                server_settings={
                    **self.parts.settings,
                    **_WITHOUT_LIMITS,
                    "application_name": f"{self.parts.application_name} check",
                },
            )
            await _set_late(connection, None)
        except asyncpg.ProtocolViolationError as error:
            # Sessions begin with settings, which PgBouncer does not pass on.
            text = f"PostgreSQL at {self.address} cannot be used: {POOLER} ({reason_of(error)})"
            raise OperatorError(text) from error
        except (ValueError, OperatorError, *DATABASE_ERRORS) as error:
            text = f"cannot use PostgreSQL at {self.address}: {self._why(error)}"
            is_wrong = is_final(error) or isinstance(error, (ValueError, ssl.SSLError))
            raise (OperatorError if is_wrong else Unreachable)(text) from error
        return connection

    async def open_host(self, host: Host) -> Any:
        """Open a session with one host, whatever it is, to look at it.

        Raises what asyncpg raises (DATABASE_ERRORS), and OperatorError for a file of no use.
        """
        settings = {**_WITHOUT_LIMITS, "application_name": f"{self.parts.application_name} check"}
        return await self._dial(host, CONNECT_TIMEOUT_S, {"server_settings": settings})

    def _attributes(self, wanted: str | None) -> str:
        """Whether any session will do; of several hosts the primary is meant."""
        return _PRIMARY if self.parts.wants_primary else wanted or "any"

    async def _open(self, timeout: float, **options: Any) -> Any:  # noqa: ASYNC109
        """Open a session with the host that answers, the one that answered last before others."""
        hosts = sorted(self.parts.shuffled(), key=lambda host: host != self._answered)

        async def dial(host: Host) -> Any:
            return await self._dial(host, timeout, options)

        host, connection = await first_of(hosts, dial, is_final, reason_of)
        self._answered = host
        return connection

    async def _dial(self, host: Host, timeout: float, options: Mapping[str, Any]) -> Any:  # noqa: ASYNC109
        parts, tls = self.parts, self.parts.tls
        target = host.target
        encryption: dict[str, Any] = {"ssl": False, "direct_tls": False}
        if not target.startswith("/") and tls.mode != "disable":
            # What may go on without TLS asyncpg has to know by its name.
            optional = tls.mode in ("allow", "prefer")
            encryption = {
                "ssl": tls.mode if optional else tls.context(),
                "direct_tls": tls.is_direct,
            }
            encryption |= {"dsn": tls.optional_dsn()} if optional else {}
        connection = await asyncpg.connect(
            host=target,
            port=host.port,
            user=parts.user,
            database=parts.database,
            # Empty, so that asyncpg does not look for another one.
            password=parts.password(host),
            timeout=min(timeout, parts.connect_timeout or timeout),
            krbsrvname=parts.krbsrvname or None,
            gsslib=parts.gsslib or None,
            **encryption,
            **options,
        )
        _keep_alive(connection, parts.keep_alive)
        return connection

    def _why(self, error: BaseException) -> str:
        reason = reason_of(error)
        parts = self.parts
        if isinstance(error, asyncpg.InvalidPasswordError) and not parts.password(parts.hosts[0]):
            return f"{reason} (no password was given: docs/operations/dsn.md has the ways)"
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return f"{reason}: grant connect on database {parts.database} to {parts.user}"
        return reason


async def fetch(pool: Any, statement: str, *arguments: object) -> list[Any]:
    """Run one statement on a session of a pool; return its rows.

    Raises:
        Unavailable: PostgreSQL is not reachable, or refuses the statement.
    """
    try:
        rows: list[Any] = await pool.fetch(statement, *arguments)
    except DATABASE_ERRORS as error:
        raise await unavailable(pool, error) from error
    return rows


async def unavailable(pool: Any, error: Exception) -> Unavailable:
    """Return the exception to raise for an error in a session of a pool.

    After a fail-over, when sessions can no longer write, all of the pool are replaced.
    """
    if isinstance(error, READ_ONLY):
        await pool.expire_connections()
    return Unavailable(trouble(error))


def trouble(error: BaseException) -> str:
    """Return what is wrong with PostgreSQL, by what a session or a connection raised."""
    refuses = isinstance(error, asyncpg.PostgresError) and not isinstance(
        error, (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
    )
    if refuses or isinstance(error, asyncpg.QueryCanceledError):
        return f"PostgreSQL refuses a statement: {reason_of(error)}"
    return f"PostgreSQL is not reachable: {reason_of(error)}"


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one line."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, _NOT_PRIMARY):
        return "it is a standby, expected the primary"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__


async def _set_late(connection: Any, purpose: Purpose | None) -> None:
    """Set what depends on the version, or on what is set; None: the database's own settings."""
    if connection.get_server_version().major >= _HAS_TRANSACTION_TIMEOUT:
        await connection.execute(_WITHOUT_TRANSACTION_LIMIT)
    if purpose in (Purpose.LANE, Purpose.WRITE):
        await connection.execute(_DURABLE)


def is_final(error: BaseException) -> bool:
    """Whether PostgreSQL has spoken for all its hosts, as libpq sees it: a wrong password."""
    refused = isinstance(error, asyncpg.PostgresError) and not isinstance(error, _PASSES)
    return refused or isinstance(error, OperatorError)


def _enlarge_send_buffer(connection: Any) -> None:
    """Let a whole commit be sent in one call; what does not fit waits for a turn of the loop.

    Only for Unix sockets, as far as the kernel allows; the buffers of TCP sockets are tuned by the
    kernel.
    """
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None and sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


def _keep_alive(connection: Any, keep: KeepAlive) -> None:
    """Set TCP keep-alive on our side, as the session settings do on the server's."""
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family == socket.AF_UNIX or not keep.is_on:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", keep.idle),
        ("TCP_KEEPINTVL", keep.interval),
        ("TCP_KEEPCNT", keep.count),
        ("TCP_USER_TIMEOUT", keep.user_timeout_ms),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
