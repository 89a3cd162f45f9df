"""Sockets that listen on all addresses, with IPv6 and without."""

# Subject: protocol

import asyncio
import errno
import socket
from typing import Any

import pytest

from core.config.addresses import listen, probe
from core.errors import OperatorError
from core.runtime.listening import bound_socket, listening_socket, unmapped


@pytest.mark.parametrize("reason", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_all_addresses_are_those_of_ipv4(
    reason: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.socket

    def without(family: int = socket.AF_INET, *rest: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(reason, "no IPv6")
        return real(family, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", without)
        with listening_socket("0.0.0.0", 0, 1) as found:
            assert found.family == socket.AF_INET
            assert found.getsockname()[0] == "0.0.0.0"
        with pytest.raises(OSError, match="no IPv6"):
            listening_socket("::", 0, 1)


def test_small_writes_are_sent_at_once_on_the_loop_of_asyncio_too() -> None:
    """What follows another write at once would wait for 40 ms: the peer delays its ACK as long."""

    async def accept() -> None:
        found: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

        async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket"))
            writer.close()

        with listening_socket("127.0.0.1", 0, 1) as listening:
            async with await asyncio.start_server(take, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname())
                sock = await found
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                writer.close()

    asyncio.run(accept())


def test_a_port_that_is_taken_is_not_taken_for_want_of_ipv6() -> None:
    with (
        listening_socket("0.0.0.0", 0, 1) as first,
        pytest.raises(OSError, match="in use") as refused,
    ):
        listening_socket("0.0.0.0", first.getsockname()[1], 1)

    assert refused.value.errno == errno.EADDRINUSE


def test_a_peer_over_ipv4_is_identified_by_its_own_address() -> None:
    assert unmapped("::ffff:10.1.2.3") == "10.1.2.3"
    assert unmapped("10.1.2.3") == "10.1.2.3"
    assert unmapped("::ffff:a") == "::ffff:a"


def test_a_probe_accepts_no_connection() -> None:
    """A client that tries until it is accepted would be reset with a port that is closed again."""
    with bound_socket("127.0.0.1", 0) as bound, pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.getsockname())


def test_a_probe_fails_as_listening_would() -> None:
    with listen("127.0.0.1", 0, "NATS") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OperatorError) as listening:
            listen("127.0.0.1", port, "NATS")
        with pytest.raises(OperatorError) as probing:
            probe("127.0.0.1", port, "NATS")
    assert str(probing.value) == str(listening.value)
    probe("127.0.0.1", port, "NATS")
