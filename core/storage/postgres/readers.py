"""Manages PostgreSQL roles that may read streams by SQL and have no other rights.

Such a reader has rights on the views and functions of schema `jetgate` alone. The table
`jetgate_store.reader_grant` lists the streams that it sees in them, by name: a stream that is
deleted and created again is visible again. The limits on its statements are settings of the role.

A migration must be able to end the session of a reader that blocks it. The role that owns the
tables therefore becomes a member of each reader created here.
"""

import base64
import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from core.errors import OperatorError

ALL_STREAMS = "*"
"""Value in place of a stream's name that means every stream of an account, including future
ones.
"""

_ITERATIONS = 4096
_SALT_BYTES = 16
# PostgreSQL 17 also has a limit for whole transactions.
_HAS_TRANSACTION_TIMEOUT = 17
# From PostgreSQL 16 on, a grant decides whether the member inherits the rights of the role.
_HAS_GRANT_OPTIONS = 16
_OWNER = """
    select quote_ident(r.rolname) from pg_class c join pg_roles r on r.oid = c.relowner
     where c.oid = 'jetgate_store.head'::regclass and not r.rolsuper
"""
_REVOKE = (
    "revoke all on all tables in schema jetgate from {role}",
    "revoke all on schema jetgate from {role}",
    "revoke connect on database {database} from {role}",
)


@dataclass(frozen=True, slots=True)
class Reader:
    """A PostgreSQL role that may read streams by SQL.

    `grants` has (account, stream) pairs; the stream `*` means all streams of the account.
    """

    role: str
    grants: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of the statements, transactions and sessions of a reader role.

    Attributes:
        statement: Time limit of one statement, in seconds; from PostgreSQL 17 on also of a
            transaction.
        idle: Time limit of an idle transaction, in seconds.
        connections: Largest number of concurrent sessions.
    """

    statement: int = 600
    idle: int = 60
    connections: int = 32


class PostgresReaders:
    """Creates, lists and drops the reader roles of a database.

    The session must be allowed to create roles.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def create(
        self,
        role: str,
        password: str,
        account: str,
        streams: Sequence[str],
        limits: ReadLimits,
        *,
        existing: bool = False,
    ) -> None:
        """Create a PostgreSQL role and grant it to read streams.

        Args:
            role: Its name.
            password: Its password; empty for a role that logs in without one.
            account: The account of the streams.
            streams: Names of streams, or `ALL_STREAMS`.
            limits: Limits of its statements and sessions.
            existing: True to grant to an existing role, whose settings are not changed.

        Raises:
            OperatorError: The role exists and `existing` is False, or this session lacks the
                rights.
        """
        connection = self._connection
        async with _explained(role), connection.transaction():
            there = await connection.fetchval("select to_regrole(quote_ident($1))", role)
            if there is not None and not existing:
                raise OperatorError(f"role {role} exists: choose another name, or use --existing")
            name = await self._quoted(role)
            if there is None:
                await connection.execute(
                    f"create role {name} login connection limit {limits.connections}"
                    f" {_login(password)}"
                )
                await self._let_owner_end_sessions(name)
                for setting, value in self._settings(limits).items():
                    await connection.execute(f"alter role {name} set {setting} = '{value}'")
            database = await self._quoted(await connection.fetchval("select current_database()"))
            await connection.execute(f"grant connect on database {database} to {name}")
            await connection.execute(f"grant usage on schema jetgate to {name}")
            await connection.execute(f"grant select on all tables in schema jetgate to {name}")
            await connection.executemany(
                "insert into jetgate_store.reader_grant values ($1, $2, $3) on conflict do nothing",
                [(role, account, stream) for stream in streams],
            )

    async def _let_owner_end_sessions(self, name: str) -> None:
        """Make the role that owns the tables a member of the reader role, unless it is a
        superuser.
        """
        if (owner := await self._connection.fetchval(_OWNER)) is None:
            return
        has_options = self._connection.get_server_version().major >= _HAS_GRANT_OPTIONS
        options = " with inherit true, set false" if has_options else ""
        await self._connection.execute(f"grant {name} to {owner}{options}")

    def _settings(self, limits: ReadLimits) -> Mapping[str, str]:
        settings = {
            "default_transaction_read_only": "on",
            "statement_timeout": f"{limits.statement}s",
            "idle_in_transaction_session_timeout": f"{limits.idle}s",
        }
        if self._connection.get_server_version().major >= _HAS_TRANSACTION_TIMEOUT:
            settings["transaction_timeout"] = f"{limits.statement}s"
        return settings

    async def readers(self) -> list[Reader]:
        """Return all reader roles with their grants, sorted by role."""
        rows = await self._connection.fetch(
            "select role, account, stream from jetgate_store.reader_grant order by 1, 2, 3"
        )
        grants: dict[str, list[tuple[str, str]]] = {}
        for role, account, stream in rows:
            grants.setdefault(role, []).append((account, stream))
        return [Reader(role, tuple(of)) for role, of in grants.items()]

    async def drop(self, role: str, *, keep_role: bool = False) -> bool:
        """Revoke a reader's rights and drop its role. Return False if the role is not a reader.

        With `keep_role` the role itself is kept.

        Raises:
            OperatorError: The role owns objects, or this session lacks the rights.
        """
        connection = self._connection
        async with _explained(role), connection.transaction():
            gone = await connection.fetch(
                "delete from jetgate_store.reader_grant where role = $1 returning 1", role
            )
            if not gone:
                return False
            if await connection.fetchval("select to_regrole(quote_ident($1))", role) is None:
                return True
            name = await self._quoted(role)
            database = await self._quoted(await connection.fetchval("select current_database()"))
            for statement in _REVOKE:
                await connection.execute(statement.format(role=name, database=database))
            if not keep_role:
                await connection.execute(f"drop role {name}")
        return True

    async def _quoted(self, name: str) -> str:
        return str(await self._connection.fetchval("select quote_ident($1)", name))


class _explained:
    """A context that translates refusals of PostgreSQL into OperatorError."""

    def __init__(self, role: str) -> None:
        self._role = role

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            raise OperatorError(
                f"the user of --dsn may not do that: {error}; it needs CREATEROLE, or let an"
                " administrator create the role and name it with --existing"
            ) from error
        if isinstance(error, asyncpg.PostgresError):
            raise OperatorError(f"role {self._role}: {error}") from error


def _login(password: str) -> str:
    return f"password '{scram_verifier(password)}'" if password else ""  # base64 has no quotes


def scram_verifier(password: str, salt: bytes | None = None) -> str:
    """Return the SCRAM verifier of a password (RFC 5803), as PostgreSQL stores it.

    Thereby no statement, which PostgreSQL may log, contains the password. `salt` is random by
    default; tests set it.
    """
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    prepared = unicodedata.normalize("NFKC", password).encode()
    salted = hashlib.pbkdf2_hmac("sha256", prepared, salt, _ITERATIONS)
    client = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    texts = (base64.b64encode(part).decode() for part in (salt, client, server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(_ITERATIONS, *texts)
