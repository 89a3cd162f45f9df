"""The connections of the load generator, which send prepared bytes and only count answers.

The cost of a client library would be part of the measurement. Answers are counted by their line
ends, of which each kind of answer has a fixed number; therefore payloads contain none.
"""

import gc
import json
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

HELLO = (
    b'CONNECT {%b"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nPING\r\n'
)
ACK_LINES = 2  # line ends of an answer with a control line and a payload
GET_LINES = 8  # HMSG, NATS/1.0, four headers, empty line, payload
CHUNK = 1 << 18

Address = tuple[str, int]


class LoadError(Exception):
    """The server answered with an error, or did not answer in time."""


class Connection:
    """A NATS connection. `send` and `api` block; `pump` does not.

    `who` contains additional members of its CONNECT, each followed by a comma.
    """

    def __init__(self, address: Address, who: bytes = b"") -> None:
        self.sock = socket.create_connection(address, timeout=30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.send(HELLO % who)
        self._until(b"PONG\r\n")
        self._requests = 0

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def _until(self, end: bytes) -> bytes:
        data = b""
        while not data.endswith(end):
            piece = self.sock.recv(CHUNK)
            if not piece:
                raise LoadError(f"closed: {data[-200:]!r}")
            data = (data + piece).replace(b"PING\r\n", b"")
        return data

    def flush(self) -> bytes:
        """Send PING and return all bytes received up to its PONG."""
        self.send(b"PING\r\n")
        return self._until(b"PONG\r\n")

    def api(self, subject: str, body: Any = None, prefix: str = "$JS.API.") -> Any:
        """Send a request to JetStream's API and return the answer. Raises LoadError if it is an
        error.
        """
        self._requests += 1
        reply = b"_INBOX.api.%d" % self._requests
        payload = b"" if body is None else json.dumps(body).encode()
        self.send(b"SUB %s api%d\r\nUNSUB api%d 1\r\n" % (reply, self._requests, self._requests))
        self.send(b"PUB %s %s %d\r\n" % ((prefix + subject).encode(), reply, len(payload)))
        self.send(payload + b"\r\n")
        data = b""
        while b"}\r\n" not in data:
            piece = self.sock.recv(CHUNK)
            if not piece:
                raise LoadError("closed")
            data = (data + piece).replace(b"PING\r\n", b"")
        answer = json.loads(data[data.index(b"{") : data.rindex(b"}") + 1])
        if "error" in answer:
            raise LoadError(f"{subject}: {answer['error']}")
        return answer

    def close(self) -> None:
        self.sock.close()


class Sender:
    """The messages that one connection sends in `pump`, in one buffer, and the counts of
    answers.
    """

    def __init__(self, connection: Connection, messages: Sequence[bytes]) -> None:
        self.connection = connection
        self.count = len(messages)
        self.ends = [0, *accumulate(map(len, messages))]
        self.view = memoryview(b"".join(messages))
        self.at = 0
        self.lines = 0
        self.sample = b""


def pump(
    senders: Sequence[Sender],
    *,
    window: int,
    lines: int = ACK_LINES,
    limit: float = 120,
    rate: float = 0,
) -> float:
    """Send the messages of all senders; return the seconds until all are answered.

    Raises LoadError if an answer contains an error, or after `limit` seconds.

    Args:
        senders: Connections with their messages.
        window: Largest number of unanswered messages of each sender.
        lines: Number of line ends of one answer.
        limit: Limit of the duration in seconds.
        rate: Largest number of messages per second of each sender; 0: no limit.
    """
    poll = select.epoll()
    by_fd = {sender.connection.sock.fileno(): sender for sender in senders}
    for fd, sender in by_fd.items():
        sender.connection.sock.setblocking(False)
        poll.register(fd, select.EPOLLIN)
    gc.disable()
    try:
        return _pump(poll, by_fd, window, lines, limit, rate)
    finally:
        gc.enable()
        poll.close()
        for sender in senders:
            sender.connection.sock.settimeout(30)


def _pump(
    poll: select.epoll,
    by_fd: dict[int, Sender],
    window: int,
    lines: int,
    limit: float,
    rate: float,
) -> float:
    start = time.perf_counter()
    writing: set[int] = set()
    unfinished = set(by_fd)
    for fd, sender in by_fd.items():
        _write(poll, fd, sender, writing, 1 if rate else window)
    while unfinished:
        events = poll.poll(0.002 if rate else 20)
        elapsed = time.perf_counter() - start
        if (not events and not rate) or elapsed > limit:
            states = [(sender.lines // lines, sender.count) for sender in by_fd.values()]
            raise LoadError(f"no answers; (answered, all) per connection: {states}")
        for fd, event in events:
            sender = by_fd[fd]
            if event & select.EPOLLIN:
                data = sender.connection.sock.recv(CHUNK)
                if not data or b'"error"' in data or b"-ERR" in data:
                    raise LoadError(f"answered {data[:300]!r}")
                sender.sample = data
                sender.lines += data.count(b"\n")
            answered = sender.lines // lines
            if answered >= sender.count:
                unfinished.discard(fd)
            if not rate:
                _write(poll, fd, sender, writing, answered + window)
        if rate:
            for fd, sender in by_fd.items():
                allowed = min(sender.lines // lines + window, int(elapsed * rate) + 1)
                _write(poll, fd, sender, writing, allowed)
    return time.perf_counter() - start


def _write(poll: select.epoll, fd: int, sender: Sender, writing: set[int], allowed: int) -> None:
    end = sender.ends[min(allowed, sender.count)]
    if sender.at < end:
        with suppress(BlockingIOError):
            sender.at += sender.connection.sock.send(sender.view[sender.at : end])
    blocked = sender.at < end
    if blocked != (fd in writing):
        (writing.add if blocked else writing.discard)(fd)
        poll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if blocked else 0))


def one_by_one(
    connection: Connection, messages: Sequence[bytes], lines: int = ACK_LINES
) -> list[int]:
    """Send each message after the answer to the previous one; return the latencies in
    nanoseconds.
    """
    taken = []
    sock = connection.sock
    clock = time.perf_counter_ns
    for message in messages:
        start = clock()
        sock.sendall(message)
        seen = 0
        while seen < lines:
            data = sock.recv(65536)
            seen += data.count(b"\n") - data.count(b"PING\r\n")
        taken.append(clock() - start)
        if b'"error"' in data:
            raise LoadError(f"answered {data!r}")
    return taken


def publishes(subject: bytes, count: int, payload: bytes, inbox: bytes) -> list[bytes]:
    """Return PUBs, each with its own reply subject, as requests have."""
    tail = b" %d\r\n%s\r\n" % (len(payload), payload)
    head = b"PUB " + subject + b" " + inbox + b"."
    return [head + b"%d" % i + tail for i in range(count)]


def percentile(taken: Sequence[float], share: float) -> float:
    """Return the value below which the fraction `share` of the measurements lie."""
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * share))]
