"""One connection to a NATS server: handshake, authentication, subscriptions, reads and writes."""

import json
import random
import socket
import ssl
from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import SplitResult

from pyspark_jetstream.nats.addresses import PORT, parse, shown
from pyspark_jetstream.nats.auth import credentials
from pyspark_jetstream.nats.deadline import Deadline
from pyspark_jetstream.nats.errors import Denied, Disconnected, ProtocolError, Rejected, Timeout
from pyspark_jetstream.nats.parser import Columns, Parser
from pyspark_jetstream.nats.settings import Settings, Tls

READ = 1 << 18
"""Largest number of bytes of one read. To parse them takes about as long as the next read."""

_INFO, _HTTP = b"INFO ", b"HTTP/"
_SHOWN = 40
"""Number of a server's first bytes that suffice to recognise its protocol."""
_SILENCE = 1.0
"""Seconds without an INFO after which the client tests whether the server is an HTTP server."""
_DENIED = ("permissions violation",)
_HARMLESS = ("invalid subject", "invalid publish subject")
_NOT_AGAIN = ("authorization violation", "user authentication", "account authentication")


class Connection:
    """A blocking connection to one NATS server. It answers the server's PINGs only during reads.

    Args:
        settings: Servers and credentials; see `Settings`.
        seconds: Time limit for connecting, over all servers; None: `connect_timeout` for each.

    Raises:
        Disconnected: No server could be reached; the message names each server and the reason.
        Rejected: A server refused the credentials or the TLS handshake, or is not a NATS server.
    """

    def __init__(self, settings: Settings, seconds: float | None = None) -> None:
        self.settings = settings
        self.info: dict[str, Any] = {}
        self.server = ""
        self._failure = ""
        self._denied = ""
        self._pongs = 0
        self._pings = 0
        self._sids = 0
        self._parser = Parser(self._on_line)
        self._socket: socket.socket = self._connect(seconds)

    @property
    def max_payload(self) -> int:
        """Largest size of headers and payload together, in bytes, by the server's INFO."""
        return int(self.info.get("max_payload", 1 << 20))

    def _connect(self, seconds: float | None) -> socket.socket:
        servers = self.settings.servers
        first = random.randrange(len(servers))
        failures = []
        most = self.settings.connect_timeout
        deadline = Deadline(most * len(servers) if seconds is None else seconds)
        for tried, server in enumerate(servers[first:] + servers[:first]):
            share = deadline.left() / (len(servers) - tried)
            try:
                return self._open(server, min(most, share))
            except Disconnected as error:
                failures.append(str(error))
            except OSError as error:
                failures.append(f"{shown(server)}: {error.strerror or error}")
        raise Disconnected("no NATS server could be reached: " + "; ".join(failures))

    def _open(self, server: str, seconds: float) -> socket.socket:
        """Connect to one server; wait at most `seconds` until the server accepts CONNECT."""
        address = parse(server)
        deadline = Deadline(seconds)
        self.server = shown(server)
        self._failure = ""
        self._parser = Parser(self._on_line)
        self.info = {}
        plain = self._socket = socket.create_connection(
            (address.hostname or "", address.port or PORT), timeout=deadline.left() or 0.001
        )
        try:
            return self._shake_hands(plain, address, deadline)
        except BaseException:
            plain.close()
            self._socket.close()  # the same socket, or its TLS socket
            raise

    def _shake_hands(
        self, plain: socket.socket, address: SplitResult, deadline: Deadline
    ) -> socket.socket:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = self.settings.tls
        self._socket = plain
        if tls is not None and tls.first:
            self._socket = self._secured(plain, address, tls)
        # The bytes after INFO belong to the TLS handshake, so this line is read byte by byte.
        self._on_line(self._first_line(address, deadline))
        wanted = tls is not None or address.scheme == "tls" or self.info.get("tls_required")
        if wanted and not isinstance(self._socket, ssl.SSLSocket):
            if not (self.info.get("tls_required") or self.info.get("tls_available")):
                raise Rejected(f"{self.server} does not support TLS, but TLS is required")
            self._socket = self._secured(plain, address, tls or Tls())
        self._introduce(address)
        self._pings += 1
        self.send(b"PING\r\n")
        while self._pongs < self._pings:
            self.read(deadline.left())
            if deadline.passed():
                raise Disconnected(f"{self.server} did not answer the handshake in time")
        return self._socket

    def _first_line(self, address: SplitResult, deadline: Deadline) -> bytes:
        line = bytearray()
        is_asked = False
        while not line.endswith(b"\r\n"):
            left = deadline.left()
            self._socket.settimeout((left if is_asked else min(_SILENCE, left / 2)) or 0.001)
            try:
                byte = self._socket.recv(1)
            except TimeoutError:
                if not is_asked and not line and speaks_http(address, deadline):
                    raise Rejected(self._no_server(_HTTP)) from None
                is_asked = True
                byte = None
            if byte == b"":
                raise Disconnected(f"{self.server} closed the connection before its INFO")
            line += byte or b""
            is_enough = line.endswith(b"\r\n") or len(line) >= _SHOWN
            if is_enough and not line.startswith(_INFO):
                raise Rejected(self._no_server(bytes(line)))
            if deadline.passed():
                raise Disconnected(
                    f"{self.server} has sent no INFO in time: it hangs, or is no NATS server"
                )
        return bytes(line[:-2])

    def _no_server(self, begin: bytes) -> str:
        """Return the error text for a server whose first bytes are not an INFO."""
        if begin.startswith(_HTTP):
            return f"{self.server} answers HTTP, expected a NATS server"
        return f"{self.server} is no NATS server: it began with {begin[:_SHOWN]!r}"

    def _secured(self, plain: socket.socket, address: SplitResult, tls: Tls) -> ssl.SSLSocket:
        context = _context(tls)
        try:
            return context.wrap_socket(plain, server_hostname=address.hostname)
        except ssl.SSLError as error:
            raise Rejected(f"TLS with {self.server}: {error.reason or error}") from error

    def _introduce(self, address: SplitResult) -> None:
        fields: dict[str, Any] = {
            "verbose": False,
            "pedantic": False,
            "echo": True,
            "tls_required": isinstance(self._socket, ssl.SSLSocket),
            "name": self.settings.name,
            "lang": "python-spark",
            "version": "0.1.0",
            "protocol": 1,
            "headers": True,
            "no_responders": True,
        }
        fields |= credentials(self.settings, self.info.get("nonce", ""))
        self.send(b"CONNECT %s\r\n" % json.dumps(fields).encode())

    def send(self, data: bytes) -> None:
        """Send `data`; block until the operating system has accepted all bytes.

        Raises:
            Disconnected: The connection broke, or sending took longer than the timeout of the
                settings.
        """
        try:
            self._socket.settimeout(self.settings.timeout)
            self._socket.sendall(data)
        except OSError as error:
            self._broken(error)

    def subscribe(self, subject: str) -> tuple[bytes, Columns]:
        """Subscribe to a subject.

        Returns the subscription id, and the `Columns` to which reads append the messages.
        """
        self._sids += 1
        sid = b"%d" % self._sids
        columns = self._parser.inboxes[sid] = Columns()
        self.send(b"SUB %s %s\r\n" % (subject.encode(), sid))
        return sid, columns

    def unsubscribe(self, sid: bytes) -> None:
        """End a subscription by its id; messages that arrive later are dropped."""
        if self._parser.inboxes.pop(sid, None) is not None:
            self.send(b"UNSUB %s\r\n" % sid)

    def read(self, timeout: float) -> bool:
        """Read once from the socket; append the messages to the `Columns` of the subscriptions.

        Returns False if no bytes arrived within the timeout in seconds.

        Raises:
            Disconnected: The connection broke.
            Rejected: The server no longer accepts the credentials.
            Denied: The server refused an earlier operation because a permission is missing.
        """
        try:
            self._socket.settimeout(timeout or 0.001)
            data = self._socket.recv(READ)
        except TimeoutError:
            return False
        except OSError as error:
            self._broken(error)
        if not data:
            self._broken(None)
        self._parser.feed(data)
        if self._denied:
            text, self._denied = self._denied, ""
            raise Denied(f"{self.server}: {text}")
        return True

    def wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        """Read until `ready` returns True. Each read with bytes restarts the timeout in seconds.

        Args:
            ready: Condition, evaluated after each read.
            timeout: Limit of silence in seconds.
            `what`: Name of the awaited answer, for the error message.

        Raises:
            Timeout: No bytes arrived for the timeout.
        """
        deadline = Deadline(timeout)
        while not ready():
            if deadline.passed():
                raise Timeout(f"{self.server} did not answer {what} within {timeout:g} s")
            if self.read(deadline.left()):
                deadline = Deadline(timeout)

    def flush(self) -> None:
        """Send PING and wait for PONG, so that the server has processed all earlier operations."""
        self._pings += 1
        self.send(b"PING\r\n")
        target = self._pings
        self.wait(lambda: self._pongs >= target, self.settings.timeout, "a PING")

    def _broken(self, error: OSError | None) -> NoReturn:
        self.close()
        reason = self._failure or (error and (error.strerror or str(error))) or "closed"
        if self._failure and self._failure.lower().startswith(_NOT_AGAIN):
            raise Rejected(f"{self.server}: {self._failure}") from error
        raise Disconnected(f"{self.server}: {reason}") from error

    def _on_line(self, line: bytes) -> None:
        kind = line[:4].upper()
        if kind == b"PING":
            self.send(b"PONG\r\n")
        elif kind == b"PONG":
            self._pongs += 1
        elif kind == b"INFO":
            self.info |= self._fields(line[5:])
        elif kind == b"-ERR":
            text = line[4:].strip().strip(b"'").decode("utf-8", "replace")
            if text.lower().startswith(_DENIED):
                self._denied = text
            elif not text.lower().startswith(_HARMLESS):
                self._failure = text

    def _fields(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ProtocolError(f"{self.server} has sent an INFO without a JSON object")
        return found

    def close(self) -> None:
        """Close the socket. Publishes without an acknowledgement may or may not be stored."""
        self._socket.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def speaks_http(address: SplitResult, deadline: Deadline) -> bool:
    """Return True if the server answers an HTTP request, which is sent on a new connection."""
    left = min(_SILENCE, deadline.left()) or 0.001
    try:
        place = address.hostname or "", address.port or PORT
        with socket.create_connection(place, timeout=left) as asked:
            asked.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return asked.recv(len(_HTTP)) == _HTTP
    except OSError:
        return False


def _context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context of the settings. Raises Rejected if a file is missing or unusable."""
    files = tls.ca
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert:
            files = ", ".join(filter(None, (tls.cert, tls.key)))
            password = tls.key_password.resolve() if tls.key_password else ""
            context.load_cert_chain(tls.cert, tls.key or None, password)
    except OSError as error:  # ssl.SSLError is a subclass
        reason = getattr(error, "reason", None) or error.strerror or error
        raise Rejected(f"the files of TLS ({files}) cannot be used: {reason}") from error
    return context
