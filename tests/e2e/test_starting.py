"""How a start is from outside: connections at once, publishes once they can be kept, signals."""

# Subject: leadership

import itertools
import json
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from core.storage.postgres.embedded.directory import processes_in
from tests.e2e.test_commands import Process, request
from tests.support.best import best, runnable_seconds
from tests.support.dropin import DropIn
from tests.support.eventually import eventually
from tests.support.late import Watch, unless_late
from tests.support.pg import PostgresServer
from tests.support.scratch import scratch
from tests.support.sockets import receive_until

NAME = "jetgate-nats-server"
PLAIN = ("-a", "127.0.0.1", "-p", "-1")
_POINTS = 10
_MASKS = ("SigCgt", "SigIgn")
_BETWEEN = 2_000_000  # nanoseconds of a processor: Python needs some ten thousand
_START_S = 0.4  # so long a start takes at least, and says that it is one
STARTING = (503, "urn:jetgate:problem:starting")
_STREAM = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()


@pytest.fixture
def store() -> Iterator[Path]:
    """A store directory that is not there yet, in memory where there is room."""
    place = scratch("jetgate-start-")
    yield place / "store"
    shutil.rmtree(place)


def published(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b answers %d\r\n%b\r\n" % (subject, len(payload), payload)


@contextmanager
def connected(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=60) as client:
        said = client.recv(1 << 16)
        assert json.loads(said.removeprefix(b"INFO "))["jetstream"] is True
        yield client


def create_stream(client: socket.socket) -> None:
    client.sendall(b'CONNECT {"verbose":false}\r\nSUB answers 1\r\n')
    client.sendall(published(b"$JS.API.STREAM.CREATE.S", _STREAM))
    receive_until(client, b'"did_create":true')


def greeted(*arguments: str) -> float:
    """Seconds from its start until a client is greeted, on a processor of its own."""
    began = time.monotonic()
    with DropIn(NAME, *PLAIN, *arguments) as server, connected(server.address):
        return time.monotonic() - began - runnable_seconds(server.process.pid)


def greeted_by_dev(data: Path) -> float:
    """Seconds from its start until `jetgate dev` greets a client and says `starting` over HTTP.

    For ever, if we were so late to ask that it had started.
    """
    began = time.monotonic()
    with Process("dev", "--nats-port", "0", "--http-port", "0", data=data) as server:
        host, _, port = server.ports["nats"].removeprefix("nats://").partition(":")
        with connected((host, int(port))):
            status = status_of(server)
            assert status in (STARTING, (200, None))
            taken = time.monotonic() - began - runnable_seconds(server.pid)
            return taken if status == STARTING else float("inf")


def greeted_by_serve(dsn: str, data: Path) -> float:
    """Seconds from its start until `jetgate serve` greets a client, which is served."""
    began = time.monotonic()
    flags = ("--dsn", dsn, "--nats-port", "0", "--http-port", "0")
    with Process("serve", *flags, data=data) as server:
        host, _, port = server.ports["nats"].removeprefix("nats://").partition(":")
        with connected((host, int(port))) as client:
            taken = time.monotonic() - began - runnable_seconds(server.pid)
            assert status_of(server) in (STARTING, (200, None))
            create_stream(client)
            return taken


def status_of(server: Process) -> tuple[int, str | None]:
    status, body = request(server.ports, "GET", "/readyz")
    return status, json.loads(body).get("type")


def stored(store: str) -> float:
    """Seconds from its start until a publish is acknowledged."""
    began = time.monotonic()
    with DropIn(NAME, *PLAIN, "-js", "-sd", store) as server, connected(server.address) as client:
        create_stream(client)
        client.sendall(published(b"s.a", b"x"))
        receive_until(client, b'"seq":1')
        return time.monotonic() - began - runnable_seconds(server.process.pid)


@pytest.mark.quiet
def test_clients_are_accepted_before_there_is_storage(store: Path) -> None:
    numbers = iter(range(10))
    assert best(6, 0.4, lambda: greeted("-js", "-sd", str(store / str(next(numbers))))) < 0.4


@pytest.mark.quiet
def test_dev_accepts_clients_and_reports_that_it_is_starting_at_once(store: Path) -> None:
    numbers = iter(range(10))
    assert best(6, 0.4, lambda: greeted_by_dev(store / str(next(numbers)))) < 0.4


@pytest.mark.quiet
def test_serve_accepts_clients_before_it_has_loaded_what_it_leads(
    durable: PostgresServer, tmp_path: Path
) -> None:
    numbers = iter(range(10))

    def measure() -> float:
        return greeted_by_serve(durable.fresh_database(), tmp_path / str(next(numbers)))

    assert best(6, 0.4, measure) < 0.4


@pytest.mark.quiet
def test_the_first_publish_is_stored_soon(tmp_path_factory: pytest.TempPathFactory) -> None:
    place, numbers = tmp_path_factory.mktemp("stores"), iter(range(10))
    assert best(6, 1.2, lambda: stored(str(place / str(next(numbers))))) < 1.2


def test_publishes_before_jetstream_is_loaded_are_kept_in_order(store: Path) -> None:
    """The stream is there from an earlier life; this one is asked as soon as it accepts."""
    arguments = (*PLAIN, "-js", "-sd", str(store))
    with DropIn(NAME, *arguments) as server, connected(server.address) as client:
        create_stream(client)
    with DropIn(NAME, *arguments) as server, connected(server.address) as client:
        client.sendall(b'CONNECT {"verbose":false}\r\nSUB answers 1\r\nSUB s.> 2\r\nPING\r\n')
        receive_until(client, b"PONG\r\n")
        for number in range(1, 1001):
            client.sendall(published(b"s.a", b"%d" % number))
        client.sendall(b"PING\r\n")
        said = receive_until(client, b'"seq":1000')
    lines = said.split(b"\r\n")
    numbers = [b"%d" % number for number in range(1, 1001)]
    assert [line for line in lines if line.isdigit()] == numbers
    acks = [line for line in lines if b'"seq":' in line]
    assert [json.loads(ack)["seq"] for ack in acks if ack.endswith(b"}")][:999] == [*range(1, 1000)]
    assert lines.index(b"PONG") > lines.index(b"1000")


def test_a_start_answers_over_http_that_it_is_one(store: Path) -> None:
    places = (store / str(number) for number in itertools.count())

    def attempt(watch: Watch) -> None:
        with Process("dev", "--nats-port", "0", "--http-port", "0", data=next(places)) as server:
            with watch.within(_START_S):
                status = status_of(server)
            assert request(server.ports, "GET", "/v1/streams")[0] == 200  # waits for it
            assert request(server.ports, "GET", "/readyz")[0] == 200
            assert status == STARTING

    unless_late(attempt)


def _is_ended(data: Path) -> bool:
    return processes_in(data) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)]
)
def test_a_signal_ends_a_start_at_once(store: Path, number: signal.Signals) -> None:
    """Whenever it comes; with the words of the reference server, and nothing is left."""
    took = stored(str(store / "measured"))
    for point in range(_POINTS):
        place = store / str(point)
        with DropIn(NAME, *PLAIN, "-js", "-sd", str(place)) as server:
            eventually(OurCode(server.process.pid).runs, every=0.001)
            threading.Event().wait(point / _POINTS * took)
            server.send(number)
            code, texts = server.end(10), server.texts()
            assert "Traceback" not in server.log()
            assert not server.ports_file.exists()
        if code == -number:  # there was nothing to shut down yet
            assert not any("Trapped" in text for text in texts), texts
        else:
            word = "interrupt" if number == signal.SIGINT else "terminated"
            assert code == 0
            assert [text for text in texts if text.startswith("[INF] Trapped")] == [
                f'[INF] Trapped "{word}" signal'
            ]
            assert texts[-1] == "[INF] Server Exiting.."
        eventually(partial(_is_ended, place / "jetstream" / "pg"))
        assert list(place.glob("jetstream/pg.new-*")) == []


class OurCode:
    """Whether Python runs the command yet: it ignores broken pipes, but catches no interrupts.

    Python itself looks like that for a moment, before it catches interrupts for its own start. So
    the process must still look like that after more computing than lies between the two.
    """

    def __init__(self, pid: int) -> None:
        self._place = Path(f"/proc/{pid}")
        self._seen_at: int | None = None

    def runs(self) -> bool:
        try:
            status = (self._place / "status").read_text()
            computed = int((self._place / "schedstat").read_text().split()[0])
        except OSError:
            return True
        caught, ignored = (int(status.partition(f"{name}:")[2].split()[0], 16) for name in _MASKS)
        if caught & _bit(signal.SIGTERM):  # it has already taken the signals over
            return True
        if caught & _bit(signal.SIGINT) or not ignored & _bit(signal.SIGPIPE):
            self._seen_at = None
        elif self._seen_at is None:
            self._seen_at = computed
        return self._seen_at is not None and computed - self._seen_at > _BETWEEN


def _bit(number: signal.Signals) -> int:
    return 1 << (number - 1)


@pytest.mark.thorough
def test_twenty_starts_and_kills_at_once(store: Path) -> None:
    def start_and_kill(number: int) -> None:
        place = store / str(number)
        arguments = (*PLAIN, "-js", "-sd", str(place))
        with DropIn(NAME, *arguments) as server, connected(server.address) as client:
            create_stream(client)
            client.sendall(published(b"s.a", b"x"))
            receive_until(client, b'"seq":1')
            server.send(signal.SIGKILL)
            server.end()
            # With twenty of them on two cores, the last one may be killed before it has had a turn
            # to end (`test_kill` removes the directory at once).
            eventually(partial(_is_ended, place / "jetstream" / "pg"))
            shutil.rmtree(place)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(start_and_kill, range(20)))
