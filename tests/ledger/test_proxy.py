"""The proxy between a node and PostgreSQL: what it holds is late, what it cuts is gone."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ledger.proxy import Proxy

SAID = b"select 1"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A proxy in front of a server that says again what it hears."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=_echo, args=(listener,))
        thread.start()
        with Proxy(path) as made:
            yield made
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def _echo(listener: socket.socket) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            connection, _ = listener.accept()
            with connection:
                while heard := connection.recv(4096):
                    connection.sendall(heard)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def heard(client: socket.socket) -> bytes:
    """What comes, up to the length of what was said; less at the end of the connection."""
    got = b""
    with suppress(ConnectionError):
        while len(got) < len(SAID) and (data := client.recv(4096)):
            got += data
    return got


def test_what_was_held_in_either_direction_comes_later(proxy: Proxy) -> None:
    with connect(proxy) as client:
        for to_database, to_node in ((True, False), (False, True), (True, True)):
            proxy.hold(to_database=to_database, to_node=to_node)
            client.sendall(SAID)
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            client.settimeout(30)
            proxy.heal()

            assert heard(client) == SAID


def test_a_cut_ends_every_connection_and_lets_nobody_in(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(SAID)
        assert heard(client) == SAID

        proxy.cut()

        assert heard(client) == b""
        with connect(proxy) as other:
            assert heard(other) == b""
    proxy.heal()
    with connect(proxy) as client:
        client.sendall(SAID)
        assert heard(client) == SAID


def test_what_is_slowed_comes(proxy: Proxy) -> None:
    proxy.slow(0.01)
    with connect(proxy) as client:
        client.sendall(SAID)

        assert heard(client) == SAID
