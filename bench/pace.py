"""Ack latencies at a steady publish rate: `python -m bench.pace HOST PORT SUBJECT RATE`.

Four connections publish messages of 128 bytes. Each payload begins with the time at which its
message was due, in nanoseconds since the epoch. The first line on standard input starts the
publishers. Each further line ends a part of the measurement and begins the next; the end of
standard input ends the last. Then each part is printed as JSON: messages per second and
milliseconds until an ack. Latencies count from the time at which a message was due, not from the
time of sending, so a server that delays its publishers does not appear fast.
"""

import gc
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from bench.wire import CHUNK, Address, Connection, LoadError, percentile
from core.units import NANOS_PER_SECOND

CONNECTIONS = 4
WINDOW = 4000
"""Messages of a connection that may be unacknowledged; clients have such a limit too."""
TICK = 0.001
SIZE = 128
STAMP = 20
"""Digits at the beginning of a payload, with the time at which its message was due."""


@dataclass(slots=True)
class Part:
    """One part of a measurement, which lasts from one line on standard input to the next.

    Times are in seconds since the start of the publishers.

    Each of `runs` is a tuple of the time, the number of the first acknowledged message, and the
    number after the last one.
    """

    begun: float
    ended: float = 0.0
    runs: list[tuple[float, int, int]] = field(default_factory=list)


class Publisher:
    """One connection that sends each message at its due time."""

    def __init__(self, sock: socket.socket, subject: bytes, number: int, rate: float) -> None:
        self.sock = sock
        sock.sendall(b"SUB _INBOX.pace%d.* 1\r\n" % number)
        sock.setblocking(False)
        self._line = b"PUB %b _INBOX.pace%d.%%d %d\r\n%%0%dd%b\r\n" % (
            subject,
            number,
            SIZE,
            STAMP,
            b"x" * (SIZE - STAMP),
        )
        self.rate = rate
        self._sent = 0
        self._answered = 0
        self._unsent = b""
        self._unread = b""

    def due(self, elapsed: float) -> int:
        """Return how many messages in total must be sent in the first `elapsed` seconds."""
        return int(elapsed * self.rate) + 1

    def send(self, elapsed: float, epoch: int) -> None:
        """Send the messages that are due `elapsed` seconds after the start.

        `epoch` is the time at which the first message was due, in nanoseconds since the epoch.
        """
        until = min(self.due(elapsed), self._answered + WINDOW)
        if not self._unsent and until > self._sent:
            every = NANOS_PER_SECOND / self.rate
            numbers = range(self._sent, until)
            values = [value for n in numbers for value in (n, epoch + int(n * every))]
            self._unsent = self._line * len(numbers) % tuple(values)
            self._sent = until
        if self._unsent:
            with suppress(BlockingIOError):
                self._unsent = self._unsent[self.sock.send(self._unsent) :]

    def read(self) -> tuple[int, int]:
        """Read acks; return the numbers of the first acknowledged message and of the next one."""
        data = self.sock.recv(CHUNK)
        if not data or b'"error"' in data or b"-ERR" in data:
            raise LoadError(f"answered {data[:300]!r}")
        lines, end, rest = (self._unread + data).rpartition(b"\n")
        self._unread = rest
        if b"PING\r" in lines:
            self._unsent += b"PONG\r\n"
        before = self._answered
        self._answered += (lines + end).count(b"}\r\n")
        return before, self._answered


def measured(parts: list[Part], rate: float) -> list[dict[str, float]]:
    """Return messages per second and milliseconds of each part.

    `rate` is the number of messages per second of each connection.
    """
    return [_measured(part, rate) for part in parts]


def _measured(part: Part, rate: float) -> dict[str, float]:
    taken = [
        (at - number / rate) * 1e3 for at, first, end in part.runs for number in range(first, end)
    ]
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    found = {name: percentile(taken, share) for name, share in shares.items()} if taken else {}
    return {"rate": len(taken) / (part.ended - part.begun), **found}


def publish(address: Address, subject: bytes, rate: float) -> list[Part]:
    """Publish until standard input ends; return the parts of the measurement.

    `rate` is the number of messages per second of all connections.
    """
    if not os.read(sys.stdin.fileno(), 1):
        return []
    each = rate / CONNECTIONS
    connections = [Connection(address) for _ in range(CONNECTIONS)]
    publishers = [Publisher(one.sock, subject, n, each) for n, one in enumerate(connections)]
    by_fd = {one.sock.fileno(): one for one in publishers}
    commands = sys.stdin.fileno()
    poll = select.epoll()
    for fd in (*by_fd, commands):
        poll.register(fd, select.EPOLLIN)
    clock = time.perf_counter
    start, epoch = clock(), time.time_ns()
    parts = [Part(0.0)]
    gc.disable()
    while True:
        for fd, _ in poll.poll(TICK):
            if fd == commands:
                text = os.read(commands, 100)
                parts[-1].ended = clock() - start
                if not text:
                    return parts
                parts.append(Part(parts[-1].ended))
                continue
            first, end = by_fd[fd].read()
            parts[-1].runs.append((clock() - start, first, end))
        elapsed = clock() - start
        for one in publishers:
            one.send(elapsed, epoch)


class Pace:
    """A process that publishes at a steady rate, controlled by `mark` and `end`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.parts: list[dict[str, float]] = []
        """The measured parts, once the process has ended."""

    def mark(self) -> None:
        """Start to publish; at each further call, end a part of the measurement and begin the next
        one.
        """
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """End the last part of the measurement, and the publishing process."""
        out, _ = self._process.communicate(timeout=300)
        if self._process.returncode:
            raise LoadError(f"the publishers ended with {self._process.returncode}")
        self.parts = json.loads(out)


@contextmanager
def pacing(address: Address, subject: str, rate: float) -> Iterator[Pace]:
    """Run a publishing process until `Pace.end` or the end of the `with` block.

    It publishes `rate` messages per second from the first `Pace.mark` on.
    """
    host, port = address
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "bench.pace", host, str(port), subject, str(rate)]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    pace = Pace(process)
    try:
        yield pace
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Publish until standard input ends, then print the measurements."""
    host, port, subject, rate = sys.argv[1:]
    parts = publish((host, int(port)), subject.encode(), float(rate))
    print(json.dumps(measured(parts, float(rate) / CONNECTIONS)))


if __name__ == "__main__":
    main()
