"""A server that refuses a body while it is on its way, as RFC 9112 9.6 has it."""

import contextlib
import json
import socket
import threading
from typing import Self

_PIECE = 1 << 16
_PROBLEM = json.dumps(
    {"type": "urn:jetgate:problem:body-too-large", "title": "Content Too Large", "status": 413}
).encode()


class RefusingServer:
    """Answers 413 to the head of every request, then reads on and drops what comes.

    Attributes:
        requests: How many have come.
    """

    def __init__(self) -> None:
        self.requests = 0
        self._listening = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        host, port = self._listening.getsockname()
        return f"http://{host}:{port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._refuse, args=(caller,), daemon=True).start()

    def _refuse(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError):
            caller.settimeout(30)
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := caller.recv(_PIECE)):
                    return
                head += piece
            self.requests += 1
            lines = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n"
            lines += b"Content-Type: application/problem+json\r\n"
            caller.sendall(lines + b"Content-Length: %d\r\n\r\n" % len(_PROBLEM) + _PROBLEM)
            caller.shutdown(socket.SHUT_WR)
            while caller.recv(_PIECE):
                pass
