"""A TCP proxy that breaks connections when a test says so."""

import selectors
import socket
import threading
from typing import Self


class Proxy:
    """Stands between clients and a server on 127.0.0.1 and counts the connections.

    Args:
        target: The server.
        cut_after: Bytes from the server after which a connection is broken, one entry for each
            connection in turn; connections behind the last entry are left alone.
        hold: What clients say that is not passed on any more, nor what follows it.
        mute: What clients say after which they hear no more than `heard` bytes.
        lose: What clients say that is not passed on the first time.
        notice: What clients say that sets `held` at the time of this number, and is passed on.
    """

    def __init__(
        self,
        target: tuple[str, int],
        close_after: list[int] | None = None,
        *,
        hold: bytes = b"",
        mute: bytes = b"",
        heard: int = 0,
        lose: bytes = b"",
        notice: tuple[bytes, int] = (b"", 0),
    ) -> None:
        self._target = target
        self._close_after = list(close_after or [])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.connections = 0
        self.held = threading.Event()
        """Something was not passed on, or noticed."""
        self._hold = hold
        self._mute = mute
        self._heard = heard
        self._lose = lose
        self._notice, self._left = notice
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            close_after = self._close_after.pop(0) if self._close_after else None
            try:
                server = socket.create_connection(self._target)
            except OSError:  # it is killed, or starts
                client.close()
                continue
            thread = threading.Thread(target=self._join, args=(client, server, close_after))
            self._threads.append(thread)
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more connections; those that are left end with their client."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)

    def _join(self, client: socket.socket, server: socket.socket, close_after: int | None) -> None:
        """Pass on what comes until one side ends, or so many bytes came from the server."""
        hears: int | None = None
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while close_after != 0:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    try:
                        data = source.recv(65536)
                        if self._notice and source is client and self._notice in data:
                            self._left -= 1
                            if self._left == 0:
                                self.held.set()
                        if self._mute and source is client and self._mute in data:
                            hears = self._heard if hears is None else hears
                        if self._lose and source is client and self._lose in data:
                            self._lose = b""
                            self.held.set()
                        elif self._hold and source is client and self._hold in data:
                            self.held.set()
                        elif hears is not None and source is server and data:
                            target.sendall(data[:hears])
                            if len(data) > hears:
                                self.held.set()
                            hears = max(0, hears - len(data))
                        elif close_after is not None and source is server:
                            data = data[:close_after]
                            close_after -= len(data)
                            target.sendall(data)
                        else:
                            target.sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
