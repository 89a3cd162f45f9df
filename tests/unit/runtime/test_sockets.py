"""What transports do not tell, over real sockets."""

# Subject: costs

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from core.runtime.sockets import end_writing

_RESET = struct.pack("ii", 1, 0)
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


class Server(asyncio.Protocol):
    """The accepted end of a connection."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@LOOPS
@pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "open"])
def test_the_end_of_writing_reaches_a_peer_that_is_there_and_fails_for_none(
    new_loop: Callable[[], Any], is_reset: bool
) -> None:
    failed: list[Any] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failed.append(context))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            peer = socket.create_connection(listening.getsockname(), timeout=10)
            accepted, _ = listening.accept()
        accepted.setblocking(False)
        transport, server = await loop.connect_accepted_socket(Server, accepted)
        if is_reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            peer.close()
        end_writing(transport)  # before the loop has looked at the socket
        if not is_reset:
            assert await loop.run_in_executor(None, peer.recv, 1) == b""
            peer.close()
        await asyncio.wait_for(server.lost.wait(), 10)
        end_writing(transport)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
    assert failed == []
