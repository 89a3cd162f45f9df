"""The commands as a stranger runs them: real processes, real signals."""

# Subject: leadership, configuration

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import core
from core.storage.postgres.embedded.directory import processes_in
from tests.support.best import best
from tests.support.eventually import eventually
from tests.support.pg import PostgresServer
from tests.support.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """A `jetgate` command in the background.

    Args:
        descriptors: how many it may have (0: as we do).
        clock: seconds by which its machine's clock is ahead.
    """

    def __init__(self, *arguments: str, data: Path, descriptors: int = 0, clock: int = 0) -> None:
        self.data = data
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        limited = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"] if descriptors else []
        self._process = subprocess.Popen(
            [*limited, sys.executable, "-m", *_program(clock), *arguments, "--data", str(data)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.communicate()
        self._log.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ports(self) -> dict[str, str]:
        """The addresses, once the server says that it accepts."""

        def read() -> dict[str, str] | None:
            assert self._process.poll() is None, self.stderr()
            try:
                return dict(json.loads((self.data / "ports.json").read_text()))
            except FileNotFoundError:
                return None

        found = eventually(read, within=120)
        assert found is not None
        return found

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for the end; the exit code and what was printed."""
        printed, _ = self._process.communicate(timeout=60)
        return self._process.returncode, printed

    def stderr(self) -> str:
        # Without a seek: the process writes through the same file, at the same place in it.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")


def _program(clock: int) -> list[str]:
    return ["tests.support.wrong_clock", str(clock)] if clock else ["jetgate"]


def run(*arguments: str, clock: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *_program(clock), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )


def request(ports: dict[str, str], method: str, path: str, body: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection(ports["http"].removeprefix("http://"), timeout=60)
    try:
        kind = {"Content-Type": "application/json"} if body.startswith("{") else {}
        connection.request(method, path, body or None, kind)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def greeting(ports: dict[str, str]) -> bytes:
    host, _, port = ports["nats"].removeprefix("nats://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        return connection.recv(5)


@pytest.fixture
def data() -> Iterator[Path]:
    place = scratch("jetgate-e2e-")
    yield place / "data"
    # PostgreSQL follows a killed process at once, but not within the same instant.
    eventually(lambda: not processes_in(place / "data" / "pg"), within=60)
    shutil.rmtree(place)


def dev(data: Path, *, nats: int = 0, http_port: int = 0) -> Process:
    return Process("dev", "--nats-port", str(nats), "--http-port", str(http_port), data=data)


def serve(dsn: str, data: Path, *, clock: int = 0) -> Process:
    ports = "--nats-port", "0", "--http-port", "0"
    return Process("serve", "--dsn", dsn, *ports, data=data, clock=clock)


def test_dev_serves_stops_in_good_order_and_keeps_messages(data: Path) -> None:
    with dev(data) as process:
        ports = process.ports
        assert greeting(ports) == b"INFO "
        assert request(ports, "GET", "/healthz")[0] == 200
        created = request(ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert created[0] in (200, 201), created
        assert request(ports, "POST", "/v1/subjects/s.1", "hello")[0] == 201

        process.send(signal.SIGINT)
        code, printed = process.end()

        assert code == 0
        assert ports["nats"] in printed
        assert ports["http"] in printed
        assert not (data / "ports.json").exists()

    with dev(data) as process:
        _, stream = request(process.ports, "GET", "/v1/streams/S")
        assert json.loads(stream)["state"]["messages"] == 1
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0


def test_dev_finds_everything_after_kill_9(data: Path) -> None:
    with dev(data) as process:
        ports = process.ports
        request(ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert request(ports, "POST", "/v1/subjects/s.1", "hello")[0] == 201
        process.send(signal.SIGKILL)
        process.end()
    (data / "ports.json").unlink()

    with dev(data) as process:
        _, stream = request(process.ports, "GET", "/v1/streams/S")
        assert json.loads(stream)["state"]["messages"] == 1


def test_a_directory_in_use_is_one_line_and_exit_code_1(data: Path) -> None:
    with dev(data) as first:
        ports = first.ports
        with dev(data) as second:
            code, _ = second.end()

            assert code == 1
            [line] = second.stderr().splitlines()
            assert line.startswith(f"jetgate: data directory {data} is in use by another jetgate")
            assert greeting(ports) == b"INFO "


@pytest.mark.parametrize("which", ["nats", "http"])
def test_a_port_that_is_taken_is_one_line_and_exit_code_1(data: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"nats": 0, "http_port": 0} | {"http_port" if which == "http" else which: port}

        with dev(data, **ports) as process:
            code, _ = process.end()

            assert code == 1
            [line] = process.stderr().splitlines()
            assert line.startswith(
                f"jetgate: cannot listen for {which.upper()} on 127.0.0.1:{port}"
            )
            flag = f"--{which}-port"
            assert line.endswith(f"address already in use (another port: {flag}; any: 0)")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--dsn", "postgresql://u:secret@127.0.0.1:1/db"], "connection refused"),
        (["migrate", "--dsn", "postgresql://u:secret@127.0.0.1:1/db"], "connection refused"),
        (["dev", "--data", "/dev/null/x"], "cannot use data directory /dev/null/x"),
        (["dev", "--host", "192.0.2.1"], "on 192.0.2.1:4222: cannot assign requested address ("),
        (["dev", "--host", "192.0.2.1"], "(another address: --host)"),
        (["serve", "--dsn", ""], "--dsn: expected postgresql://user@host:port/name, or host="),
        (["serve", "--dsn", "mysql://h/d"], "--dsn: expected postgresql://"),
        (["migrate", "--dsn", "postgresql://h:port/d"], "--dsn: port: expected a number"),
        (["dev", "--data", ""], "--data: is empty, expected a directory"),
        (["dev", "--http-port", "4222"], "--http-port: 4222 is the NATS port already"),
    ],
)
def test_failure_to_start_is_one_line_and_exit_code_1(arguments: list[str], words: str) -> None:
    has_ports = arguments[1:3] == ["--data", "/dev/null/x"] or arguments[0] == "serve"
    ports = ["--nats-port", "0"] if has_ports else []
    ports += ["--http-port", "0"] if ports else []

    ended = run(*arguments, *ports)

    assert ended.returncode == 1
    *before, line = ended.stderr.splitlines()
    assert all(line.endswith("shows the value of --dsn: use --dsn-file") for line in before)
    assert line.startswith("jetgate: ")
    assert words in line
    assert "secret" not in line
    assert ended.stdout == ""


@pytest.mark.parametrize(
    "arguments", [["serve"], ["dev", "--nats-port", "x"], ["no-such-command"], ["dev", "--nope"]]
)
def test_wrong_use_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


def test_serve_refuses_a_database_that_is_not_durable(postgres: PostgresServer, data: Path) -> None:
    with serve(postgres.fresh_database(migrated=False), data) as process:
        code, _ = process.end()

        assert code == 1
        [line] = process.stderr().splitlines()
        assert "fsync is off, expected on" in line


def test_version_and_help_list_the_commands() -> None:
    assert f"jetgate {core.__version__}" in run("--version").stdout
    assert "jetgate dev" in run("--help").stdout
    assert "Example" in run("dev", "--help").stdout


def test_migrate_reports_its_changes(durable: PostgresServer) -> None:
    dsn = durable.fresh_database(migrated=False)

    first, second = run("migrate", "--dsn", dsn), run("migrate", "--dsn", dsn)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "is now at revision" in first.stdout
    assert "was already at revision" in second.stdout


def _gone(data: Path) -> float:
    """Seconds from Ctrl-C until `jetgate dev` has ended."""
    with dev(data) as process:
        assert greeting(process.ports) == b"INFO "
        began = time.monotonic()
        process.send(signal.SIGINT)
        assert process.end()[0] == 0
        return time.monotonic() - began


def test_dev_is_gone_soon(data: Path) -> None:
    assert best(4, 2, lambda: _gone(data)) < 2


@pytest.mark.parametrize(
    "fate",
    [signal.SIGKILL, signal.SIGTERM, pytest.param(signal.SIGSTOP, marks=pytest.mark.thorough)],
)
def test_another_node_takes_over(
    durable: PostgresServer, tmp_path: Path, fate: signal.Signals
) -> None:
    limit = 8 if fate is signal.SIGSTOP else 5
    places = (tmp_path / str(number) for number in range(3))
    assert best(3, limit, lambda: _taken_over(durable, next(places), fate)) < limit


def _taken_over(durable: PostgresServer, place: Path, fate: signal.Signals) -> float:
    """Seconds from the end of the leader until another node answers in its place."""
    dsn = durable.fresh_database()
    second_data = place / "second"
    with serve(dsn, place / "first") as first:
        request(first.ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        assert request(first.ports, "POST", "/v1/subjects/s.1", "hello")[0] == 201
        with serve(dsn, second_data) as second:
            eventually(lambda: "all streams are led" in second.stderr(), within=60)
            began = time.monotonic()
            first.send(fate)

            def state() -> Any:
                return json.loads(request(second.ports, "GET", "/v1/streams/S")[1]).get("state")

            found = eventually(state, within=60)  # who was stopped answers nothing
            taken = time.monotonic() - began
            assert found["messages"] == 1
            assert request(second.ports, "POST", "/v1/subjects/s.2", "again")[0] == 201
            if fate is signal.SIGSTOP:
                _a_deposed_leader_goes_on(first)
            return taken


def _a_deposed_leader_goes_on(first: Process) -> None:
    first.send(signal.SIGCONT)
    eventually(lambda: "lease groups are lost" in first.stderr(), within=60)
    eventually(lambda: request(first.ports, "GET", "/readyz")[0] == 200, within=60)


def test_serving_goes_on_when_postgres_was_killed(data: Path) -> None:
    with dev(data) as process:
        ports = process.ports
        request(ports, "PUT", "/v1/streams/S", '{"subjects": ["s.>"]}')
        pid = int((data / "pg" / "postmaster.pid").read_text().splitlines()[0])

        os.kill(pid, signal.SIGKILL)

        eventually(lambda: request(ports, "POST", "/v1/subjects/s.1", "hello")[0] == 201, within=60)
        assert process.ports == ports
