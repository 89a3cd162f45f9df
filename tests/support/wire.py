"""A raw NATS connection for tests: it sends bytes and reads whole frames, without a client library.

Every read has a deadline. The connection answers PINGs of the server and does not return them.
"""

import json
import socket
import time
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Self

HELLO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'


class Closed(Exception):
    """The server closed the connection."""


class Silence(Exception):
    """No complete frame arrived before the deadline."""


@dataclass(slots=True)
class Frame:
    """One protocol message of the server: control line, and header block and payload if any."""

    line: bytes
    headers: bytes = b""
    payload: bytes = b""

    @property
    def verb(self) -> bytes:
        return self.line.split(b" ", 1)[0]

    @property
    def subject(self) -> bytes:
        return self.line.split(b" ")[1]

    @property
    def reply(self) -> bytes:
        parts = self.line.split(b" ")
        plain = 4 if self.verb == b"MSG" else 5
        return parts[3] if len(parts) > plain else b""

    def json(self) -> Any:
        return json.loads(self.payload)


class Wire:
    """One TCP connection to a NATS port.

    Args:
        address: Host and port of the server.
        timeout: Default time limit of a read, in seconds.
        source: Local IP address; empty lets the kernel choose.
    """

    def __init__(
        self, address: tuple[str, int], *, timeout: float = 30.0, source: str = ""
    ) -> None:
        own = (source, 0) if source else None
        self.sock = socket.create_connection(address, timeout=timeout, source_address=own)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.buffer = bytearray()
        # A unique inbox, so that late answers to another connection do not match.
        self._inbox = b"_INBOX.%s" % token_hex(8).encode()
        self._replies = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Write bytes. If the server has closed the connection, do nothing."""
        try:
            self.sock.settimeout(self.timeout)
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def frame(self, timeout: float | None = None, *, pings: bool = False) -> Frame:
        """Return the next frame; with `pings`, PING is one too and is not answered.

        Raises Silence after `timeout` seconds, Closed if the server has closed the connection.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            frame = self._next_frame()
            if frame is None:
                self._fill(deadline)
            elif frame.line == b"PING" and not pings:
                self.send(b"PONG\r\n")
            else:
                return frame

    def _next_frame(self) -> Frame | None:
        end = self.buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self.buffer[:end])
        parts = line.split(b" ")
        if parts[0] not in (b"MSG", b"HMSG"):
            del self.buffer[: end + 2]
            return Frame(line)
        size = int(parts[-1])
        if len(self.buffer) < end + 2 + size + 2:
            return None
        body = bytes(self.buffer[end + 2 : end + 2 + size])
        del self.buffer[: end + 2 + size + 2]
        cut = int(parts[-2]) if parts[0] == b"HMSG" else 0
        return Frame(line, body[:cut], body[cut:])

    def _fill(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Silence(f"nothing complete within the time; buffered {bytes(self.buffer)!r}")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(262144)
        except TimeoutError:
            raise Silence(f"nothing arrived in time; buffered {bytes(self.buffer)!r}") from None
        except ConnectionError:
            data = b""
        if not data:
            raise Closed(f"closed by the server; buffered {bytes(self.buffer)!r}")
        self.buffer += data

    def hello(self, connect: bytes = HELLO) -> dict[str, Any]:
        """Read INFO, send CONNECT and PING, wait for PONG; return the decoded INFO.

        Raises AssertionError if another frame arrives before PONG.
        """
        info = self.frame()
        assert info.line.startswith(b"INFO "), info
        self.send(connect)
        assert self.flush() == [], "nothing but PONG answers CONNECT and PING"
        told: dict[str, Any] = json.loads(info.line[5:])
        return told

    def flush(self, timeout: float | None = None) -> list[Frame]:
        """Send PING and return every frame that arrives before its PONG."""
        self.send(b"PING\r\n")
        before: list[Frame] = []
        while (frame := self.frame(timeout)).line != b"PONG":
            before.append(frame)
        return before

    def until_silence(self, seconds: float) -> list[Frame]:
        """Return the frames that arrive until none arrives for `seconds` and a PING is answered."""
        found: list[Frame] = []
        while True:
            try:
                found.append(self.frame(seconds))
            except Silence:
                # A busy server may pause although it has more to send.
                if not (late := self.flush()):
                    return found
                found += late

    def request(
        self, subject: str, payload: bytes = b"", headers: bytes = b"", timeout: float | None = None
    ) -> Frame:
        """Publish with a new reply subject and return the answer; discard other frames.

        Raises Silence if no frame arrives within `timeout` seconds.
        """
        self._replies += 1
        reply = b"%s.%d" % (self._inbox, self._replies)
        self.send(b"SUB %s q%d\r\nUNSUB q%d 1\r\n" % (reply, self._replies, self._replies))
        self.publish(subject, payload, reply=reply, headers=headers)
        while True:
            frame = self.frame(timeout)
            if frame.verb.endswith(b"MSG") and frame.subject == reply:
                return frame
            if frame.verb.endswith(b"MSG") and b" q%d " % self._replies in frame.line:
                return frame

    def publish(
        self, subject: str, payload: bytes = b"", *, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Send PUB, or HPUB if `headers`, a complete header block, is not empty."""
        head = subject.encode("utf-8", "surrogateescape") + (b" " + reply if reply else b"")
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            self.send(b"HPUB %s %s\r\n%s%s\r\n" % (head, sizes, headers, payload))
        else:
            self.send(b"PUB %s %d\r\n%s\r\n" % (head, len(payload), payload))

    def api(self, subject: str, body: Any = None, timeout: float | None = None) -> Any:
        """Call `$JS.API.<subject>` with a JSON body and return the decoded answer."""
        payload = b"" if body is None else json.dumps(body).encode()
        return self.request("$JS.API." + subject, payload, timeout=timeout).json()
