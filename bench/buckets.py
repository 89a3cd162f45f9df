"""Key-value and objects over HTTP: `python -m bench.buckets`.

Rates of GET and PUT of one key at a time over 64 connections, beside an empty Starlette route on
the same uvicorn, in turns; then an object of random bytes up and down, with its digest checked.
"""

import argparse
import hashlib
import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from bench.report import machine
from bench.rest import HttpConnection
from bench.wire import Address, Lane, pump
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer

CONNECTIONS = 64
VALUE = b"x" * 128
KEYS = 1000
SIZE = 64 * 1024 * 1024
PIECE = 256 * 1024

_EMPTY = """
import asyncio, socket, sys
import uvicorn, uvloop
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from gateway.http_protocol import HttpProtocol

async def empty(request):
    return Response(b"ok\\n")

app = Starlette(routes=[Route("/", empty)])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, ws="none",
            lifespan="off", server_header=False, http=HttpProtocol, loop="uvloop")
"""


@contextmanager
def empty_route() -> Iterator[Address]:
    """An empty Starlette route in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address: Address = free.getsockname()
    process = subprocess.Popen([sys.executable, "-c", _EMPTY, str(address[1])])
    try:
        eventually(lambda: _answers(address), within=30)
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(address: Address) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """The bytes of a request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def rate(address: Address, requests: list[bytes]) -> float:
    """Requests per second over 64 connections, each with one request at a time."""
    probe = HttpConnection(address)
    probe.send(requests[0])
    answer = probe.sock.recv(65536)
    if not answer.startswith(b"HTTP/1.1 2"):
        raise SystemExit(f"answered {answer!r}")
    lines = answer.count(b"\n")
    probe.close()
    lanes = [Lane(HttpConnection(address), requests[i::CONNECTIONS]) for i in range(CONNECTIONS)]
    seconds = pump(lanes, window=1, lines=lines)
    for lane in lanes:
        lane.connection.close()
    return len(requests) / seconds


def keys(server: JetgateServer, count: int, runs: int) -> None:
    """Print the rates of key-value requests and their parts of the empty route's rate."""
    call(server, "PUT", "/v1/kv/bench", b"{}", {"Content-Type": "application/json"})
    path = "/v1/kv/bench/user.{}.name".format
    puts = [request("PUT", path(number % KEYS), VALUE) for number in range(count)]
    gets = [request("GET", path(number % KEYS)) for number in range(count)]
    rows: dict[str, list[float]] = {"empty route": [], "put": [], "get": []}
    with empty_route() as empty:
        for _ in range(runs):
            rows["empty route"].append(rate(empty, [request("GET", "/")] * count))
            rows["put"].append(rate(server.http, puts))
            rows["get"].append(rate(server.http, gets))
    for name, taken in rows.items():
        # Each beside the empty route of the same minute: the machine has other work, too.
        part = statistics.median(
            mine / whole for mine, whole in zip(taken, rows["empty route"], strict=True)
        )
        middle = statistics.median(taken)
        print(f"{name:<12} {middle:>8.0f}/s  {part:.2f} of the empty route", flush=True)


def objects(server: JetgateServer, runs: int) -> None:
    """Print how fast an object goes up and comes down."""
    call(server, "PUT", "/v1/objects/bench", b"{}", {"Content-Type": "application/json"})
    body = os.urandom(SIZE)
    digest = hashlib.sha256(body).digest()
    ups, downs = [], []
    for run in range(runs):
        path = f"/v1/objects/bench/blob{run}"
        start = time.perf_counter()
        sent = {"Repr-Digest": f"sha-256=:{b64encode(digest).decode()}:"}
        call(server, "PUT", path, body, sent)
        ups.append(SIZE / 1e6 / (time.perf_counter() - start))
        downs.append(_download(server, path, digest))
        call(server, "DELETE", path)
    for name, taken in (("upload", ups), ("download", downs)):
        print(
            f"{name:<12} {statistics.median(taken):>8.0f} MB/s  (of {SIZE >> 20} MiB)", flush=True
        )


def _download(server: JetgateServer, path: str, digest: bytes) -> float:
    connection = http.client.HTTPConnection(*server.http, timeout=60)
    start = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    seen = hashlib.sha256()
    while piece := answer.read(PIECE):
        seen.update(piece)
    seconds = time.perf_counter() - start
    connection.close()
    assert seen.digest() == digest, "the object came back changed"
    return SIZE / 1e6 / seconds


def call(
    server: JetgateServer,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> None:
    """Send one request. Raises SystemExit when it is refused."""
    connection = http.client.HTTPConnection(*server.http, timeout=120)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {answer.status} {content[:300]!r}")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.buckets", description=__doc__)
    parser.add_argument("what", nargs="*", choices=["keys", "objects", []], default=[])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--count", type=int, default=30_000, help="requests of one run")
    chosen = parser.parse_args()
    print(machine())
    with JetgateServer() as server:
        if not chosen.what or "keys" in chosen.what:
            keys(server, chosen.count, chosen.runs)
        if not chosen.what or "objects" in chosen.what:
            objects(server, chosen.runs)


if __name__ == "__main__":
    main()
