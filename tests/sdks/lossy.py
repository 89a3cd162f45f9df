"""A way to a server on which answers can get lost and connections break."""

import contextlib
import socket
import threading
from typing import Self

_PIECE = 1 << 16
_METHODS = (b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ")


class LossyWay:
    """Passes connections on to a server, from a free port.

    Attributes:
        lose: How many of the next answers are lost: the server has acted, the caller hears nothing.
        lost: How many were.
        passed: How many connections were passed on.
        taken: How many bytes of requests were passed on.
        requests: How many pieces of requests began with a method: one for each small request.
        most: Of how many bytes of answers a connection breaks; 0: of none.
        away: Whether nobody gets through.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self.lose = 0
        self.lost = 0
        self.passed = 0
        self.taken = 0
        self.requests = 0
        self.most = 0
        self.away = False
        self._server = server
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
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
        self.break_connections()

    def break_connections(self) -> None:
        """Break every connection."""
        with self._lock:
            pairs = list(self._open)
        for end in pairs:
            self._close(end)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            try:
                if self.away:
                    raise ConnectionError
                server = socket.create_connection(self._server)
            except OSError:
                caller.close()
                continue
            with self._lock:
                self._open |= {caller, server}
                self.passed += 1
            for source, target, answers in ((caller, server, False), (server, caller, True)):
                threading.Thread(
                    target=self._pass_on, args=(source, target, answers), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        size = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                if answers and self._loses():
                    break
                if not answers:
                    self._count(piece)
                target.sendall(piece)
                size += len(piece)
                if answers and size > self.most > 0:
                    break
        self._close(source)
        self._close(target)

    def _count(self, piece: bytes) -> None:
        with self._lock:
            self.taken += len(piece)
            self.requests += piece.startswith(_METHODS)

    def _loses(self) -> bool:
        with self._lock:
            if not self.lose:
                return False
            self.lose -= 1
            self.lost += 1
            return True

    def _close(self, end: socket.socket) -> None:
        with self._lock:
            self._open.discard(end)
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
