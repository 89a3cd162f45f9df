"""The load of Direct Get for the last messages of 1,000 of a million subjects (ADR-31)."""

import json
import random
import time
from dataclasses import dataclass

from bench.load import Measure, fill
from bench.peers import Peer
from bench.wire import CHUNK, Connection, LoadError, percentile

SIDE = 1000
REQUESTS = 15
NAME = "MULTI"


def _token(number: int) -> bytes:
    return b"%d.%d" % divmod(number, SIDE)


@dataclass(slots=True)
class MultiLast:
    """Sequential requests in three forms; medians in microseconds until the last message of an
    answer.

    `p50` is for a thousand adjacent subjects, by a wildcard at the end. `spread` is for a thousand
    scattered subjects, by a wildcard in the middle. `listed` is for a thousand literal subjects.
    """

    def prepare(self, peer: Peer, scale: float) -> None:
        fill(peer, NAME, SIDE * SIDE, SIDE * SIDE, _token, allow_direct=True)
        connection = Connection(peer.address)
        connection.send(b"SUB _INBOX.multi 1\r\n")
        for form in range(3):  # exclude structures that the first request builds
            _ask(connection, _filters(form, 0), SIDE)
        connection.close()

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        connection = Connection(peer.address)
        connection.send(b"SUB _INBOX.multi 1\r\n")
        found: Measure = {}
        for form, name in enumerate(("p50", "spread", "listed")):
            asked = [_filters(form, run * REQUESTS + i) for i in range(REQUESTS)]
            taken = [_ask(connection, filters, SIDE) for filters in asked]
            found[name] = percentile(taken, 0.5) * 1e6
        connection.close()
        return found


def _filters(form: int, number: int) -> list[str]:
    choose = random.Random(number)
    if form < 2:
        token = choose.randrange(SIDE)
        return [f"{NAME}.{token}.*" if form == 0 else f"{NAME}.*.{token}"]
    return [f"{NAME}.{_token(n).decode()}" for n in choose.sample(range(SIDE * SIDE), SIDE)]


def _ask(connection: Connection, filters: list[str], count: int) -> float:
    """Send a request and read its answers; return the duration in seconds."""
    body = json.dumps({"multi_last": filters}).encode()
    ask = b"PUB $JS.API.DIRECT.GET.%s _INBOX.multi %d\r\n%s\r\n" % (
        NAME.encode(),
        len(body),
        body,
    )
    parts = []
    end = b""
    start = time.perf_counter()
    connection.send(ask)
    while b"NATS/1.0 204" not in end:
        data = connection.sock.recv(CHUNK)
        if not data or b"NATS/1.0 4" in data:
            raise LoadError(f"answered {data[:300]!r}")
        parts.append(data)
        end = end[-12:] + data
    seconds = time.perf_counter() - start
    got = b"".join(parts).count(b"Nats-Sequence: ")
    if got != count:
        raise LoadError(f"{got} of {count} messages")
    while not end.endswith(b"\r\n\r\n\r\n"):  # read until the status is complete
        end = end[-12:] + connection.sock.recv(CHUNK)
    return seconds
