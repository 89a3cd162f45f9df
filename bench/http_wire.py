"""HTTP connections of the load generator, and the bytes of requests."""

import socket

from bench.peers import Peer
from bench.wire import CHUNK, Address, Connection, LoadError
from tests.support.natsserver import NatsServer

HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_LAST_CHUNK = b"0\r\n\r\n"


class HttpConnection(Connection):
    """A keep-alive connection to an HTTP port; the loads use its socket directly."""

    def __init__(self, address: Address) -> None:
        self.sock = socket.create_connection(address, timeout=30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def http_address(peer: Peer) -> Address:
    """Return the address of a server's HTTP port."""
    assert not isinstance(peer, NatsServer), "it speaks no HTTP"
    return peer.http


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Return the bytes of an HTTP request; names in `headers` have `_` in place of `-`."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + HEAD_END + body


def json_request(method: str, path: str, body: bytes, **headers: str) -> bytes:
    """Return the bytes of an HTTP request with a JSON body."""
    return request(method, path, body, Content_Type="application/json", **headers)


def is_whole(answer: bytes) -> bool:
    """Return True if an HTTP response is complete, by its Content-Length or its last chunk."""
    head, end, body = answer.partition(HEAD_END)
    if not end:
        return False
    at = head.lower().find(_LENGTH)
    if at >= 0:
        return len(body) >= int(head[at + len(_LENGTH) :].partition(b"\r\n")[0])
    return head[9:12] == b"204" or body.endswith(_LAST_CHUNK)


def answer_to(connection: HttpConnection, data: bytes) -> bytes:
    """Send a request and return its complete response. Raises LoadError if the status is an
    error.
    """
    connection.send(data)
    answer = b""
    while not is_whole(answer):
        piece = connection.sock.recv(CHUNK)
        if not piece:
            raise LoadError(f"closed: {answer[-200:]!r}")
        answer += piece
    if not answer.startswith(b"HTTP/1.1 2"):
        raise LoadError(f"answered {answer[:300]!r}")
    return answer


def ask(peer: Peer, data: bytes) -> bytes:
    """Send a request on a new connection and return its response, as `answer_to` does."""
    connection = HttpConnection(http_address(peer))
    try:
        return answer_to(connection, data)
    finally:
        connection.close()
