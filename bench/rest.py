"""The loads of HTTP requests, one at a time on each of 64 connections, and of NDJSON bodies."""

import gc
import json
import select
import socket
import time
from dataclasses import dataclass

from bench.empty import EmptyRoute
from bench.http_wire import (
    HttpConnection,
    answer_to,
    ask,
    http_address,
    json_request,
    request,
)
from bench.load import Measure, processor_of, stream
from bench.peers import Peer
from bench.wire import CHUNK, Connection, LoadError, Sender, one_by_one, percentile, pump

PAYLOAD = b"x" * 128
CONNECTIONS = 64
KEYS = 1000
BUCKET = "bench"
_KEY = f"/v1/kv/{BUCKET}/user.{{}}.name"


@dataclass(slots=True)
class Each:
    """One request for each message or key: `publish`, `put` or `get`, or a route that does nothing.

    `rate` is requests per second over 64 connections. `server` is the processor time of the server
    per request, and `p50` the latency of single requests on one connection; both in microseconds.
    """

    verb: str
    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        if isinstance(peer, EmptyRoute) or self.verb == "publish":
            return
        ask(peer, json_request("PUT", f"/v1/kv/{BUCKET}", b"{}"))
        connection = HttpConnection(http_address(peer))
        for key in range(KEYS):
            answer_to(connection, request("PUT", _KEY.format(key), PAYLOAD))
        connection.close()

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        requests = self._requests(peer, max(CONNECTIONS * 10, int(self.count * scale)), run)
        connection = HttpConnection(http_address(peer))
        lines = answer_to(connection, requests[0]).count(b"\n")
        taken = one_by_one(connection, requests[: len(requests) // 20], lines)
        connection.close()
        senders = [
            Sender(HttpConnection(http_address(peer)), requests[i::CONNECTIONS])
            for i in range(CONNECTIONS)
        ]
        used = processor_of(peer)
        seconds = pump(senders, window=1, lines=lines)
        used = processor_of(peer) - used
        for sender in senders:
            sender.connection.close()
        return {
            "rate": len(requests) / seconds,
            "p50": percentile(taken, 0.5) / 1e3,
            "server": used / len(requests),
        }

    def _requests(self, peer: Peer, count: int, run: int) -> list[bytes]:
        if isinstance(peer, EmptyRoute):
            return [request("GET", "/")] * count
        if self.verb == "publish":
            connection = Connection(peer.address)
            stream(connection, f"REST{run}")
            connection.close()
            path = f"/v1/subjects/REST{run}.a"
            return [request("POST", path, PAYLOAD, Content_Type="text/plain")] * count
        if self.verb == "put":
            return [request("PUT", _KEY.format(n % KEYS), PAYLOAD) for n in range(count)]
        return [request("GET", _KEY.format(n % KEYS)) for n in range(count)]


@dataclass(slots=True)
class Lines:
    """One NDJSON body of many messages, whose results are read while it is sent."""

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        connection = Connection(peer.address)
        stream(connection, f"LINES{run}")
        connection.close()
        count = int(self.count * scale)
        line = json.dumps({"subject": f"LINES{run}.a", "text": PAYLOAD.decode()}).encode() + b"\n"
        head = (
            b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-ndjson\r\n"
            b"Accept: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % (len(line) * count)
        )
        http = HttpConnection(http_address(peer))
        gc.disable()
        try:
            seconds = _stream(http.sock, memoryview(head + line * count), count)
        finally:
            gc.enable()
            http.close()
        return {"rate": count / seconds}


def _stream(sock: socket.socket, body: memoryview, count: int) -> float:
    """Send a body and count the results in the response; return the seconds until the last one."""
    sock.setblocking(False)
    poll = select.epoll()
    poll.register(sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
    start = time.perf_counter()
    sent, seen, rest = 0, 0, b""
    while seen < count:
        events = poll.poll(20)
        if not events:
            raise LoadError(f"{seen} of {count} receipts, then silence")
        if sent < len(body) and events[0][1] & select.EPOLLOUT:
            sent += sock.send(body[sent : sent + CHUNK])
            if sent == len(body):
                poll.modify(sock.fileno(), select.EPOLLIN)
        if events[0][1] & select.EPOLLIN:
            data = sock.recv(CHUNK)
            if not data or b'"error"' in data or b"HTTP/1.1 4" in data:
                raise LoadError(f"answered {data[:300]!r}")
            data = rest + data
            seen += data.count(b'"seq":')
            rest = data[-5:]
    poll.close()
    return time.perf_counter() - start
