"""What a client takes for a NATS server, and how long it waits for its first word."""

# Subject: Spark rows

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.errors import Disconnected, ProtocolError, Rejected
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.nats_options import nats_settings
from pyspark_jetstream.transport.errors import JetStreamError, NotReachable
from pyspark_jetstream.transport.nats import NatsTransport
from pyspark_jetstream.values import Values


def nothing(_: socket.socket) -> None:
    """A server that hangs."""


def http(client: socket.socket) -> None:
    if client.recv(100).startswith(b"GET "):
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def at_once(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")


def banner(client: socket.socket) -> None:
    client.sendall(b"Hello, this is mail\r\n")


def endless(client: socket.socket) -> None:
    while True:
        client.sendall(b"x" * 1000)


def slow(client: socket.socket) -> None:
    client.settimeout(0.05)
    for _ in range(100):
        client.sendall(b"I")
        with suppress(TimeoutError):
            if not client.recv(1024):
                return  # the client has given up


def no_object(client: socket.socket) -> None:
    client.sendall(b"INFO [1]\r\n")


@contextmanager
def listening(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that says what a test has it say to each client."""
    clients: list[socket.socket] = []

    def serve(client: socket.socket) -> None:
        with suppress(OSError):
            speak(client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                clients.append(client)
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    for client in clients:
        client.close()


@pytest.mark.parametrize("speak", [http, at_once])
def test_a_server_of_http_is_reported_by_name(speak: Callable[[socket.socket], None]) -> None:
    with listening(speak) as server:
        settings = nats_settings(Values({"servers": server}), 60.0)
        assert settings is not None
        begun = time.monotonic()
        with pytest.raises(JetStreamError, match="answers HTTP, expected a NATS server"):
            NatsTransport(settings).head("S")
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("speak", "wording"),
    [(banner, "began with b'Hello, this is mail"), (endless, "began with b'xxx")],
)
def test_another_server_is_recognized_by_its_first_bytes(
    speak: Callable[[socket.socket], None], wording: str
) -> None:
    with (
        listening(speak) as server,
        pytest.raises(Rejected, match=f"is no NATS server: it {wording}"),
    ):
        Connection(Settings((server,)))


@pytest.mark.parametrize("retries", [{}, {"retries": "0"}])
@pytest.mark.parametrize("speak", [nothing, slow])
def test_a_silent_server_takes_no_longer_than_the_timeout(
    speak: Callable[[socket.socket], None], retries: dict[str, str]
) -> None:
    with listening(speak) as server:
        settings = nats_settings(Values({"servers": server, **retries}), 1.5)
        assert settings is not None
        begun = time.monotonic()
        with pytest.raises(
            NotReachable, match=r"has sent no INFO in time: it hangs, or is no NATS"
        ):
            NatsTransport(settings).head("S")
        assert time.monotonic() - begun < 4


def test_servers_share_the_time_that_is_left() -> None:
    with listening(nothing) as one, listening(nothing) as other:
        begun = time.monotonic()
        with pytest.raises(Disconnected) as caught:
            Connection(Settings((one, other)), 1.0)
        assert time.monotonic() - begun < 3
    assert str(caught.value).count("has sent no INFO in time") == 2


def test_an_info_that_is_no_object_is_an_error_of_the_protocol() -> None:
    with listening(no_object) as server, pytest.raises(ProtocolError, match="without a JSON obj"):
        Connection(Settings((server,)))
