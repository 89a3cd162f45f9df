"""What the last release has stored, under this release and under the next.

`tests/support/released.py` says what is in that database, and wrote it.
"""

# Subject: schema

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import migrations
from tests.integration.test_migrations import COLUMNS, run_migrate
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer
from tests.support.pg_versions import find
from tests.support.released import TOLD, fetch, headers, load, told
from tests.support.sql import on
from tests.support.wire import Wire

NEXT = "9000"
_REVISION = f'''
revision, down_revision, branch_labels, depends_on = "{NEXT}", "{migrations.HEAD}", None, None
STATEMENTS = ("alter table jetgate_store.head add column of_the_next_release integer",)

def upgrade():
    from alembic import op
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
'''


@pytest.fixture(scope="module", params=[pytest.param(15, marks=pytest.mark.thorough), 18])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """The oldest PostgreSQL that is served, and the newest."""
    installation = find(request.param)
    if installation is None:
        pytest.skip(f"PostgreSQL {request.param} is not here (apt-get install postgresql-15)")
    with PostgresServer(installation=installation, settings={"fsync": "on"}) as found:
        yield found


@pytest.fixture
def released(server: PostgresServer) -> Iterator[str]:
    """A database as the last release left it."""
    dsn = server.fresh_database(migrated=False)
    asyncio.run(load(dsn))
    yield dsn
    server.drop(dsn)


def test_everything_that_the_last_release_stored_is_there(released: str) -> None:
    with JetgateServer(dsn=released) as jetgate, Wire(jetgate.address) as wire:
        wire.hello()

        assert told(wire) == json.loads(TOLD.read_text())

        again = wire.request("orders.us", b"x", headers(Nats_Msg_Id="order-40")).json()
        assert (again["seq"], again["duplicate"]) == (40, True)
        assert wire.request("orders.us", b"new").json()["seq"] == 42
        _go_on(wire)


def _go_on(wire: Wire) -> None:
    """What was pending is acknowledged or delivered again, and then comes what follows."""
    pending = "$JS.ACK.ORDERS.{}.{}.{}.{}.1.0"  # after the name: deliveries and both sequences
    wire.request(pending.format("billing", 1, 11, 7), b"+ACK")
    billing = wire.api("CONSUMER.INFO.ORDERS.billing")
    assert billing["num_ack_pending"] == 5
    wire.request(pending.format("retried", 1, 3, 2), b"-NAK")
    first, second = fetch(wire, "ORDERS", "retried", 2)
    assert first.startswith(b"$JS.ACK.ORDERS.retried.2.3.")
    assert second.startswith(b"$JS.ACK.ORDERS.retried.1.6.")
    [job] = fetch(wire, "JOBS", "workers", 1)
    assert job.startswith(b"$JS.ACK.JOBS.workers.1.9.9.")
    hits = wire.request("hits.page", b"", headers(Nats_Incr="+1")).json()
    assert hits["val"] == "18"


def test_a_revision_that_was_released_stays_as_it_was(
    server: PostgresServer, released: str
) -> None:
    """A change of the schema is a revision of its own once there is a release."""
    run_migrate(released)

    spread = "select count(*) from jetgate_store.stream where lease_group = stream % 256"
    assert on(released, spread) == on(released, "select count(*) from jetgate_store.stream")
    assert on(released, "select bytes from jetgate_store.head where stream = 0") == [(0,)]
    assert on(released, COLUMNS) == on(server.fresh_database(), COLUMNS)


def test_the_next_release_upgrades_and_this_one_refuses_what_it_left(
    released: str, tmp_path: Path
) -> None:
    path = _next_release(tmp_path)
    with JetgateServer(dsn=released, env=path) as jetgate, Wire(jetgate.address) as wire:
        wire.hello()
        assert told(wire) == json.loads(TOLD.read_text())
    assert on(released, "select of_the_next_release from jetgate_store.head where stream = 0")

    for command in (("serve", "--nats-port", "0", "--http-port", "0"), ("migrate",)):
        done = _refused(*command, "--dsn", released)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith(f"jetgate: the database schema is at revision {NEXT}, jetgate ")
        assert line.endswith(f"knows revisions up to {migrations.HEAD}: run a newer jetgate")
    doctor = _refused("doctor", "--dsn", released)
    assert doctor.returncode == 1
    assert f"fail  schema: revision {NEXT}\n      -> run a newer jetgate" in doctor.stdout


def test_nothing_is_upgraded_while_nodes_of_the_older_release_run(
    released: str, tmp_path: Path
) -> None:
    """A node that was killed does not count, though its heartbeat is not old yet."""
    path = _next_release(tmp_path)
    with JetgateServer(dsn=released) as old:
        [(name,)] = eventually(lambda: on(released, "select node from jetgate_store.node"))
        done = _refused("migrate", "--dsn", released, **path)
        assert done.returncode == 1
        said = done.stderr.splitlines()[-1]
        assert said.startswith(f"jetgate: the database schema is at revision {migrations.HEAD}, ")
        assert said.endswith(f"and nodes of an older release still run: stop {name} first")
        with Wire(old.address) as wire:
            wire.hello()
            assert wire.request("orders.us", b"meanwhile").json()["seq"] == 42
        old.kill()

    with JetgateServer(dsn=released, env=path) as jetgate, Wire(jetgate.address) as wire:
        wire.hello()
        assert wire.request("orders.us", b"new").json()["seq"] == 43


@pytest.mark.parametrize("server", [18], indirect=True)
def test_a_node_that_missed_an_upgrade_does_not_lead_any_more(server: PostgresServer) -> None:
    """It stood still while the schema was migrated, and who led then is gone."""
    dsn = server.fresh_database()
    with Nodes(dsn, 2) as nodes:
        leader, [other] = nodes.roles
        process = other.process
        assert process is not None
        on(dsn, f"update jetgate_store.schema_version set version_num = '{NEXT}'", "select 1")
        leader.kill()

        assert process.wait(120) == 1
        assert f"the database schema is at revision {NEXT}, jetgate " in other.log()
        assert ": run a newer jetgate" in other.log()


def _next_release(place: Path) -> dict[str, str]:
    """This release with one revision more; the environment in which it is found first."""
    package = place / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, package)
    text = (package / "__init__.py").read_text()
    old = f'HEAD = "{migrations.HEAD}"'
    assert old in text
    (package / "__init__.py").write_text(text.replace(old, f'HEAD = "{NEXT}"'))
    (package / "versions" / f"{NEXT}_next.py").write_text(_REVISION)
    return {"PYTHONPATH": f"{place}:{ROOT}", "PYTHONSAFEPATH": "1"}


def _refused(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jetgate", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )
