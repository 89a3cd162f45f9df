"""An HTTP server whose only route does nothing: the cost of uvicorn and Starlette themselves."""

import socket
import subprocess
import sys
from typing import Self

from bench.wire import Address
from tests.support.eventually import eventually

_EMPTY = """
import socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from gateway.http.protocol import HttpProtocol

async def empty(request):
    return Response(b"ok\\n")

app = Starlette(routes=[Route("/", empty, methods=["GET", "POST", "PUT"])])
config = uvicorn.Config(app, log_level="error", access_log=False, ws="none", lifespan="off",
                        server_header=False, http=HttpProtocol, loop="uvloop")
uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""


class EmptyRoute:
    """The HTTP server in a process of its own; it ignores the contents of requests."""

    def __init__(self) -> None:
        self.address: Address = ("127.0.0.1", 0)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def http(self) -> Address:
        """Address of the HTTP port; other servers have an attribute of the same name."""
        return self.address

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    def restart(self) -> None:
        """Do nothing: the server has no state."""

    def __enter__(self) -> Self:
        with socket.socket() as listening:
            listening.bind(self.address)
            listening.listen(1024)
            self.address = listening.getsockname()
            number = listening.fileno()
            command = [sys.executable, "-c", _EMPTY, str(number)]
            self._process = subprocess.Popen(command, pass_fds=[number])
        eventually(self._answers, within=30)
        return self

    def _answers(self) -> bool:
        with socket.create_connection(self.address, timeout=10) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return sock.recv(100).startswith(b"HTTP/1.1 200")

    def __exit__(self, *_: object) -> None:
        assert self._process is not None, "it was not started"
        self._process.terminate()
        self._process.wait()
