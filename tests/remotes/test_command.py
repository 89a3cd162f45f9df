"""`jetgate remote`: the list in the database, and what the server makes of it."""

# Subject: remotes, configuration

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.pg import PostgresServer
from tests.support.remotes import remote


@pytest.fixture(scope="module")
def hub() -> Iterator[NatsServer]:
    with NatsServer({"authorization": '{ user: ann, password: "hush-hush" }'}) as server:
        yield server


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, hub: NatsServer) -> Iterator[JetgateServer]:
    path = tmp_path_factory.mktemp("remotes") / "jetgate.conf"
    login = f"nats://ann:hush-hush@{hub.address[0]}:{hub.address[1]}"
    path.write_text(
        f'mappings {{ "orders.new": "orders.v1" }}\nremotes {{ fixed {{ url: "{login}" }} }}\n'
    )
    with JetgateServer("--config", str(path), in_memory=True) as server:
        yield server


def listed(on: JetgateServer) -> dict[str, dict[str, Any]]:
    found = json.loads(remote("list", "--json", on=on).stdout)
    return {each["name"]: each for each in found}


def streams_through(server: JetgateServer, name: str) -> int:
    async def ask() -> int:
        nc = await nats.connect(f"nats://{server.address[0]}:{server.address[1]}")
        try:
            return (await nc.jetstream(domain=name, timeout=20).account_info()).streams
        finally:
            await nc.close()

    return asyncio.run(ask())


def metrics(server: JetgateServer) -> str:
    connection = http.client.HTTPConnection(*server.http, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_a_remote_is_added_used_listed_and_removed(node: JetgateServer, hub: NatsServer) -> None:
    url = f"nats://ann:hush-hush@{hub.address[0]}:{hub.address[1]}"

    added = remote("add", "hub", url, on=node)
    eventually(lambda: 'jetgate_remote_connected{remote="hub"} 1.0' in metrics(node), within=60)
    streams = streams_through(node, "hub")
    table = eventually(lambda: connected(remote("list", on=node).stdout), within=60, every=1.0)
    checked = remote("check", "hub", on=node)
    numbers = metrics(node)
    again = remote("add", "hub", url, on=node)
    removed = remote("remove", "hub", on=node)
    gone = remote("remove", "hub", on=node)
    eventually(lambda: 'jetgate_remote_connected{remote="hub"}' not in metrics(node), within=60)

    assert added.stdout.startswith("remote hub added: $JS.hub.API is nats://***@127.0.0.1:")
    assert "JetStream with 0 streams and 0 consumers" in added.stdout
    assert streams == 0
    assert "2.15.1" in table
    assert checked.returncode == 0
    assert 'jetgate_remote_connected{remote="hub"} 1.0' in numbers
    assert again.stdout.startswith("remote hub changed")
    assert removed.stdout == "remote hub removed\n"
    assert gone.returncode == 1
    assert "there is no remote hub" in gone.stderr
    wording = added.stdout + table + checked.stdout + again.stdout + numbers + node.log(100_000)
    assert "hush-hush" not in wording, "secrets are not shown"


def test_a_remote_that_refuses_the_login_is_kept_with_the_reason(
    node: JetgateServer, hub: NatsServer
) -> None:
    url = f"nats://ann:wrong@{hub.address[0]}:{hub.address[1]}"

    added = remote("add", "shut", url, on=node)
    state = eventually(lambda: refused(listed(node)["shut"]["state"]), within=60, every=1.0)
    checked = remote("check", "shut", on=node)
    remote("remove", "shut", on=node)

    assert added.returncode == 0
    assert "it cannot be used yet" in added.stderr
    assert state == "not connected: Authorization Violation"
    assert checked.returncode == 1
    assert checked.stderr.startswith("jetgate: nats://***@")
    assert "Authorization Violation" in checked.stderr


def connected(table: str) -> str:
    return table if "  connected  " in table else ""


def refused(state: str) -> str:
    return state if "Violation" in state else ""


def test_the_configuration_file_has_remotes_and_mappings(node: JetgateServer) -> None:
    async def heard() -> str:
        nc = await nats.connect(f"nats://{node.address[0]}:{node.address[1]}")
        sub = await nc.subscribe("orders.>")
        await nc.publish("orders.new", b"")
        msg = await sub.next_msg(timeout=20)
        await nc.close()
        return str(msg.subject)

    eventually(lambda: 'jetgate_remote_connected{remote="fixed"} 1.0' in metrics(node), within=60)

    assert streams_through(node, "fixed") == 0
    assert asyncio.run(heard()) == "orders.v1"


@pytest.mark.parametrize(
    ("arguments", "code", "wording"),
    [
        (["add", "a.b", "nats://h"], 1, "expected 1 to 32 letters"),
        (
            ["add", "h", "https://h"],
            1,
            "https:// is not served: expected nats://, tls:// or",
        ),
        (["check", "none"], 1, "there is no remote none"),
    ],
)
def test_an_impossible_command_prints_one_line(
    node: JetgateServer, arguments: list[str], code: int, wording: str
) -> None:
    found = remote(*arguments, on=node)

    assert found.returncode == code
    assert wording in found.stderr


def test_without_a_database_it_names_the_missing_option(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "jetgate", "remote", "list", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert found.returncode == 1
    assert "no jetgate dev runs in" in found.stderr


def test_a_database_without_the_schema_is_named(postgres: PostgresServer) -> None:
    found = remote("list", on=postgres.fresh_database(migrated=False))

    assert found.returncode == 1
    assert "has no schema of this release: jetgate migrate" in found.stderr


def test_a_configuration_file_that_cannot_be_used_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_text("port: 4222")

    found = subprocess.run(
        [sys.executable, "-m", "jetgate", "dev", "--config", str(path), "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert found.returncode == 1
    assert found.stderr.startswith("jetgate: --config: ")
    assert 'unknown field "port"; http, mappings and remotes are known' in found.stderr
