"""The list of remotes in PostgreSQL: what the command writes and a leading node reads.

Whoever may read this table may read every message, too; a password in an address is no more
secret than that. What is in a credentials file never gets here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.storage.postgres.connect import fetch
from core.storage.remotes import RemoteRow, RemoteState


@dataclass(frozen=True, slots=True)
class Told:
    """A remote, what the leading node said of it last, and when (None: never)."""

    row: RemoteRow
    state: RemoteState
    at: datetime | None


class PostgresRemotes:
    """The list, over a pool or a session."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def load(self) -> list[RemoteRow]:
        """Return the list, by name. Raises Unavailable."""
        rows = await self._fetch("select name, url, creds from jetgate_store.remote order by name")
        return [RemoteRow(*row) for row in rows]

    async def told(self) -> list[Told]:
        """Return the list with what is known of each. Raises Unavailable."""
        rows = await self._fetch(
            "select name, url, creds, connected, server, rtt_ns, error, relays, told "
            "from jetgate_store.remote order by name"
        )
        return [Told(RemoteRow(*row[:3]), RemoteState(row[0], *row[3:8]), row[8]) for row in rows]

    async def add(self, row: RemoteRow) -> bool:
        """Add a remote or change the one of its name; whether it is new. Raises Unavailable."""
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
        """Remove a remote; whether there was one. Raises Unavailable."""
        rows = await self._fetch(
            "delete from jetgate_store.remote where name = $1 returning 1", name
        )
        return bool(rows)

    async def tell(self, states: Sequence[RemoteState]) -> None:
        """Note how connections are. Raises Unavailable."""
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
