"""What an operator sees when something goes wrong: probes, metrics, the log."""

# Subject: operations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.storage.postgres.locks import LEASE_GROUPS
from core.storage.postgres.preflight import VERSIONS
from tests.e2e.test_commands import Process, request
from tests.support.best import best
from tests.support.eventually import eventually
from tests.support.jetgate import _descendants
from tests.support.pg import PostgresServer
from tests.support.pg_versions import find

ANY = ("--nats-port", "0", "--http-port", "0")
PAYLOAD = "x" * 100_000


@pytest.fixture(
    scope="module", params=[pytest.param(VERSIONS[0], marks=pytest.mark.thorough), VERSIONS[-1]]
)
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A durable PostgreSQL that tests may stop: the oldest, or the wheel's, and the newest."""
    with PostgresServer(installation=find(request.param), settings={"fsync": "on"}) as server:
        yield server


def serve(dsn: str, data: Path, *flags: str, descriptors: int = 0) -> Process:
    return Process("serve", "--dsn", dsn, *ANY, *flags, data=data, descriptors=descriptors)


def metrics(ports: dict[str, str]) -> dict[str, float]:
    """The values of what has no labels, and of what has by `name{value,...}`."""
    status, text = request(ports, "GET", "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values = ",".join(sample.labels.values())
            found[f"{sample.name}{{{values}}}" if values else sample.name] = sample.value
    return found


def is_ready(ports: dict[str, str]) -> bool:
    return request(ports, "GET", "/readyz")[0] == 200


def why_not(ports: dict[str, str]) -> str:
    """Why it is not ready; empty while it is."""
    status, body = request(ports, "GET", "/readyz")
    return "" if status == 200 else str(json.loads(body)["detail"])


def nats(ports: dict[str, str]) -> socket.socket:
    host, _, port = ports["nats"].removeprefix("nats://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def create_and_publish(ports: dict[str, str]) -> None:
    assert request(ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')[0] in (200, 201)
    assert request(ports, "POST", "/v1/subjects/s.1", "hello")[0] == 201


def lines(process: Process) -> list[str]:
    """The log: each line has a time and a level."""
    found = process.stderr().splitlines()
    assert all(line[:4].isdigit() and line[10] == "T" and line[23:25] == "Z " for line in found)
    return found


def about(process: Process, text: str) -> list[str]:
    return [line for line in lines(process) if text in line]


@contextlib.contextmanager
def stalled(server: PostgresServer) -> Iterator[None]:
    """Hold every process of PostgreSQL."""
    assert server.server.pid is not None
    held = [server.server.pid, *_descendants(server.server.pid)]

    def send(number: signal.Signals) -> None:
        for pid in held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    send(signal.SIGSTOP)
    try:
        yield
    finally:
        send(signal.SIGCONT)


def test_a_stalled_postgresql_is_seen_within_three_seconds(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with serve(postgres.fresh_database(), tmp_path) as process:
        ports = process.ports
        create_and_publish(ports)
        before = metrics(ports)

        def seen() -> float:
            eventually(lambda: is_ready(ports))
            with stalled(postgres):
                began = time.monotonic()
                why = eventually(lambda: why_not(ports))
                taken = time.monotonic() - began
                assert "nothing can be stored: " in why
                assert request(ports, "GET", "/healthz")[0] == 200
                now = metrics(ports)
                assert now["jetgate_storage_up"] == 0
                assert now["jetgate_storage_outage_seconds_total"] >= 0
            return taken

        assert best(3, 3, seen) < 3
        eventually(lambda: is_ready(ports))
        after = metrics(ports)
        assert (before["jetgate_storage_up"], before["jetgate_leader"]) == (1, 1)
        assert before["jetgate_last_commit_age_seconds"] >= 0
        assert before["jetgate_storage_outages_total"] == 0
        assert after["jetgate_storage_up"] == 1
        assert after["jetgate_storage_outages_total"] >= 1
        assert after["jetgate_storage_outage_seconds_total"] > 0


def test_an_outage_is_a_line_when_it_begins_and_one_when_it_ends(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with serve(postgres.fresh_database(), tmp_path) as process:
        ports = process.ports
        create_and_publish(ports)
        eventually(lambda: is_ready(ports))
        quiet = len(lines(process))

        postgres.run(postgres.server.stop())
        try:
            assert eventually(lambda: why_not(ports))
            with nats(ports) as client:  # held until storage is back; who comes next is refused
                client.sendall(b"PUB s.1 4\r\nheld\r\nPING\r\n")
                eventually(lambda: b"PONG" in client.recv(4096))
                assert request(ports, "POST", "/v1/subjects/s.1", "refused")[0] == 503
        finally:
            postgres.start()
        eventually(lambda: is_ready(ports), within=60)

        assert request(ports, "POST", "/v1/subjects/s.1", "again")[0] == 201
        said = [line for line in lines(process)[quiet:] if "event loop" not in line]
        assert len(said) == 2, said
        assert " ERROR   storage outage begins: " in said[0]
        assert " WARNING storage outage ends after " in said[1]
        found = metrics(ports)
        assert found["jetgate_refused_msgs_total{10008,cluster-not-avail}"] >= 1
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0
        assert [line[25:] for line in lines(process)[-2:]] == [
            "INFO    stopping (SIGTERM)",
            "INFO    stopped",
        ]


@pytest.fixture
def small(postgres: PostgresServer) -> Iterator[Path]:
    """A file system of 48 MB that PostgreSQL may write."""
    place = Path(mkdtemp(prefix="jetgate-small-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", place], check=False
    )
    if mounted.returncode:
        place.rmdir()
        pytest.skip("needs root: sudo pytest ...")
    owner = postgres.server.data.stat()
    (place / "data").mkdir()
    shutil.chown(place / "data", owner.st_uid, owner.st_gid)
    place.chmod(0o755)
    yield place
    subprocess.run(["umount", "-l", place], check=True)
    place.rmdir()


def test_a_full_disk_is_an_outage_until_there_is_room(
    postgres: PostgresServer, small: Path, tmp_path: Path
) -> None:
    postgres.execute(f"create tablespace small location '{small}/data'")
    dsn = postgres.fresh_database(tablespace="small")
    with serve(dsn, tmp_path) as process:
        ports = process.ports
        create_and_publish(ports)
        eventually(lambda: is_ready(ports))

        def refused() -> bool:
            return request(ports, "POST", "/v1/subjects/s.1", PAYLOAD)[0] != 201

        with (small / "filler").open("wb") as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 16))
                filler.flush()
        eventually(refused)
        assert "No space left on device" in why_not(ports)
        assert metrics(ports)["jetgate_storage_up"] == 0
        assert metrics(ports)["jetgate_commit_failures_total"] >= 1

        (small / "filler").unlink()

        eventually(lambda: is_ready(ports))
        assert not refused()
        [begin] = about(process, "storage outage begins")
        assert "No space left on device" in begin
        assert len(about(process, "storage outage ends")) == 1
    postgres.drop(dsn)
    postgres.execute("drop tablespace small")


def test_a_node_that_does_not_lead_the_directory_has_probes_and_metrics(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    dsn = postgres.fresh_database()
    with serve(dsn, tmp_path / "first") as first:
        eventually(lambda: is_ready(first.ports))
        with serve(dsn, tmp_path / "second") as second:
            eventually(lambda: "all streams are led" in second.stderr())

            def shared() -> list[dict[str, float]]:
                """What both say once the second one has been handed its part, maybe the directory.

                That is some seconds after it came.
                """
                told = [metrics(each.ports) for each in (first, second)]
                groups = [each["jetgate_lease_groups"] for each in told]
                assert sum(groups) == LEASE_GROUPS, groups
                assert max(groups) < 0.6 * LEASE_GROUPS, groups
                assert all(each["jetgate_has_leader"] == 1 for each in told)
                return told

            told = eventually(shared, within=60)
            assert sorted(each["jetgate_leader"] for each in told) == [0, 1]
            [(follower, found)] = [
                (node, each)
                for node, each in zip((first, second), told, strict=True)
                if not each["jetgate_leader"]
            ]
            assert request(follower.ports, "GET", "/healthz")[0] == 200
            eventually(lambda: is_ready(follower.ports))
            assert (found["jetgate_storage_up"], found["jetgate_links"]) == (1, 1)
            assert found["process_open_fds"] > 0
        line = about(first, "serving as ")[0]
        assert f"serving as {socket.gethostname()}-" in line
        assert first.ports["nats"] in line
        assert first.ports["http"] in line
    postgres.drop(dsn)


def test_metrics_of_a_node_that_does_not_lead_ask_for_credentials(
    durable: PostgresServer, tmp_path: Path
) -> None:
    dsn = durable.fresh_database()
    users = ("--user", "u", "--pass", "pw")
    with serve(dsn, tmp_path / "first", *users) as first:
        assert first.ports
        with serve(dsn, tmp_path / "second", *users) as second:
            eventually(lambda: "all streams are led" in second.stderr())
            assert request(second.ports, "GET", "/healthz")[0] == 200
            assert request(second.ports, "GET", "/metrics")[0] == 401


def test_out_of_descriptors_clients_are_refused_and_probes_answered(
    durable: PostgresServer, tmp_path: Path
) -> None:
    with serve(durable.fresh_database(), tmp_path, descriptors=128) as process:
        ports = process.ports
        create_and_publish(ports)
        with contextlib.ExitStack() as stack:
            refused = 0
            for _ in range(150):
                client = stack.enter_context(nats(ports))
                said = client.makefile("rb")
                stack.callback(said.close)
                assert said.readline().startswith(b"INFO {")
                client.sendall(b"PING\r\n")
                answer = said.readline()
                assert answer in (b"PONG\r\n", b"-ERR 'maximum connections exceeded'\r\n")
                refused += answer != b"PONG\r\n"
            assert 50 < refused < 150
            assert request(ports, "GET", "/healthz")[0] == 200
            assert is_ready(ports)
            assert request(ports, "POST", "/v1/subjects/s.1", "more")[0] == 201
            found = metrics(ports)
            assert found["jetgate_refused_connections_total"] == refused
            assert found["process_max_fds"] == 128
            assert found["process_open_fds"] > 90
            [line] = about(process, "descriptors")
            assert "ulimit -n 128" in line
            durable.run(durable.server.stop())  # every session with it is opened anew
            durable.start()
            eventually(lambda: request(ports, "POST", "/v1/subjects/s.1", "again")[0] == 201)
            eventually(lambda: is_ready(ports))
        eventually(lambda: metrics(ports)["jetgate_connections"] < 20)
        with nats(ports) as client:
            client.sendall(b"PING\r\n")
            eventually(lambda: b"PONG" in client.recv(4096))


def test_the_log_in_json_names_the_user_that_failed_to_authenticate(
    durable: PostgresServer, tmp_path: Path
) -> None:
    flags = ("--user", "u", "--pass", "right-secret", "--log-format", "json")
    with serve(durable.fresh_database(), tmp_path, *flags) as process:
        with nats(process.ports) as client:
            mallory = ":".join(map(str, client.getsockname()))
            client.sendall(b'CONNECT {"user":"mallory","pass":"wrong-secret"}\r\nPING\r\n')
            with client.makefile("rb") as said:
                assert b"-ERR 'Authorization Violation'\r\n" in said.read()
        with nats(process.ports) as client:
            bad = ":".join(map(str, client.getsockname()))
            client.sendall(b'CONNECT {"user":"u","pass":"right-secret"}\r\nNONSENSE\r\n')
            with client.makefile("rb") as said:
                said.read()
        url = process.ports["http"].replace("http://", "http://eve:wrong-secret@")
        asked = subprocess.run(["curl", "-s", "-o", "/dev/null", f"{url}/v1/streams"], check=False)
        assert asked.returncode == 0

        def failures() -> list[dict[str, str]]:
            events = [json.loads(line) for line in process.stderr().splitlines()]
            assert all(event["time"].endswith("Z") and event["level"] for event in events)
            found = [event for event in events if "client" in event]
            return found if len(found) == 3 else []

        first, second, third = eventually(failures)
        assert (first["client"], first["user"], first["level"]) == (mallory, "mallory", "warning")
        assert (second["client"], second["reason"]) == (bad, "Protocol Violation")
        assert (third["client"], third["user"]) == ("127.0.0.1", "eve")
        assert "secret" not in process.stderr()
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0
        assert json.loads(process.stderr().splitlines()[-1])["message"] == "stopped"


def test_a_level_leaves_out_what_is_below_it(durable: PostgresServer, tmp_path: Path) -> None:
    with serve(durable.fresh_database(), tmp_path, "--log-level", "error") as process:
        eventually(lambda: is_ready(process.ports))
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0
        assert process.stderr() == ""
