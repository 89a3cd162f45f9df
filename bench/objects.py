"""The load of objects that are uploaded and downloaded over HTTP, beside a steady publisher."""

import hashlib
import http.client
import os
import time
from base64 import b64encode
from dataclasses import dataclass

from bench.http_wire import ask, http_address, json_request
from bench.load import Measure, stream
from bench.pace import pacing
from bench.peers import Peer
from bench.wire import Connection, LoadError

RATE = 1000
PIECE = 256 * 1024
_STORE = "/v1/objects/bench"


@dataclass(slots=True)
class Objects:
    """Upload and download a durable object of random bytes, with its digest checked both ways."""

    size: int

    def prepare(self, peer: Peer, scale: float) -> None:
        ask(peer, json_request("PUT", _STORE, b"{}"))

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        body = os.urandom(int(self.size * scale))
        digest = hashlib.sha256(body).digest()
        path = f"{_STORE}/blob{run}"
        connection = Connection(peer.address)
        stream(connection, f"BESIDE{run}")
        with pacing(peer.address, f"BESIDE{run}.a", RATE) as pace:
            pace.mark()
            time.sleep(0.5)
            pace.mark()
            up = _upload(peer, path, body, digest)
            pace.mark()
            down = _download(peer, path, digest)
            pace.end()
        connection.close()
        _, while_up, while_down = pace.parts
        return {
            "up": len(body) / 1e6 / up,
            "down": len(body) / 1e6 / down,
            "up_p99": while_up["p99"] * 1e3,
            "down_p99": while_down["p99"] * 1e3,
        }


def _upload(peer: Peer, path: str, body: bytes, digest: bytes) -> float:
    connection = http.client.HTTPConnection(*http_address(peer), timeout=120)
    sent = {"Repr-Digest": f"sha-256=:{b64encode(digest).decode()}:"}
    start = time.perf_counter()
    connection.request("PUT", path, body, sent)
    answer = connection.getresponse()
    content = answer.read()
    seconds = time.perf_counter() - start
    connection.close()
    if answer.status != 201:
        raise LoadError(f"answered {answer.status} {content[:300]!r}")
    return seconds


def _download(peer: Peer, path: str, digest: bytes) -> float:
    connection = http.client.HTTPConnection(*http_address(peer), timeout=60)
    start = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    seen = hashlib.sha256()
    while piece := answer.read(PIECE):
        seen.update(piece)
    seconds = time.perf_counter() - start
    connection.close()
    if seen.digest() != digest:
        raise LoadError("the object came back changed")
    return seconds
