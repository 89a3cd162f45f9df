"""Opens sessions with PostgreSQL, each with the settings for its purpose.

All of them notice a dead peer within seconds, have no schema of ours in their search path, and do
not use JIT. Connection strings are parsed by asyncpg; texts made here never show their password.
"""

import enum
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from core.errors import OperatorError, Unavailable

CONNECT_TIMEOUT_S = 10.0

# Both sides drop a dead peer after about six seconds.
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_COUNT = 3, 1, 3
_USER_TIMEOUT_MS = 6000
_SEND_BUFFER_BYTES = 4 << 20  # nearly all commits are smaller

_COMMON = {
    "search_path": "pg_catalog",
    "jit": "off",
    "timezone": "UTC",
    "tcp_keepalives_idle": str(_KEEPALIVE_IDLE_S),
    "tcp_keepalives_interval": str(_KEEPALIVE_INTERVAL_S),
    "tcp_keepalives_count": str(_KEEPALIVE_COUNT),
    "tcp_user_timeout": str(_USER_TIMEOUT_MS),
}


class Purpose(enum.Enum):
    """The purposes of sessions."""

    LANE = "lane"  # log and heads: the write path
    WRITE = "write"  # consumer state, removals, catalogue
    READ = "read"
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
    Purpose.LOCK: {"idle_session_timeout": "0", "statement_timeout": "10s"},
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


@dataclass(frozen=True, slots=True)
class Connector:
    """Opens sessions with one database.

    Attributes:
        dsn: a connection string as libpq and asyncpg read it.
        bind: called with the process id of each session's server process once the session is open;
            what it returns is called when the session has ended.
    """

    dsn: str
    bind: Callable[[int], Callable[[], None]] | None = None

    @property
    def address(self) -> str:
        """The database for messages to operators: without user and password."""
        return describe(self.dsn)

    async def open(
        self,
        purpose: Purpose,
        *,
        connection_class: type[asyncpg.Connection] = asyncpg.Connection,
        settings: Mapping[str, str] | None = None,
        timeout: float = CONNECT_TIMEOUT_S,  # noqa: ASYNC109 (asyncpg's own, and it cleans up)
    ) -> Any:
        """Open a session. Raises what asyncpg raises (DATABASE_ERRORS)."""
        connection = await asyncpg.connect(
            self.dsn,
            timeout=timeout,
            connection_class=connection_class,
            target_session_attrs=None if purpose is Purpose.ADMIN else _PRIMARY,
            server_settings={
                "application_name": f"jetgate {purpose.value}",
                **_COMMON,
                **_SETTINGS[purpose],
                **(settings or {}),
            },
        )
        _keep_alive(connection)
        if purpose is Purpose.LANE:
            _enlarge_send_buffer(connection)
        if self.bind is not None:
            unbind = self.bind(connection.get_server_pid())
            connection.add_termination_listener(lambda _: unbind())
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
            raise Unavailable(f"PostgreSQL is not reachable: {error}") from error
        return pool

    async def open_plain(self, *, timeout: float = CONNECT_TIMEOUT_S) -> Any:  # noqa: ASYNC109
        """Open a session with the database's own settings, to look at them.

        Raises:
            OperatorError: the connection fails; the text says why.
        """
        try:
            return await asyncpg.connect(
                self.dsn,
                timeout=timeout,
                statement_cache_size=0,
                server_settings={"application_name": "jetgate check"},
            )
        except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise OperatorError(_why(self.address, error)) from error


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
    return Unavailable(f"PostgreSQL is not reachable: {error}")


def describe(dsn: str) -> str:
    """Return host, port and database of a connection string, without user and password."""
    try:
        parts = urlsplit(dsn)
        if parts.scheme not in ("postgresql", "postgres"):
            return "the given address"
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the given address"
    if not host:
        from_query = [p[5:] for p in parts.query.split("&") if p.startswith("host=")]
        host = from_query[0] if from_query else "the default socket"
    return f"{host}{port}{parts.path}"


def without_password(dsn: str) -> str:
    """Return a connection string without its password."""
    before, at, after = dsn.rpartition("@")
    scheme, slashes, login = before.partition("://")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{after}" if at else dsn


def _why(address: str, error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        reason = f"no answer within {CONNECT_TIMEOUT_S:g} s"
    elif isinstance(error, ConnectionRefusedError):
        reason = "connection refused"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror.lower()
    else:
        reason = " ".join(str(error).split()) or type(error).__name__
    return f"cannot use PostgreSQL at {address}: {reason}"


def _enlarge_send_buffer(connection: Any) -> None:
    """Let a whole commit be sent in one call; what does not fit waits for a turn of the loop.

    Only for Unix sockets, as far as the kernel allows; the buffers of TCP sockets are tuned by the
    kernel.
    """
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None and sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


def _keep_alive(connection: Any) -> None:
    """Set TCP keep-alive on our side, as the session settings do on the server's."""
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_COUNT),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
