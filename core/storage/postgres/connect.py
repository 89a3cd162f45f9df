"""Opening sessions with PostgreSQL, each with the settings that its purpose needs.

A session that the server opens never waits for a dead network longer than some seconds, finds no
table by search path, and never spends time on JIT. What a connection string may say is left to
asyncpg; texts made here never show its password.
"""

import asyncio
import enum
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from core.errors import OperatorError, Unavailable

CONNECT_TIMEOUT_S = 10.0

# The server drops a peer that is gone after about six seconds, and so do we.
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_COUNT = 3, 1, 3
_USER_TIMEOUT_MS = 6000
# What one commit may weigh, nearly always.
_COMMIT_BYTES = 4 << 20

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
    """What a session is for."""

    LANE = "lane"  # log and heads: the write path
    WRITE = "write"  # consumer state, removals, catalogue
    READ = "read"
    LOCK = "lock"  # holds the leases and nothing else
    ADMIN = "admin"  # migrations, checks


# What a statement may end with that PostgreSQL or the way to it is to blame for. A driver whose
# connection broke in the middle of one operation says of the next that it cannot begin.
LOST = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# Of several hosts, and on the one that is there: no standby, which would answer from the past. A
# connection string may ask for "read-write", which our own sessions for reading are not.
_PRIMARY = "primary"
# What a standby says to whoever wants to write.
READ_ONLY = asyncpg.ReadOnlySQLTransactionError
_AWAY = (
    OSError,
    asyncio.IncompleteReadError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

_SETTINGS: dict[Purpose, dict[str, str]] = {
    # Every statement of the write path names its rows by key. A new table has no statistics, and
    # without them the planner has been seen to read all of it.
    Purpose.LANE: {"enable_seqscan": "off", "idle_in_transaction_session_timeout": "30s"},
    Purpose.WRITE: {"enable_seqscan": "off", "idle_in_transaction_session_timeout": "30s"},
    # Under a generic plan a list of subjects is searched one by one.
    Purpose.READ: {
        "plan_cache_mode": "force_custom_plan",
        "enable_seqscan": "off",
        "default_transaction_read_only": "on",
        "statement_timeout": "60s",
        # A stream is read whole after a restart: by all cores, each grouping what it reads.
        "parallel_tuple_cost": "0.001",
        "work_mem": "64MB",
    },
    Purpose.LOCK: {"idle_session_timeout": "0", "statement_timeout": "10s"},
    Purpose.ADMIN: {},
}


class _Pooled(asyncpg.Connection):  # type: ignore[misc]  # the driver is not typed
    """A session that is given back as it was taken: nothing here listens, locks or sets anything.

    By default each use of a session would end with a round trip that undoes such things. A
    transaction that was left open is rolled back all the same.
    """

    def get_reset_query(self) -> str:
        """Return what undoes what a session may have done: nothing."""
        return ""


@dataclass(frozen=True, slots=True)
class Connector:
    """Opens sessions with one database.

    Attributes:
        dsn: a connection string as libpq and asyncpg read it.
    """

    dsn: str

    @property
    def address(self) -> str:
        """The database as an operator may read it: no user, no password."""
        return describe(self.dsn)

    async def open(
        self,
        purpose: Purpose,
        *,
        connection_class: type[asyncpg.Connection] = asyncpg.Connection,
        settings: Mapping[str, str] | None = None,
        timeout: float = CONNECT_TIMEOUT_S,  # noqa: ASYNC109 (asyncpg's own, and it cleans up)
    ) -> Any:
        """Open a session. What asyncpg raises is passed on; see `is_unavailable`."""
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
            _widen(connection)
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
        except LOST as error:
            raise Unavailable(f"PostgreSQL is not reachable: {error}") from error
        return pool

    async def open_plain(self, *, timeout: float = CONNECT_TIMEOUT_S) -> Any:  # noqa: ASYNC109
        """Open a session with the database's own settings, to look at them.

        Raises:
            OperatorError: nobody answers, or we are refused; the text says why.
        """
        try:
            return await asyncpg.connect(
                self.dsn,
                timeout=timeout,
                statement_cache_size=0,
                server_settings={"application_name": "jetgate check"},
            )
        except (OSError, TimeoutError, ValueError, asyncpg.PostgresError) as error:
            raise OperatorError(_why(self.address, error)) from error
        except asyncpg.InterfaceError as error:
            raise OperatorError(_why(self.address, error)) from error


async def fetch(pool: Any, statement: str, *arguments: object) -> list[Any]:
    """Run one statement on a session of a pool; return its rows.

    Raises:
        Unavailable: PostgreSQL is away, or refuses.
    """
    try:
        rows: list[Any] = await pool.fetch(statement, *arguments)
    except LOST as error:
        raise await lost(pool, error) from error
    return rows


async def lost(pool: Any, error: Exception) -> Unavailable:
    """Return what to raise for an error in a session of a pool.

    Sessions that cannot write, as after a fail-over, are never used again.
    """
    if isinstance(error, READ_ONLY):
        await pool.expire_connections()
    return Unavailable(f"PostgreSQL is not reachable: {error}")


def is_unavailable(error: BaseException) -> bool:
    """Whether an error means that PostgreSQL is away or going away, and may be back soon.

    A COMMIT that ends so has an unknown result.
    """
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        # 08: connection. 57P0x: shutdown, crash, cannot connect now, database dropped, idle.
        # 53300: too many connections. 25P03: idle in transaction.
        return state.startswith(("08", "57P0")) or state in ("53300", "25P03")
    return isinstance(error, _AWAY)


def describe(dsn: str) -> str:
    """The host, port and database of a connection string, without its secrets."""
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
    """A connection string that may be shown."""
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


def _widen(connection: Any) -> None:
    """Let a whole commit leave in one call: what does not fit waits for a turn of the loop.

    Only for sockets of the same machine, as much as the kernel allows; those of a network find
    their size by themselves.
    """
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None and sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _COMMIT_BYTES)


def _keep_alive(connection: Any) -> None:
    """Let our kernel notice a peer that vanished without a word, as theirs does."""
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
