"""What a peer has not taken, as the kernel tells it."""

# Subject: protocol

import asyncio
import socket

from core.runtime.sockets import untaken
from tests.support.eventually import observed

_SIZE = 16 << 20


def _read_all(peer: socket.socket) -> int:
    taken = 0
    while taken < _SIZE and (data := peer.recv(1 << 20)):
        taken += len(data)
    return taken


def test_a_port_that_the_kernel_holds_is_not_taken() -> None:
    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            transport, _ = await loop.create_connection(asyncio.Protocol, *listening.getsockname())
            peer, _ = listening.accept()
        with peer:
            transport.write(bytes(_SIZE))
            await observed(lambda: untaken(transport) > transport.get_write_buffer_size() > 0)
            taken = await asyncio.to_thread(_read_all, peer)
            await observed(lambda: untaken(transport) == 0)
            transport.abort()
            return taken

    assert asyncio.run(scenario()) == _SIZE
