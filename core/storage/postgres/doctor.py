"""The checks of `jetgate doctor`: does a database prevent jetgate from running, or slow it down?

The database is not changed. Each check yields a finding, so a failing check hides no other.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

import migrations
from core.errors import OperatorError
from core.runtime.clock import SystemClock
from core.storage.database_time import TOLERATED, DatabaseTime
from core.storage.leases import ForeignLocks
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, reason_of
from core.storage.postgres.dsn import Host
from core.storage.postgres.foreign_locks import foreign_locks
from core.storage.postgres.leases import TIME
from core.storage.postgres.migrate import revision
from core.storage.postgres.preflight import preflight
from core.storage.postgres.replication import REPLICATION, Replication
from core.units import NANOS_PER_SECOND

_SESSIONS = 12
"""Sessions of one node: readers, writers, the group committer, the lock, and short-lived ones."""
_CURRENT = f"revision {migrations.HEAD}, that of this release"
_ROUND_TRIPS = 15
_SLOW_MS = 5.0
_LOCKS = 2 * 256
_LOOPBACK = ("127.", "::1", "localhost")
_TODO: dict[type[BaseException], str] = {
    asyncpg.InvalidCatalogNameError: "create it, or name another database",
    asyncpg.InvalidAuthorizationSpecificationError: "role, password, pg_hba.conf",
}

_SETTINGS = f"""
    select current_setting('server_version') as version,
           current_setting('autovacuum') as autovacuum,
           current_setting('max_connections')::int
             - current_setting('superuser_reserved_connections')::int as sessions,
           (select count(*) from pg_stat_activity where backend_type = 'client backend') as used,
           (select rolconnlimit from pg_roles where rolname = current_user) as role_limit,
           (select rolsuper from pg_roles where rolname = current_user) as is_superuser,
           (select datconnlimit from pg_database where datname = current_database())
             as database_limit,
           current_setting('max_locks_per_transaction')::int
             * (current_setting('max_connections')::int
                + current_setting('max_prepared_transactions')::int) as locks,
           {REPLICATION},
           coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_secret
"""


# The locks of all databases share one table in memory, which any session may fill.
_MOST_LOCKS = """
    select coalesce(a.usename, '')::text as role, coalesce(k.pid, 0) as pid, count(*) as count
      from pg_locks k left join pg_stat_activity a on a.pid = k.pid
     where not k.fastpath group by 1, 2 order by 3 desc limit 1
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of `jetgate doctor`.

    Attributes:
        `what`: Name of the check.
        state: `ok`, `warn` (it has a cost or a risk) or `fail` (jetgate will not run).
        found: Observation of the check.
        todo: Advice; empty if there is none.
    """

    what: str
    state: str
    found: str
    todo: str = ""


async def examine(connector: Connector) -> AsyncIterator[Finding]:
    """Run all checks on a database; yield each finding when its check ends."""
    for host in connector.parts.hosts:
        found = await _host(connector, host)
        yield found
        if found.state == "fail":
            return
    try:
        await preflight(connector)
    except OperatorError as error:
        yield Finding("preflight", "fail", str(error), "what it names, or another database")
    else:
        yield Finding("preflight", "ok", "durable, a primary, with the required rights")
    try:
        session = await connector.open(Purpose.ADMIN)
    except DATABASE_ERRORS:
        return  # preflight has reported it
    try:
        schema = await _schema(session)
        yield schema
        if schema.found == _CURRENT:
            for finding in await _foreign_locks(session):
                yield finding
        properties = await session.fetchrow(_SETTINGS)
        for finding in _judged(connector, properties):
            yield finding
        yield await _lock_table(session, properties["locks"])
        yield await _pace(session)
        yield await _clock(session)
    finally:
        await session.close()


async def _host(connector: Connector, host: Host) -> Finding:
    """Check that a host answers.

    With several hosts a dead one is a warning: only one of them has to be the primary.
    """
    what = f"host {host}"
    try:
        session = await connector.open_host(host)
    except (OperatorError, ValueError, *DATABASE_ERRORS) as error:
        state = "fail" if len(connector.parts.hosts) == 1 else "warn"
        told = [todo for kind, todo in _TODO.items() if isinstance(error, kind)]
        return Finding(what, state, reason_of(error), *(told or ["address, port, firewall"]))
    try:
        role = "standby" if await session.fetchval("select pg_is_in_recovery()") else "primary"
        return Finding(what, "ok", f"answers, as {role}")
    finally:
        await session.close()


async def _schema(session: Any) -> Finding:
    try:
        found = await revision(session)
    except asyncpg.PostgresError as error:
        return Finding("schema", "fail", reason_of(error), "grant usage on schema jetgate_store")
    if found is None:
        return Finding("schema", "ok", "not there yet; the first start creates it")
    if found == migrations.HEAD:
        return Finding("schema", "ok", _CURRENT)
    if found > migrations.HEAD:
        todo = f"run a newer jetgate; this one knows {migrations.HEAD}"
        return Finding("schema", "fail", f"revision {found}", todo)
    return Finding("schema", "ok", f"revision {found}; the start brings it to {migrations.HEAD}")


def _judged(connector: Connector, properties: Mapping[str, Any]) -> list[Finding]:
    return [
        _sessions(properties),
        *_safety(properties),
        _privacy(connector, properties),
        *_upkeep(properties),
    ]


def _sessions(properties: Mapping[str, Any]) -> Finding:
    limits = [properties["sessions"], *(properties[n] for n in ("role_limit", "database_limit"))]
    limit = min(each for each in limits if each >= 0)
    found = f"{limit} allowed, {properties['used']} in use; a node takes about {_SESSIONS}"
    if limit < _SESSIONS:
        todo = "raise max_connections, or the connection limit of the role or the database"
        return Finding("sessions", "fail", found, todo)
    if min(limit, properties["sessions"] - properties["used"]) < 2 * _SESSIONS:
        return Finding("sessions", "warn", found, "two nodes will hardly find enough of them")
    return Finding("sessions", "ok", found)


def _safety(properties: Mapping[str, Any]) -> list[Finding]:
    replication = Replication.of(properties)
    state = "warn" if replication.cost else "ok"
    return [Finding("replication", state, replication.found, replication.cost)]


def _privacy(connector: Connector, properties: Mapping[str, Any]) -> Finding:
    names = [host.target for host in connector.parts.hosts]
    if properties["is_secret"]:
        checks = connector.parts.tls.mode == "verify-full"
        todo = "" if checks else "sslmode=verify-full checks the identity of the server"
        return Finding("TLS", "ok" if checks else "warn", connector.parts.tls.mode, todo)
    if all(name.startswith(("/", *_LOOPBACK)) for name in names):
        return Finding("TLS", "ok", "not used within this machine")
    return Finding(
        "TLS", "warn", "messages and passwords travel in the open", "sslmode=verify-full"
    )


def _upkeep(properties: Mapping[str, Any]) -> list[Finding]:
    findings = []
    if properties["autovacuum"] != "on":
        todo = "turn it on: deleted rows stay on the disk, and queries slow down"
        findings.append(Finding("autovacuum", "warn", "off", todo))
    if properties["is_superuser"]:
        todo = "a role of its own is enough: deploy/roles.sql"
        findings.append(Finding("role", "warn", "a superuser", todo))
    return findings


async def _foreign_locks(session: Any) -> list[Finding]:
    """Report sessions with advisory locks of jetgate that are no nodes. They block no node."""
    found = await foreign_locks(session)
    if not found:
        return [Finding("leases", "ok", "no session but nodes has advisory locks of jetgate")]
    return [_foreign(each) for each in found]


def _foreign(each: ForeignLocks) -> Finding:
    end = f"select pg_terminate_backend({each.pid})"
    if each.prepared:
        end = f"rollback prepared, for {each.prepared!r}"
    todo = f"nodes lead without them; find the owner, or end it: {end}"
    return Finding(
        "leases", "warn", f"{each.shown} advisory locks of jetgate, and is no node", todo
    )


async def _lock_table(session: Any, room: int) -> Finding:
    """Check that the lock table has space, and that no session uses most of it."""
    if room < _LOCKS:
        todo = "raise max_locks_per_transaction: leading takes 256 locks"
        return Finding("locks", "warn", f"room for {room}", todo)
    most = await session.fetchrow(_MOST_LOCKS)
    if most is not None and most["count"] > room // 2:
        found = f"role {most['role']!r} (pid {most['pid']}) holds {most['count']} of about {room}"
        todo = "no session gets a lock once all are held: end that session"
        return Finding("locks", "warn", found, todo)
    return Finding("locks", "ok", f"room for about {room}")


async def _clock(session: Any) -> Finding:
    """Compare the clock of this machine with that of PostgreSQL, which is used for stored times."""
    clock = SystemClock()
    time = DatabaseTime(clock)
    for _ in range(_ROUND_TRIPS):
        sent = clock.monotonic()
        time.answered(sent, await session.fetchval(TIME))
    side = "ahead of" if time.ahead > 0 else "behind"
    found = (
        f"{abs(time.ahead):.3f} s {side} PostgreSQL's (to {time.error / NANOS_PER_SECOND:.4f} s)"
    )
    if abs(time.ahead) * NANOS_PER_SECOND > TOLERATED:
        todo = "messages go by PostgreSQL's, the log by this one; keep both with NTP"
        return Finding("clock", "warn", found, todo)
    return Finding("clock", "ok", found)


async def _pace(session: Any) -> Finding:
    """Measure the median round trip of a statement: each acknowledgement waits for one or more."""
    taken = []
    for _ in range(_ROUND_TRIPS):
        began = time.perf_counter()
        await session.fetchval("select 1")
        taken.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0)
    middle = statistics.median(taken)
    found = f"{middle:.1f} ms for a round trip"
    if middle > _SLOW_MS:
        todo = "put jetgate nearer to PostgreSQL: each acknowledgement waits for at least one"
        return Finding("latency", "warn", found, todo)
    return Finding("latency", "ok", found)
