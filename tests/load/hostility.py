"""HTTP callers that mean no good, beside a publisher: `python -m tests.load.hostility`.

Slow readers of feeds over WebSocket, requests that never end, and garbage, also much at once.
Printed is what they do to the latency of somebody who publishes 1,000 messages a second over NATS,
in four parts: alone, while they come, beside them, and while they go, all at once; and to the
memory of the server, also after they have gone. It ends with 1 when one of the limits is missed;
those of latency are about the time beside them. The callers share the machine with the server, on
which they would not run otherwise: so they have the lowest priority (`nice`). That they do all they
are to do is counted.
"""

import argparse
import json
import os
import random
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from bench.load import stream
from bench.pace import Pace, pacing
from bench.wire import Address, Connection
from tests.support.crowd import affordable
from tests.support.jetgate import JetgateServer
from tests.support.memory import resident
from tests.support.websocket import frame, request

MIB = 1 << 20
RATE = 1000
FACTOR = 2.0
MEMORY = 512 * MIB
BACK = 128 * MIB
"""What may be in use afterwards that was not before: pages that are kept for the next time, and
the latest messages of the stream."""

ALONE_S = 10.0
FILLING_S = 10.0
"""Until those who do not read have all they can take."""
GOING_S = 3.0
SETTLING_S = 30.0

_TICK = 0.05
_LOWEST = 19
_READ = 2048
_RECEIVE_BUFFER = 4096
_STREAM = "WATCHED"
_HALVES = (
    b"POST /v1/subjects/WATCHED.h HTTP/1.1\r\nHost: localhost\r\nContent-Le",
    b"POST /v1/subjects/WATCHED.h HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\nhalf",
    b"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upg",
    b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    b'Transfer-Encoding: chunked\r\n\r\nff\r\n{"subject":',
)
_CHUNKED = (
    b"POST /v1/subjects/WATCHED.f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_FLOODS = (b"GET / HTTP/1.1\r\nX: ", _CHUNKED + b"1;x=", _CHUNKED + b"0\r\nX: ")
"""A header, an extension and a trailer, each of which does not end."""
_FLOOD_BYTES = 512 * 1024

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """Milliseconds until an ack in each part, bytes of memory, and how many callers."""

    before: dict[str, float]
    coming: dict[str, float]
    meanwhile: dict[str, float]
    going: dict[str, float]
    memory_before: int
    memory_most: int
    memory_after: int
    callers: dict[str, int]

    def factor(self, share: str) -> float:
        """How many times longer an ack took meanwhile."""
        return self.meanwhile[share] / self.before[share]

    def missed(self) -> list[str]:
        """The limits that were not held."""
        found = [f"{s}: {self.factor(s):.2f} times" for s in ("p50", "p99") if self.is_slower(s)]
        if self.memory_most >= MEMORY:
            found.append(f"memory: {self.memory_most / MIB:.0f} MiB")
        if self.memory_after >= self.memory_before + BACK:
            found.append(f"memory afterwards: {self.memory_after / MIB:.0f} MiB")
        return found

    def is_slower(self, share: str) -> bool:
        """Whether an ack took too much longer meanwhile."""
        return self.factor(share) >= FACTOR


class Crowd:
    """The callers, in one thread; who is disconnected comes again."""

    def __init__(self, address: Address, garbage: int) -> None:
        self.counts = {
            "slow readers": 0,
            "half requests": 0,
            "garbage": 0,
            "reads": 0,
            "came again": 0,
        }
        self._address = address
        self._chance = random.Random(7)
        self._selector = selectors.DefaultSelector()
        self._readers: list[socket.socket] = []
        self._next = 0
        self._garbage = garbage
        self._thrown = self._reads = 0

    def come(self, readers: int, requests: int) -> None:
        """Connect, one after the other."""
        for number in range(requests):
            self._half(number)
        self._readers += [self._reader() for _ in range(readers)]
        self.counts |= {"slow readers": readers, "half requests": requests}

    def run(self, seconds: float, each: Callable[[], None]) -> None:
        """Be a nuisance for so long; `each` is called several times a second."""
        begun = time.monotonic()
        self._thrown = self._reads = 0
        while (elapsed := time.monotonic() - begun) < seconds:
            self._read_a_little(elapsed)
            self._throw(elapsed)
            self._collect_last_lines()
            each()

    def close(self) -> None:
        """Go away, all at once."""
        for sock in self._readers:
            sock.close()
        for key in list(self._selector.get_map().values()):
            self._forget(key)
        self._selector.close()

    def _connected(self) -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        sock.settimeout(60)
        sock.connect(self._address)
        return sock

    def _socket(self) -> socket.socket:
        """A WebSocket."""
        sock = self._connected()
        protocol: dict[str, str | None] = {"Sec-WebSocket-Protocol": "js.v1.json"}
        sock.sendall(request(protocol, first="GET /v1/ws HTTP/1.1"))
        said = b""
        while b"\r\n\r\n" not in said:
            piece = sock.recv(_READ)
            assert piece, said
            said += piece
        return sock

    def _reader(self) -> socket.socket:
        """Somebody who subscribes, and then reads a little now and then."""
        sock = self._socket()
        wanted = {"type": "sub", "id": 1, "sid": 1, "stream": _STREAM}
        sock.sendall(frame(json.dumps(wanted).encode(), 0x81))
        said = b""
        while b'"subscribed"' not in said:
            piece = sock.recv(_READ)
            assert piece, said
            said += piece
        sock.setblocking(False)
        return sock

    def _read_a_little(self, elapsed: float) -> None:
        """Let those read whose turn has come: each has one in a second."""
        while self._reads < elapsed * len(self._readers):
            self._reads += 1
            self.counts["reads"] += 1
            self._next = (self._next + 1) % len(self._readers)
            try:
                alive = self._readers[self._next].recv(_READ)
            except BlockingIOError:
                continue
            except ConnectionError:
                alive = b""
            if not alive:
                self._readers[self._next].close()
                self._readers[self._next] = self._reader()
                self.counts["came again"] += 1

    def _half(self, number: int) -> None:
        """Somebody whose request does not end."""
        sock = self._connected()
        sock.sendall(_HALVES[number % len(_HALVES)])
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, number)

    def _throw(self, elapsed: float) -> None:
        """Send the garbage that is due: bytes by chance, requests and frames of them, or floods."""
        while self._thrown < elapsed * self._garbage:
            self._thrown += 1
            self.counts["garbage"] += 1
            rubbish = self._rubbish()
            is_frame = self._chance.randrange(4) == 0
            sock = self._socket() if is_frame else self._connected()
            self._selector.register(sock, selectors.EVENT_READ, None)
            with suppress(ConnectionError):
                sock.sendall(frame(rubbish, 0x81) if is_frame else rubbish)
            sock.setblocking(False)

    def _rubbish(self) -> bytes:
        chance = self._chance
        rubbish = chance.randbytes(chance.randrange(1, 4096))
        kind = chance.randrange(4)
        if kind == 0:
            return rubbish
        if kind == 3:
            return chance.choice(_FLOODS) + b"x" * _FLOOD_BYTES
        if kind == 1:
            return b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\n" + rubbish + b"\r\n\r\n"
        head = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return head + b"Content-Length: %d\r\n\r\n%s" % (len(rubbish), rubbish)

    def _collect_last_lines(self) -> None:
        """Whose request was answered or cut begins another; who threw garbage goes."""
        for key, _ in self._selector.select(_TICK):
            assert isinstance(key.fileobj, socket.socket)
            with suppress(ConnectionError):
                if key.fileobj.recv(65536) and key.data is not None:
                    continue
            self._forget(key)
            if key.data is not None:
                self._half(key.data)
                self.counts["came again"] += 1

    def _forget(self, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        self._selector.unregister(key.fileobj)
        key.fileobj.close()


@contextmanager
def watched(server: JetgateServer) -> Iterator[Pace]:
    """A stream that somebody publishes to, as soon as it is said."""
    connection = Connection(server.address)
    if _STREAM in (connection.api("STREAM.NAMES")["streams"] or []):
        connection.api(f"STREAM.DELETE.{_STREAM}")
    stream(connection, _STREAM)
    connection.close()
    with pacing(server.address, f"{_STREAM}.a", RATE) as pace:
        yield pace


def suffer(
    server: JetgateServer,
    readers: int,
    requests: int,
    garbage: int,
    seconds: float,
    say: Say = lambda _: None,
    *,
    nice: int = 0,
) -> Outcome:
    """Measure a publisher alone for a while, and then for as long beside such callers.

    `say` is told what begins; `nice` is taken from the priority of this thread, for good.
    """
    memory_before = resident(server.pid)
    most = memory_before

    def look() -> None:
        nonlocal most
        most = max(most, resident(server.pid))

    with watched(server) as pace:
        pace.mark()
        time.sleep(1)
        pace.mark()
        say(f"the publisher alone, for {min(seconds, ALONE_S):.0f} s")
        time.sleep(min(seconds, ALONE_S))
        pace.mark()
        os.nice(nice)  # the publisher runs already, and keeps its priority
        with closing(Crowd(server.http, garbage)) as crowd:
            say(f"{readers} slow readers and {requests} half requests come")
            crowd.come(readers, requests)
            say(f"they are there, and {garbage} with garbage each second; until they are full")
            crowd.run(min(seconds, FILLING_S), look)
            pace.mark()
            say(f"the publisher beside them, for {seconds:.0f} s")
            crowd.run(seconds, look)
            pace.mark()
            say("they go")
        time.sleep(min(seconds, GOING_S))
        pace.end()
    _, before, coming, meanwhile, going = pace.parts
    say("the memory is to come back")
    after = _settled(server, memory_before + BACK)
    return Outcome(before, coming, meanwhile, going, memory_before, most, after, crowd.counts)


def _settled(server: JetgateServer, wanted: int) -> int:
    """The memory in use when it has come down to what is wanted, or no longer does."""
    deadline = time.monotonic() + SETTLING_S
    while (now := resident(server.pid)) >= wanted and time.monotonic() < deadline:
        time.sleep(_TICK)
    return now


def main() -> int:
    """Measure, print, and say whether the limits were held."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.hostility", description=__doc__)
    parser.add_argument("--readers", type=int, default=1000, help="slow readers over WebSocket")
    parser.add_argument("--requests", type=int, default=1000, help="requests that never end")
    parser.add_argument("--garbage", type=int, default=50, help="connections with it, a second")
    parser.add_argument("--seconds", type=float, default=60, help="beside them")
    chosen = parser.parse_args()
    affordable(chosen.readers + chosen.requests)
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s: {text}", flush=True)

    say("the server starts")
    with JetgateServer() as server:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
        numbers = chosen.readers, chosen.requests, chosen.garbage, chosen.seconds
        found = suffer(server, *numbers, say, nice=_LOWEST)
    return _told(found)


def _told(found: Outcome) -> int:
    """Print what was found; 1 when a limit was missed."""
    print(", ".join(f"{count} {what}" for what, count in found.callers.items()))
    for share in ("p50", "p99"):
        print(
            f"{share} of an ack: {found.before[share]:.1f} ms alone, "
            f"{found.coming[share]:.1f} ms while they come, "
            f"{found.meanwhile[share]:.1f} ms beside them ({found.factor(share):.2f} times), "
            f"{found.going[share]:.1f} ms while they go"
        )
    sizes = found.memory_before, found.memory_most, found.memory_after
    print("memory: {:.0f} MiB, at most {:.0f}, afterwards {:.0f}".format(*(n / MIB for n in sizes)))
    missed = found.missed()
    print(f"missed: {'; '.join(missed)}" if missed else "all limits were held")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
