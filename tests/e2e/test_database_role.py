"""The oldest and the newest PostgreSQL, and a role that is no superuser: what a DBA may set up."""

# Subject: database connections

import asyncio
import contextlib
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import migrations
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.locks import LEASE_GROUPS, LOCK_CLASS
from core.storage.postgres.preflight import VERSIONS
from tests.e2e.test_commands import Process, request
from tests.integration.test_foreign_locks import KEYS
from tests.support.commands import jetgate
from tests.support.eventually import eventually, observed
from tests.support.jetgate import ROOT
from tests.support.operator import PASSWORD, OperatorPostgres
from tests.support.pg import PostgresServer

LIMITS = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_session_timeout": "200ms",
    "idle_in_transaction_session_timeout": "1ms",
    "default_transaction_isolation": "serializable",
}


@pytest.fixture(
    scope="module", params=[VERSIONS[0], pytest.param(VERSIONS[-1], marks=pytest.mark.thorough)]
)
def operator(request: pytest.FixtureRequest) -> Iterator[OperatorPostgres]:
    with OperatorPostgres(request.param) as server:
        yield server


def ask(dsn: str, statement: str) -> list[Any]:
    async def rows() -> list[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return asyncio.run(rows())


def serve(dsn: str, data: Path) -> Process:
    return Process("serve", "--dsn", dsn, "--nats-port", "0", "--http-port", "0", data=data)


def stored(process: Process, subject: str) -> int:
    status, body = request(process.ports, "POST", f"/v1/subjects/{subject}", "x")
    assert status == 201, (body, process.stderr())
    return int(json.loads(body)["seq"])


def leads_all(node: Process) -> bool:
    told = request(node.ports, "GET", "/metrics")[1]
    return f"\njetgate_lease_groups {LEASE_GROUPS}.0\n" in told


def test_limits_of_the_role_end_no_session_and_no_takeover(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    """A leader and the one after it serve, and their sessions live longer than idle ones may."""
    name, admin = operator.database()
    dsn = operator.dsn(name)
    for setting, value in LIMITS.items():
        operator.server.execute(f"alter role jet in database {name} set {setting} = '{value}'")
    with serve(dsn, tmp_path / "first") as first:
        request(first.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert stored(first, "s.1") == 1
        idle = (
            "select pid from pg_stat_activity where application_name like 'jetgate %'"
            " and usename = 'jet' and state = 'idle'"
        )
        old = f"{idle} and state_change < clock_timestamp() - interval '600 ms'"
        eventually(lambda: ask(admin, old), within=60)
        with serve(dsn, tmp_path / "second") as second:
            eventually(lambda: "all streams are led" in second.stderr(), within=60)
            first.send(signal.SIGKILL)
            first.end()
            # What comes before that may be refused, or was given to the one that is gone.
            eventually(lambda: leads_all(second), within=60)
            assert stored(second, "s.2") == 2
            assert "refuses" not in second.stderr() + first.stderr()
            assert "lease groups are lost" not in second.stderr()


@contextlib.asynccontextmanager
async def thieves(dsn: str) -> AsyncIterator[list[int]]:
    """Sessions of a role without rights: one takes the first numbers of jetgate's class, others
    wait for keys that the node holds. Their process ids.
    """
    sessions = [await asyncpg.connect(dsn) for _ in range(3)]
    try:
        keys = [row[0] for row in await sessions[0].fetch(KEYS)]
        await sessions[0].execute(
            f"select pg_try_advisory_lock({LOCK_CLASS}, g) from generate_series(-2, 255) g"
        )
        waits = [
            asyncio.ensure_future(each.execute(f"select pg_advisory_lock({LOCK_CLASS}, {key})"))
            for each, key in zip(sessions[1:], keys, strict=False)
        ]
        yield [each.get_server_pid() for each in sessions]
        await asyncio.gather(*waits)  # they have got what nobody asks for any more
    finally:
        for each in sessions:
            each.terminate()


def test_advisory_locks_of_other_roles_hold_up_no_leader_and_are_named(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    name, admin = operator.database()
    access = operator.server.server.data / "pg_hba.conf"
    access.write_text("local all thief trust\n" + access.read_text())
    operator.server.execute("select pg_reload_conf(); create role thief login")

    async def scenario(first: Process) -> None:
        async with thieves(admin.replace("postgres@", "thief@")) as pids:
            first.send(signal.SIGKILL)
            await asyncio.to_thread(first.end)
            with serve(operator.dsn(name), tmp_path / "second") as second:
                await observed(lambda: asyncio.to_thread(leads_all, second), within=60)
                assert stored(second, "s.1") == 1
                for pid in pids:
                    assert f" WARNING role 'thief' (pid {pid}) holds " in second.stderr()

    with serve(operator.dsn(name), tmp_path / "first") as first:
        request(first.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        asyncio.run(scenario(first))


def test_nor_does_the_limit_of_a_transaction(durable: PostgresServer) -> None:
    """PostgreSQL 17 and later know that one."""
    admin = durable.fresh_database(migrated=False)
    durable.execute("create role jet login")
    for setting, value in {**LIMITS, "transaction_timeout": "200ms"}.items():
        durable.execute(f"alter role jet set {setting} = '{value}'")

    async def limits() -> list[str]:
        connector, found = Connector(admin.replace("postgres@", "jet@")), []
        for purpose in Purpose:
            session = await connector.open(purpose)
            found.append(await session.fetchval("select current_setting('transaction_timeout')"))
            await session.close()
        plain = await connector.open_plain()
        found.append(await plain.fetchval("select current_setting('transaction_timeout')"))
        await plain.close()
        return found

    assert asyncio.run(limits()) == ["0"] * (len(Purpose) + 1)


def test_commits_stay_durable_when_the_role_is_changed_later(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    name, admin = operator.database()
    with serve(operator.dsn(name), tmp_path / "data") as process:
        request(process.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        operator.server.execute(f"alter role jet in database {name} set synchronous_commit = off")
        operator.server.execute(
            "create function public.told() returns trigger language plpgsql as $$ begin"
            " raise exception 'synchronous_commit is %', current_setting('synchronous_commit');"
            " end $$; create trigger told before insert on jetgate_store.message_0"
            " for each row when (new.subject = 's.told') execute function public.told();"
            " create trigger told before insert on jetgate_store.message_1"
            " for each row when (new.subject = 's.told') execute function public.told()",
            admin,
        )
        committers = (
            "select pg_terminate_backend(pid) from pg_stat_activity"
            f" where application_name = 'jetgate commit' and datname = '{name}'"
        )
        assert ask(admin, committers) == [(True,)]

        def told() -> bool:
            request(process.ports, "POST", "/v1/subjects/s.told", "x")
            return "synchronous_commit is on" in process.stderr()

        eventually(told, within=60)
        assert "synchronous_commit is off" not in process.stderr()


def test_an_administrator_may_create_the_schemas(operator: OperatorPostgres) -> None:
    for schemas, creates in ((("jetgate",), True), (("jetgate", "jetgate_store"), False)):
        name, admin = operator.database(owned=False)
        for schema in schemas:
            operator.server.execute(f"create schema {schema} authorization jet", admin)
        if creates:
            operator.server.execute(f"grant create on database {name} to jet")

        done = jetgate("migrate", "--dsn", operator.dsn(name))

        assert done.stdout.endswith(f"is now at revision {migrations.HEAD}\n"), done.stderr


def test_each_right_that_is_missing_is_named_with_the_statement_that_gives_it(
    operator: OperatorPostgres,
) -> None:
    name, admin = operator.database(owned=False)
    operator.server.execute(f"revoke connect on database {name} from public")
    given: list[str] = []
    for _ in range(6):
        done = jetgate("migrate", "--dsn", operator.dsn(name))
        if done.returncode == 0:
            break
        [line] = done.stderr.splitlines()
        assert line.startswith("jetgate: ")
        for statement in line.rpartition(": ")[2].split("; "):
            given.append(statement)
            operator.server.execute(statement, admin)

    assert done.returncode == 0, done.stderr
    assert given == [
        f"grant connect on database {name} to jet",
        "create schema jetgate_store authorization jet",
        "create schema jetgate authorization jet",
    ]


def test_a_role_that_only_serves_gets_the_list_of_missing_grants(
    operator: OperatorPostgres, tmp_path: Path
) -> None:
    name, admin = operator.database(owned=False, migrated=True)
    done = jetgate("serve", "--dsn", operator.dsn(name), "--nats-port", "0", "--http-port", "0")
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]  # behind the warning of a password in the DSN
    page = (ROOT / "docs/operations/database.md").read_text()
    for statement in line.partition("run there: ")[2].split("; "):
        assert f"    {statement};\n" in page
        operator.server.execute(statement, admin)

    with serve(operator.dsn(name), tmp_path / "data") as process:
        request(process.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert stored(process, "s.1") == 1
        request(process.ports, "DELETE", "/v1/streams/S")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "delete from jetgate_store.schema_version",
            "has tables, but no row in schema_version names their revision",
        ),
        (
            "drop schema jetgate_store cascade; create view jetgate.streams as select 1;"
            " alter view jetgate.streams owner to jet",
            ": schemas jetgate_store and jetgate must be empty at first",
        ),
    ],
)
def test_a_schema_in_disorder_is_one_line(
    operator: OperatorPostgres, statement: str, words: str
) -> None:
    name, admin = operator.database(migrated=True)
    operator.server.execute(statement, admin)
    operator.server.execute(
        "do $$ declare s text; begin for s in select nspname from pg_namespace"
        " where nspname like 'jetgate%' loop execute format('alter schema %I owner to jet', s);"
        " end loop; end $$",
        admin,
    )
    operator.server.execute(
        "grant all on all tables in schema jetgate to jet; do $$ begin if to_regnamespace("
        "'jetgate_store') is not null then grant all on all tables in schema jetgate_store to jet;"
        " grant all on all sequences in schema jetgate_store to jet; end if; end $$",
        admin,
    )

    done = jetgate("migrate", "--dsn", operator.dsn(name))

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert words in line


def test_the_script_of_roles_is_enough_to_serve(operator: OperatorPostgres, tmp_path: Path) -> None:
    # The servers of tests have but one template.
    script = (ROOT / "deploy/roles.sql").read_text().replace("template0", "template1")
    psql = operator.installation.binary("psql")
    socket = operator.server.dsn.partition("host=")[2]
    done = subprocess.run(
        [
            *(str(psql), f"postgresql://postgres@/jetgate?host={socket}", "-f", "-"),
            *("-v", "ON_ERROR_STOP=1", "-v", f"password={PASSWORD}"),
        ],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    dsn = operator.dsn("jetgate_app").replace("jet:", "jetgate_app:")

    with serve(dsn, tmp_path / "data") as process:
        request(process.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert stored(process, "s.1") == 1
