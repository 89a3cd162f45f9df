"""Connection strings as operators write them, to Debian's PostgreSQL: TCP, TLS and passwords."""

# Subject: database connections

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trustme

import migrations
from core.errors import OperatorError
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.locks import LEASE_GROUPS
from core.storage.postgres.preflight import preflight
from tests.e2e.test_commands import Process, request
from tests.e2e.test_database_role import ask, serve, stored
from tests.support.commands import jetgate
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT
from tests.support.operator import ENCODED, PASSWORD, Forwarder, OperatorPostgres, written
from tests.support.pg import PostgresServer
from tests.support.ports import held_port
from tests.support.standby import Standby


@pytest.fixture(scope="module")
def operator() -> Iterator[OperatorPostgres]:
    with OperatorPostgres() as server:
        yield server


@pytest.fixture(scope="module")
def name(operator: OperatorPostgres) -> str:
    """A database that `jet` may use."""
    return operator.database()[0]


def check(dsn: str, environment: dict[str, str] | None = None, password_file: str = "") -> str:
    """Connect and check; the reason why that cannot be, or nothing."""
    try:
        connector = Connector(dsn, environment=environment or {}, password_file=password_file)
        asyncio.run(preflight(connector))
    except OperatorError as error:
        return str(error)
    return ""


def test_no_secret_shows_in_what_is_printed(
    operator: OperatorPostgres, name: str, tmp_path: Path
) -> None:
    options = f"user=jet&password={ENCODED}&application_name=shop"
    dsn = f"postgresql://127.0.0.1:{operator.port}/{name}?{options}"
    flags = ("serve", "--dsn", dsn, "--nats-port", "0", "--http-port", "0", "--log-level", "debug")
    with Process(*flags, data=tmp_path / "data") as process:
        assert request(process.ports, "GET", "/v1/streams")[0] == 200
        process.send(signal.SIGINT)
        _, printed = process.end()
        printed += process.stderr()

    assert f"psql 'postgresql://jet@127.0.0.1:{operator.port}/{name}'" in printed
    assert not [secret for secret in (PASSWORD, ENCODED) if secret in printed]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://jet:SECRET%zz@h/db",
        "postgresql://h/db?user=jet&password=a&SECRET",
        "host=h user=jet password=a SECRET",
        "postgresql://jet:a@SECRET@h/db",
    ],
)
def test_no_error_shows_a_secret(dsn: str) -> None:
    done = jetgate("migrate", "--dsn", dsn)

    assert done.returncode == 1
    assert done.stderr.startswith("jetgate: --dsn: ")
    assert "SECRET" not in done.stderr


def test_secrets_come_from_files(operator: OperatorPostgres, name: str, tmp_path: Path) -> None:
    whole = written(tmp_path / "dsn", operator.dsn(name) + "\n")
    bare = f"postgresql://jet@127.0.0.1:{operator.port}/{name}"
    password = written(tmp_path / "password", PASSWORD + "\n", 0o644)

    assert jetgate("migrate", "--dsn-file", whole).returncode == 0
    assert jetgate("migrate", JETGATE_DSN_FILE=whole).returncode == 0
    assert jetgate("migrate", "--dsn", bare, "--dsn-password-file", password).returncode == 0
    both = jetgate("migrate", "--dsn", bare, "--dsn-file", whole)
    assert both.stderr == (
        "jetgate: --dsn: given together with --dsn-file (or its variable); expected one of them\n"
    )
    missing = jetgate("migrate", "--dsn-file", "/no/such/file")
    assert missing.stderr == (
        "jetgate: --dsn-file: cannot read /no/such/file: no such file or directory\n"
    )
    wrong = jetgate("migrate", "--dsn", bare)
    assert "password authentication failed" in wrong.stderr
    assert "no password was given" in wrong.stderr


def test_clients_are_held_to_the_secrets_of_files(
    operator: OperatorPostgres, name: str, tmp_path: Path
) -> None:
    token = written(tmp_path / "token", "t0ken\n")
    flags = ("serve", "--dsn", operator.dsn(name), "--nats-port", "0", "--http-port", "0")
    with Process(*flags, "--auth-file", token, data=tmp_path / "data") as process:
        host, _, port = process.ports["nats"].removeprefix("nats://").partition(":")
        for given, answer in (("wrong", b"-ERR"), ("t0ken", b"PONG")):
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(
                    b'CONNECT {"verbose":false,"auth_token":"%b"}\r\nPING\r\n' % given.encode()
                )
                said = b""
                while answer not in said:
                    more = client.recv(1 << 16)
                    assert more, said
                    said += more


def test_every_form_reaches_the_database(
    operator: OperatorPostgres, name: str, tmp_path: Path
) -> None:
    port, password_file = operator.port, written(tmp_path / "password", PASSWORD)
    pgpass = written(tmp_path / "pgpass", f"localhost:{port}:{name}:jet:{PASSWORD}\n")
    services = written(
        tmp_path / "services", f"[app]\nhost=127.0.0.1\nport={port}\ndbname={name}\nuser=jet\n"
    )
    words = f"host=127.0.0.1 port={port} dbname={name} user=jet password='{PASSWORD}'"

    assert check(operator.dsn(name)) == ""
    assert check(words) == ""
    assert check("service=app", {"PGSERVICEFILE": services, "PGPASSWORD": PASSWORD}) == ""
    assert check("service=app", {"PGSERVICEFILE": services}, password_file) == ""
    variables = {"PGHOST": "localhost", "PGPORT": str(port), "PGUSER": "jet", "PGPASSFILE": pgpass}
    assert check(f"postgresql:///{name}", variables) == ""
    assert check(operator.dsn(name, options="keepalives_idle=30&connect_timeout=5")) == ""
    assert "no pg_hba.conf entry" not in check(operator.dsn(name, options="sslmode=disable"))


def test_tls_is_verified_and_errors_name_the_file(
    operator: OperatorPostgres, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    text = written(tmp_path / "text.pem", "no certificate")
    local = f"localhost:{operator.port}"

    def tls(options: str, host: str = local) -> str:
        return check(operator.dsn(name, host=host, options=options))

    assert tls(f"sslmode=verify-full&sslrootcert={operator.root}") == ""
    assert tls(f"sslmode=verify-ca&sslrootcert={operator.root}", f"127.0.0.1:{operator.port}") == ""
    by_address = tls(
        f"sslmode=verify-full&sslrootcert={operator.root}", f"127.0.0.1:{operator.port}"
    )
    assert "certificate is not valid for '127.0.0.1'" in by_address
    assert "certificate verify failed" in tls(f"sslmode=verify-full&sslrootcert={other}")
    assert f"sslrootcert {text}: it holds no certificates" in tls(
        f"sslmode=verify-full&sslrootcert={text}"
    )
    assert "sslrootcert /no/such.pem: no such file" in tls(
        "sslmode=verify-full&sslrootcert=/no/such.pem"
    )
    assert "sslcert /no/such.crt: no such file" in tls("sslmode=require&sslcert=/no/such.crt")
    assert "certificate verify failed" in tls("sslrootcert=system")
    monkeypatch.setenv("SSL_CERT_FILE", str(operator.root))
    assert tls("sslrootcert=system") == ""


def test_of_several_hosts_the_primary_is_found_though_others_are_dead(
    operator: OperatorPostgres,
) -> None:
    name, _ = operator.database()
    with held_port() as dead, socket.create_server(("127.0.0.1", 0)) as silent:
        closed, hung = dead.getsockname()[1], silent.getsockname()[1]
        hosts = f"127.0.0.1:{closed},127.0.0.1:{hung},127.0.0.1:{operator.port}"

        async def sessions() -> list[str]:
            connector = Connector(operator.dsn(name, host=hosts), environment={})
            found = []
            for purpose in (Purpose.ADMIN, Purpose.LOCK, Purpose.COMMIT):
                # A lease allows two seconds; a host that hangs must not take them.
                async with asyncio.timeout(60):
                    session = await connector.open(purpose)
                found.append(await session.fetchval("select current_setting('port')"))
                await session.close()
            return found

        assert asyncio.run(sessions()) == [str(operator.port)] * 3


def test_a_standby_alone_is_refused_and_beside_its_primary_passed_over(
    durable: PostgresServer,
) -> None:
    dsn = durable.fresh_database()
    where, _, primary = dsn.partition("?host=")
    with Standby(dsn, durable.server.data) as standby:
        place = standby.dsn.partition("?host=")[2]
        both = f"{where}?host={place},{primary}&target_session_attrs=read-write"

        assert "it is a standby in recovery, expected the primary" in check(standby.dsn)
        assert check(both) == ""
        none = check(f"{where}?host={place},{place}")
        assert "it is a standby, expected the primary" in none


def test_a_server_follows_its_database_to_another_host(tmp_path: Path) -> None:
    with PostgresServer(settings={"fsync": "on"}) as primary:
        dsn = primary.fresh_database()
        where, _, first = dsn.partition("?host=")
        with Standby(dsn, primary.server.data) as standby:
            both = f"{where}?host={first},{standby.dsn.partition('?host=')[2]}"
            with serve(both, tmp_path / "data") as process:
                request(process.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
                assert stored(process, "s.1") == 1
                there = "select 1 from jetgate.messages where stream = 'S'"
                eventually(lambda: ask(standby.dsn, there), within=60)

                primary.run(primary.server.stop())
                standby.promote()

                asked = partial(request, process.ports, "POST", "/v1/subjects/s.2", "x")
                eventually(lambda: asked()[0] == 201, within=60)
                assert ask(standby.dsn, "select seq from jetgate.messages where seq < 3") == [
                    (1,),
                    (2,),
                ]


def test_a_start_waits_for_a_database_that_comes_late(
    operator: OperatorPostgres, name: str
) -> None:
    with Forwarder(operator.port, ends=3) as late:
        dsn = operator.dsn(name, host=f"127.0.0.1:{late.port}", options="sslmode=disable")
        process = subprocess.Popen(
            [sys.executable, "-m", "jetgate", "migrate", "--dsn", dsn, "--wait-for-db", "120"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert process.stderr is not None
        told = re.search(r"connection refused; waiting, (\d+) s more", process.stderr.readline())
        assert told is not None
        assert 60 < int(told[1]) <= 120  # less what the first attempt took
        late.listen()
        printed, log = process.communicate(timeout=120)

        assert process.returncode == 0, log
        assert "answers after" in log
        assert f"revision {migrations.HEAD}" in printed


def test_a_wait_ends_and_permanent_errors_are_reported_at_once(
    operator: OperatorPostgres, name: str
) -> None:
    with held_port() as dead:
        dsn = operator.dsn(name, host=f"127.0.0.1:{dead.getsockname()[1]}")
        done = jetgate("migrate", "--dsn", dsn, "--wait-for-db", "0.5")
        assert done.returncode == 1
        assert "connection refused (waited " in done.stderr.splitlines()[-1]
    wrong = operator.dsn(name).replace(ENCODED, "wrong")
    done = jetgate("migrate", "--dsn", wrong, "--wait-for-db", "600")
    assert "password authentication failed" in done.stderr
    wrong = operator.dsn(name, host=f"localhost:{operator.port}", options="sslrootcert=system")
    done = jetgate("migrate", "--dsn", wrong, "--wait-for-db", "600")
    assert "certificate verify failed" in done.stderr


def test_a_session_has_an_application_name_and_keeps_the_options_of_the_dsn(
    operator: OperatorPostgres, name: str
) -> None:
    async def told() -> list[str]:
        options = "application_name=shop&keepalives_idle=31&options=-c%20work_mem%3D9MB"
        session = await Connector(operator.dsn(name, options=options)).open(Purpose.WRITE)
        sock = session._transport.get_extra_info("socket")
        try:
            return [
                str(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)),
                *[
                    await session.fetchval(f"select current_setting('{setting}')")
                    for setting in ("application_name", "work_mem", "statement_timeout")
                ],
            ]
        finally:
            await session.close()

    assert asyncio.run(told()) == ["31", "shop write", "9MB", "0"]


def test_the_doctor_reports_problems(operator: OperatorPostgres) -> None:
    name, admin = operator.database(owned=False)
    bad = jetgate(
        "doctor", "--dsn", operator.dsn(name, host=f"127.0.0.1:1,127.0.0.1:{operator.port}")
    )

    assert bad.returncode == 1
    assert "warn  host 127.0.0.1:1: connection refused" in bad.stdout
    assert f"ok    host 127.0.0.1:{operator.port}: answers, as primary" in bad.stdout
    assert "create schema jetgate_store authorization jet" in bad.stdout

    operator.server.execute(f"alter database {name} owner to jet")
    operator.server.execute(f"alter database {name} connection limit 20")
    good = jetgate("doctor", "--json", "--dsn", operator.dsn(name))
    found = {each["what"]: each for each in json.loads(good.stdout)}
    assert good.returncode == 0, good.stdout
    assert found["preflight"]["state"] == "ok"
    assert found["schema"]["found"] == "not there yet; the first start creates it"
    assert (found["sessions"]["state"], found["TLS"]["state"]) == ("warn", "warn")
    assert "role" not in found
    owner = json.loads(jetgate("doctor", "--json", "--dsn", admin).stdout)
    assert "a superuser" in [each["found"] for each in owner]


@pytest.mark.parametrize(
    ("wrong", "todo"),
    [
        ("database", 'database "not_there" does not exist\n      -> create it, or name another'),
        ("port", "connection refused\n      -> address, port, firewall"),
        ("user", "\n      -> role, password, pg_hba.conf"),
    ],
)
def test_the_doctor_reports_once_why_nothing_answers(
    operator: OperatorPostgres, wrong: str, todo: str
) -> None:
    dsn = operator.dsn("not_there", host="127.0.0.1:1" if wrong == "port" else "")
    told = jetgate(
        "doctor", "--dsn", dsn.replace("//jet:", "//nobody:") if wrong == "user" else dsn
    )

    assert told.returncode == 1
    assert todo in told.stdout
    assert told.stdout.count("->") == 1


@pytest.mark.thorough
def test_the_status_shows_nodes_and_streams(operator: OperatorPostgres, tmp_path: Path) -> None:
    dsn = operator.dsn(operator.database()[0])
    with serve(dsn, tmp_path / "first") as first:
        request(first.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert stored(first, "s.1") == 1
        with serve(dsn, tmp_path / "second") as second:
            eventually(lambda: _nodes_share(dsn), within=60)
            told = json.loads(jetgate("status", "--json", "--seconds", "0", "--dsn", dsn).stdout)
            text = jetgate("status", "--dsn", dsn).stdout

            assert [each["is_leader"] for each in told["nodes"]] == [True, False]
            assert sorted(each["streams"] for each in told["nodes"]) == [0, 1]
            http = {each["http"] for each in told["nodes"]}
            assert http == {first.ports["http"], second.ports["http"]}
            [stream] = told["streams"]
            assert (stream["stream"], stream["messages"], stream["last_seq"]) == ("S", 1, 1)
            assert text.startswith(
                f"{told['leader']} leads the stream directory; PostgreSQL answers in "
            )
            assert "STREAM  MESSAGES  BYTES  STORED/S" in text
            _the_cluster_is_whole_until_a_node_is_isolated(dsn, operator)
        first.send(signal.SIGTERM)
        first.end()
    nobody = jetgate("status", "--seconds", "0", "--dsn", dsn)
    assert nobody.returncode == 1
    assert nobody.stdout.startswith("nobody leads")
    without = jetgate("cluster", "--dsn", dsn)
    assert without.returncode == 1
    assert without.stdout.startswith("nobody leads the stream directory; ")
    assert "; 0 of 256 lease groups are led\n" in without.stdout


def _nodes_share(dsn: str) -> bool:
    """Whether two nodes lead all lease groups, each about as many as the other."""
    told = json.loads(jetgate("cluster", "--json", "--dsn", dsn).stdout)
    groups = [each["groups"] for each in told["nodes"]]
    assert told["groups"] == sum(groups)
    assert all((each["state"] == "leads") == (each["groups"] > 0) for each in told["nodes"])
    return told["groups"] == LEASE_GROUPS and len(groups) == 2 and max(groups) < 0.6 * LEASE_GROUPS


def _the_cluster_is_whole_until_a_node_is_isolated(dsn: str, operator: OperatorPostgres) -> None:
    eventually(lambda: jetgate("cluster", "--dsn", dsn).returncode == 0, within=60)
    told = json.loads(jetgate("cluster", "--json", "--dsn", dsn).stdout)
    first, second = told["nodes"]
    assert (first["node"], told["missing_links"]) == (told["leader"], [])
    assert first["links"] == [second["node"]]
    assert second["links"] == [first["node"]]
    # It says that it is there, and reaches nobody.
    operator.server.execute(
        "insert into jetgate_store.node (node, session_pid, started, seen) values"
        " ('alone', 0, clock_timestamp(), clock_timestamp() + interval '1 hour')",
        operator.server.dsn.replace("/jetgate?", f"/{dsn.rpartition('/')[2].partition('?')[0]}?"),
    )
    cut = jetgate("cluster", "--dsn", dsn)
    assert cut.returncode == 1
    assert cut.stdout.startswith(
        f"{first['node']} leads the stream directory; 3 nodes are there; 256 "
    )
    for node in (first["node"], second["node"]):
        assert f"\n{node} does not reach alone\n" in cut.stdout
        assert f"\nalone does not reach {node}\n" in cut.stdout
