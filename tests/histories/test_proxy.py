"""The proxies around a node: held data arrives later, a cut closes connections."""

# Subject: tests

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.histories.proxy import Proxy, RouteProxy
from tests.support.sockets import has_port

LINES = b"select 1"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """Yield a proxy in front of a server that echoes all data."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        with serving(listener), Proxy(path) as made:
            yield made


@contextmanager
def serving(listener: socket.socket) -> Iterator[None]:
    """Echo all data that arrives at a listener."""
    listener.listen()
    thread = threading.Thread(target=_echo, args=(listener,))
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def _echo(listener: socket.socket) -> None:
    with ThreadPoolExecutor(4) as pool, suppress(OSError):  # until the listener is closed
        while True:
            connection, _ = listener.accept()
            pool.submit(_answer, connection)


def _answer(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while fields := connection.recv(4096):
            connection.sendall(fields)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def heard(client: socket.socket) -> bytes:
    """Return the received bytes, up to the length of `SAID`; fewer at the end of the connection."""
    got = b""
    with suppress(ConnectionError):
        while len(got) < len(LINES) and (data := client.recv(4096)):
            got += data
    return got


def test_bytes_held_in_either_direction_come_later(proxy: Proxy) -> None:
    with connect(proxy) as client:
        for to_database, to_node in ((True, False), (False, True), (True, True)):
            proxy.hold(to_database=to_database, to_node=to_node)
            client.sendall(LINES)
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            client.settimeout(30)
            proxy.heal()

            assert heard(client) == LINES


def test_a_cut_ends_every_connection_and_refuses_new_ones(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(LINES)
        assert heard(client) == LINES

        proxy.disconnect()

        assert heard(client) == b""
        with connect(proxy) as other:
            assert heard(other) == b""
    proxy.heal()
    with connect(proxy) as client:
        client.sendall(LINES)
        assert heard(client) == LINES


def test_slowed_bytes_arrive(proxy: Proxy) -> None:
    proxy.slow(0.01)
    with connect(proxy) as client:
        client.sendall(LINES)

        assert heard(client) == LINES


def test_a_fault_of_one_peer_of_a_node_leaves_the_others_alone() -> None:
    peers: dict[int, str] = {}
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        stack.enter_context(serving(listener))
        routes = stack.enter_context(RouteProxy(listener.getsockname()[1], peers.get))
        one, other, stranger = (stack.enter_context(socket.socket()) for _ in range(3))
        for client, name in ((one, "one"), (other, "other"), (stranger, "")):
            client.settimeout(30)
            client.bind(("127.0.0.1", 0))
            if name:
                peers[client.getsockname()[1]] = name
            client.connect(("127.0.0.1", routes.port))

        assert heard(stranger) == b""
        for to_peer, from_peer in ((True, False), (False, True)):
            routes.hold("one", to_peer=to_peer, from_peer=from_peer)
            for client in (one, other):
                client.sendall(LINES)
            assert heard(other) == LINES
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
            one.settimeout(30)
            routes.heal("one")
            assert heard(one) == LINES
        routes.disconnect("one")
        assert heard(one) == b""
        other.sendall(LINES)
        assert heard(other) == LINES


def test_the_process_of_a_connection_is_known_by_its_port() -> None:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        port = own.getsockname()[1]
        assert has_port(os.getpid(), port)
        assert not has_port(os.getppid(), port)
    assert not has_port(os.getpid(), port)
