"""`jetgate reader`: roles that may read streams with SQL, made by one command."""

# Subject: SQL

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.support.jetgate import ROOT, JetgateServer
from tests.support.pg import PostgresServer


def reader(*arguments: str, password: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "JETGATE_READER_PASSWORD"}
    if password is not None:
        environment["JETGATE_READER_PASSWORD"] = password
    return subprocess.run(
        [sys.executable, "-m", "jetgate", "reader", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def test_a_reader_of_a_running_jetgate_dev_is_made_listed_and_dropped() -> None:
    with JetgateServer(in_memory=True) as server:
        place = ("--data", str(server.data))
        made = reader("create", "e2e_dev", "--stream", "ORDERS", *place)
        assert made.returncode == 0, made.stderr
        assert "e2e_dev@" in made.stdout
        found = json.loads(reader("list", "--json", *place).stdout)
        assert found == [{"role": "e2e_dev", "streams": [{"account": "$G", "stream": "ORDERS"}]}]
        assert reader("list", *place).stdout == "e2e_dev: $G/ORDERS\n"
        assert reader("drop", "e2e_dev", *place).returncode == 0
        again = reader("drop", "e2e_dev", *place)
        assert (again.returncode, again.stderr) == (1, "jetgate: there is no reader e2e_dev\n")


@pytest.mark.parametrize("source", ["environment", "file"])
def test_a_password_comes_from_the_environment_or_a_file(
    database: str, source: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    role, path = f"e2e_{source}", tmp_path / "password"
    path.write_text("of the file\n")
    given = ("--password-file", str(path)) if source == "file" else ()
    made = reader(
        "create", role, "--all-streams", "--dsn", database, *given, password="of the environment"
    )
    assert made.returncode == 0, made.stderr
    assert "of the" not in made.stdout + made.stderr

    async def look() -> tuple[str, list[object]]:
        admin = await asyncpg.connect(database)
        stored = await admin.fetchval("select rolpassword from pg_authid where rolname = $1", role)
        mine = await asyncpg.connect(database, user=role)
        heads = await mine.fetch("select * from jetgate.heads")
        await mine.close()
        await admin.close()
        return str(stored), heads

    stored, heads = asyncio.run(look())
    assert stored.startswith("SCRAM-SHA-256$4096:")
    assert heads == []
    assert reader("drop", role, "--dsn", database).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "wording"),
    [
        (("create", "r", "--stream", "S"), 1, "no password"),
        (("create", "r"), 2, "name streams with --stream"),
        (("create", "r", "--stream", "S", "--all-streams"), 2, "name streams with --stream"),
        (("create", "postgres", "--stream", "S", "--no-password"), 1, "role postgres exists"),
    ],
)
def test_a_failure_is_one_line(
    database: str, arguments: tuple[str, ...], code: int, wording: str
) -> None:
    done = reader(*arguments, "--dsn", database)

    assert done.returncode == code
    assert wording in done.stderr
    assert "Traceback" not in done.stderr
