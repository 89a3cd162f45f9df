"""The list of remotes in PostgreSQL: the NATS servers that every node connects to.

`jetgate remote` writes the list, and each node reads it. A role that may read this table may read
every message too, so a password in an address needs no more protection. The contents of credentials
files are never stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.storage.postgres.connect import fetch
from core.storage.remotes import RemoteRow, RemoteState


@dataclass(frozen=True, slots=True)
class StoredRemote:
    """A remote NATS server, and the state of the connection to it that a node stored last.

    Attributes:
        row: The configuration.
        state: The stored state of the connection.
        at: Time at which the state was stored; None if never.
        age_s: Seconds since then; None if never.
    """

    row: RemoteRow
    state: RemoteState
    at: datetime | None
    age_s: float | None


class PostgresRemotes:
    """Reads and changes the list of remote NATS servers, over a pool or a session."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def load(self) -> list[RemoteRow]:
        """Return the remotes, sorted by name. Raises Unavailable if PostgreSQL does not answer."""
        rows = await self._fetch("select name, url, creds from jetgate_store.remote order by name")
        return [RemoteRow(*row) for row in rows]

    async def states(self) -> list[StoredRemote]:
        """Return the remotes with the stored states of their connections, sorted by name.

        Raises Unavailable if PostgreSQL does not answer.
        """
        rows = await self._fetch(
            "select name, url, creds, connected, server, rtt_ns, error, relays, told, "
            "extract(epoch from clock_timestamp() - told)::float8 "
            "from jetgate_store.remote order by name"
        )
        return [
            StoredRemote(RemoteRow(*row[:3]), RemoteState(row[0], *row[3:8]), *row[8:])
            for row in rows
        ]

    async def add(self, row: RemoteRow) -> bool:
        """Add a remote or replace the one of the same name. Return True if it is new.

        Raises Unavailable if PostgreSQL does not answer.
        """
        rows = await self._fetch(
            "insert into jetgate_store.remote (name, url, creds) values ($1, $2, $3) "
            "on conflict (name) do update set url = $2, creds = $3, connected = false, error = '', "
            "told = null returning xmax = 0",
            row.name,
            row.url,
            row.creds,
        )
        return bool(rows[0][0])

    async def remove(self, name: str) -> bool:
        """Remove a remote; return whether it existed.

        Raises Unavailable if PostgreSQL does not answer.
        """
        rows = await self._fetch(
            "delete from jetgate_store.remote where name = $1 returning 1", name
        )
        return bool(rows)

    async def record(self, states: Sequence[RemoteState]) -> None:
        """Store the states of connections to remotes, for `jetgate remote list`.

        Raises Unavailable if PostgreSQL does not answer.
        """
        await self._fetch(
            "update jetgate_store.remote r set connected = x.connected, server = x.server, "
            "rtt_ns = x.rtt_ns, error = x.error, relays = x.relays, told = now() "
            "from unnest($1::text[], $2::bool[], $3::text[], $4::bigint[], $5::text[], $6::int[]) "
            "as x(name, connected, server, rtt_ns, error, relays) where r.name = x.name",
            [state.name for state in states],
            [state.connected for state in states],
            [state.server for state in states],
            [state.rtt_ns for state in states],
            [state.error.replace("\0", "") for state in states],
            [state.relays for state in states],
        )

    async def _fetch(self, statement: str, *arguments: object) -> list[Any]:
        return await fetch(self._pool, statement, *arguments)
