"""The worked example of spark/README.md, in other places and for a moment instead of minutes."""

# Subject: Spark pipelines

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.web import Web
from tests.spark.feeds import dsn_of
from tests.support import spark as support
from tests.support.jetgate import ROOT, JetgateServer

support.require()

SECONDS = 20
LIKE_THE_READMES = "nats://127.0.0.1:4222"
PACKAGES = ROOT / "tests/e2e/data/dumpavail.txt"


@pytest.fixture
def server() -> Iterator[JetgateServer]:
    with JetgateServer(in_memory=True) as server:
        yield server


@pytest.mark.thorough
def test_readings_become_windows_a_lake_and_a_report(server: JetgateServer, tmp_path: Path) -> None:
    nats, web = "nats://{}:{}".format(*server.address), Web(server.http)
    environment = support.environment() | {"JETGATE_DSN": dsn_of(server)}

    def run(*words: object) -> str:
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    declared = (ROOT / "examples/spark/host.yaml").read_text()
    assert LIKE_THE_READMES in declared
    (tmp_path / "host.yaml").write_text(declared.replace(LIKE_THE_READMES, nats))
    run(ROOT / "examples/packages.py", "--server", nats, "--file", PACKAGES)
    run(ROOT / "examples/host_metrics.py", "--server", nats, "--seconds", SECONDS)
    assert web.json("PUT", "/v1/streams/HOSTS", {"subjects": ["hosts.>"]}).status == 201

    told = run("-m", "pyspark_jetstream", "run", "host.yaml")

    assert "transform hosts: done" in told
    assert "archive lake: done" in told
    window = web.get("/v1/streams/HOSTS/messages?last_by=hosts.*").json()
    assert 0 < window["readings"] <= 100
    assert 0 <= window["busy_percent"] <= 100
    last = web.get("/v1/streams/HOSTS").json()["state"]["last_seq"]
    assert last >= SECONDS // 5 - 1  # the last window is open

    again = run("-m", "pyspark_jetstream", "run", "host.yaml")

    assert f"HOSTS: done through sequence {last}" in again
    assert web.get("/v1/streams/HOSTS").json()["state"]["last_seq"] == last, "each window once"
    shown = run(ROOT / "examples/spark/report.py", "--svg", tmp_path / "report.svg")
    assert f"{last} windows of five seconds" in shown
    assert (tmp_path / "report.svg").read_text().startswith("<svg ")
