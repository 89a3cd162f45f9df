"""The load of publishing over HTTP: one request per message, or one NDJSON body."""

import gc
import json
import select
import socket
import time

from bench.peers import Peer
from bench.wire import CHUNK, Address, Connection, Lane, LoadError, one_by_one, percentile, pump
from tests.support.jetgate import JetgateServer

PAYLOAD = b"x" * 128
CONNECTIONS = 16


class HttpConnection(Connection):
    """A keep-alive connection to the HTTP port; only its socket is used."""

    def __init__(self, address: Address) -> None:
        self.sock = socket.create_connection(address, timeout=30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _address(peer: Peer) -> Address:
    assert isinstance(peer, JetgateServer), "only jetgate speaks HTTP"
    return peer.http


def post_each(peer: Peer, subject: str, count: int) -> dict[str, float]:
    """Send one POST per message; return the latency on one connection, the rate over 16."""
    request = (
        b"POST /v1/subjects/%s HTTP/1.1\r\nHost: bench\r\nContent-Type: text/plain\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (subject.encode(), len(PAYLOAD), PAYLOAD)
    )
    connection = HttpConnection(_address(peer))
    connection.send(request)
    lines = _response_lines(connection)
    taken = one_by_one(connection, [request] * max(200, count // 10), lines)
    connection.close()
    each = count // CONNECTIONS
    lanes = [Lane(HttpConnection(_address(peer)), [request] * each) for _ in range(CONNECTIONS)]
    seconds = pump(lanes, window=1, lines=lines)
    for lane in lanes:
        lane.connection.close()
    return {"rate": each * CONNECTIONS / seconds, "p50": percentile(taken, 0.5) / 1e3}


def _response_lines(connection: Connection) -> int:
    data = b""
    while b"\r\n\r\n" not in data or not data.rstrip().endswith(b"}"):
        piece = connection.sock.recv(CHUNK)
        if not piece:
            raise LoadError(f"closed: {data!r}")
        data += piece
    if not data.startswith(b"HTTP/1.1 201"):
        raise LoadError(f"answered {data!r}")
    return data.count(b"\n")


def post_lines(peer: Peer, subject: str, count: int) -> dict[str, float]:
    """Send one NDJSON body of `count` messages, reading the results meanwhile; return the rate."""
    line = json.dumps({"subject": subject, "text": PAYLOAD.decode()}).encode() + b"\n"
    head = (
        b"POST /v1/publish HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-ndjson\r\n"
        b"Accept: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % (len(line) * count)
    )
    connection = HttpConnection(_address(peer))
    gc.disable()
    try:
        seconds = _stream(connection.sock, memoryview(head + line * count), count)
    finally:
        gc.enable()
        connection.close()
    return {"rate": count / seconds}


def _stream(sock: socket.socket, body: memoryview, count: int) -> float:
    """Send a body and count the acks in the response; return the seconds until the last one."""
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
