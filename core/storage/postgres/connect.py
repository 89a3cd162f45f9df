"""Opens sessions with PostgreSQL, each with the settings for its purpose.

Every session detects a dead peer within about six seconds (TCP keep-alive), has only pg_catalog in
its search path, and does not use JIT. These settings override those of the role or the database
(`ALTER ROLE ... SET`). The pauses between attempts are in `core.retry`.
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

# Limits set for a role would end long work: loading a stream, waiting for a lock.
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
    """The use of a session with PostgreSQL, such as to read messages.

    It decides the session's settings and the suffix of its application name.
    """

    COMMIT = "commit"  # log and heads: the group committer
    WRITE = "write"  # consumer state, removals, directory
    READ = "read"
    GET = "get"  # single messages, while this node does not lead their streams
    STANDBY = "standby"  # the same, from a standby
    LOCK = "lock"  # holds the leases and nothing else
    ADMIN = "admin"  # migrations, checks


# Exceptions of a statement caused by PostgreSQL or the network. InterfaceError and
# InternalClientError are raised by operations that follow the one in which the connection broke.
DATABASE_ERRORS = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
# A standby may have old data. The attribute "read-write", which a connection string may name, would
# refuse our own read-only sessions.
_PRIMARY = "primary"
# The error of a write on a standby.
READ_ONLY = asyncpg.ReadOnlySQLTransactionError
# Transient errors: PostgreSQL starts, stops or has no free session, or the connection is lost.
_PASSES = (
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.ConnectionFailureError,
)
POOLER = "a connection pooler is in between (PgBouncer or alike), expected a direct connection"
# asyncpg raises this for a host that is a standby.
_NOT_PRIMARY = asyncpg.TargetServerAttributeNotMatched

# Messages are read by key. After two seconds the requester has stopped waiting.
_GET = {
    "enable_seqscan": "off",
    "default_transaction_read_only": "on",
    "statement_timeout": "2s",
}
_SETTINGS: dict[Purpose, dict[str, str]] = {
    # Every statement of the write path selects its rows by key. A new table has no statistics;
    # without this setting the planner has chosen sequential scans.
    Purpose.COMMIT: {"enable_seqscan": "off", "idle_in_transaction_session_timeout": "30s"},
    Purpose.WRITE: {"enable_seqscan": "off", "idle_in_transaction_session_timeout": "30s"},
    # A generic plan would scan the index once per element of a list of subjects.
    Purpose.READ: {
        "plan_cache_mode": "force_custom_plan",
        "enable_seqscan": "off",
        "default_transaction_read_only": "on",
        "statement_timeout": "60s",
        # A restart reads all of a stream: let parallel workers aggregate it.
        "parallel_tuple_cost": "0.001",
        "work_mem": "64MB",
    },
    Purpose.GET: _GET,
    Purpose.STANDBY: _GET,
    Purpose.LOCK: {"statement_timeout": "10s"},
    Purpose.ADMIN: {},
}


class _Pooled(asyncpg.Connection):  # type: ignore[misc]  # the driver is not typed
    """A pooled session that is not reset on release.

    The reset (LISTEN, advisory locks, settings) would cost a round trip per use, and no code here
    needs it. The pool still rolls back an open transaction.
    """

    def get_reset_query(self) -> str:
        """Return the statements that reset the session: none."""
        return ""


class Connector:
    """Opens sessions and pools of sessions with one database.

    Args:
        dsn: A connection string as libpq reads it.
        place: The option or setting that contains it, for errors.
        environment: Environment variables (PGHOST and the like).
        password_file: File that contains only the password; empty: libpq's rules.
        on_open: Called after each session is opened.

    Attributes:
        dsn: The connection string.
        parts: Its parsed parts.

    Raises:
        ConfigError: The connection string cannot be used.
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
        self._answered: Host | None = None  # tried first

    @property
    def address(self) -> str:
        """Address of the database for messages to operators, without user and password."""
        return self.parts.address

    @property
    def answered(self) -> Host | None:
        """Host of the session that was opened last; None before the first session."""
        return self._answered

    async def open(
        self,
        purpose: Purpose,
        *,
        connection_class: type[asyncpg.Connection] = asyncpg.Connection,
        settings: Mapping[str, str] | None = None,
        timeout: float = CONNECT_TIMEOUT_S,  # noqa: ASYNC109 (asyncpg's own, and it cleans up)
    ) -> Any:
        """Open a session with the settings of `purpose`.

        Wait at most `timeout` seconds for each host. Raises the exceptions of `DATABASE_ERRORS` if
        no host can be used.
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
        except OperatorError as error:  # a file that may exist again soon
            raise ConnectionError(str(error)) from error
        try:
            await _set_late(connection, purpose)
        except BaseException:
            connection.terminate()
            raise
        if purpose is Purpose.COMMIT:
            _enlarge_send_buffer(connection)
        if self._on_open is not None:
            self._on_open()
        return connection

    async def pool(self, purpose: Purpose, size: int) -> Any:
        """Open a pool of up to `size` sessions, each opened when it is first needed.

        Raises:
            Unavailable: PostgreSQL does not answer or refuses the session.
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
        """Open a session with the settings of the database itself, to inspect them.

        Only the time limits that are set for the role are removed.

        Raises:
            Unreachable: PostgreSQL does not answer, or is starting.
            OperatorError: The connection fails permanently; the text has the reason.
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
        """Open a session with one host, primary or standby, to inspect it.

        Raises the exceptions of `DATABASE_ERRORS` if the host does not answer, and OperatorError if
        a file of the connection string (password, certificate) cannot be used.
        """
        settings = {**_WITHOUT_LIMITS, "application_name": f"{self.parts.application_name} check"}
        return await self._dial(host, CONNECT_TIMEOUT_S, {"server_settings": settings})

    def _attributes(self, wanted: str | None) -> str:
        """Return the `target_session_attrs` of a session: `wanted`, or "any" for None.

        With several hosts, or if the connection string asks for a primary, it is "primary".
        """
        return _PRIMARY if self.parts.wants_primary else wanted or "any"

    async def _open(self, timeout: float, **options: Any) -> Any:  # noqa: ASYNC109
        """Open a session with the first host that answers; try the last used host first."""
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
            # Modes that may fall back to plain text must be passed to asyncpg by name.
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
            # An empty password keeps asyncpg from searching for another one.
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
        Unavailable: PostgreSQL does not answer, or refuses the statement.
    """
    try:
        rows: list[Any] = await pool.fetch(statement, *arguments)
    except DATABASE_ERRORS as error:
        raise await unavailable(pool, error) from error
    return rows


async def unavailable(pool: Any, error: Exception) -> Unavailable:
    """Return the `Unavailable` exception to raise for an error of a pool's session.

    A read-only error means that PostgreSQL failed over: all sessions of the pool are then replaced.
    """
    if isinstance(error, READ_ONLY):
        await pool.expire_connections()
    return Unavailable(trouble(error))


def trouble(error: BaseException) -> str:
    """Return a text that describes an exception of a session with PostgreSQL.

    The text has the cause, and whether PostgreSQL is unreachable or has refused a statement.
    """
    refuses = isinstance(error, asyncpg.PostgresError) and not isinstance(
        error, (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
    )
    if refuses or isinstance(error, asyncpg.QueryCanceledError):
        return f"PostgreSQL refuses a statement: {reason_of(error)}"
    return f"PostgreSQL is not reachable: {reason_of(error)}"


def reason_of(error: BaseException) -> str:
    """Return the cause of a failed connection or statement in one line, for logs and errors."""
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
    """Apply settings that depend on the server version or on other settings.

    With purpose None only the transaction limit is removed.
    """
    if connection.get_server_version().major >= _HAS_TRANSACTION_TIMEOUT:
        await connection.execute(_WITHOUT_TRANSACTION_LIMIT)
    if purpose in (Purpose.COMMIT, Purpose.WRITE):
        await connection.execute(_DURABLE)


def is_final(error: BaseException) -> bool:
    """Return whether an error of one host ends the search, so that no further host is tried.

    True for a refusal such as a wrong password; False if the host does not answer, starts, or has
    no free session. The rule is libpq's.
    """
    refused = isinstance(error, asyncpg.PostgresError) and not isinstance(error, _PASSES)
    return refused or isinstance(error, OperatorError)


def _enlarge_send_buffer(connection: Any) -> None:
    """Enlarge the send buffer of a Unix socket, so that one call can send a whole commit.

    The kernel limits the size. TCP sockets are left alone: the kernel tunes their buffers.
    """
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None and sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


def _keep_alive(connection: Any, keep: KeepAlive) -> None:
    """Set TCP keep-alive on the client's side; session settings do so on the server's."""
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
