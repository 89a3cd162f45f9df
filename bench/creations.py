"""The rate of creating streams and consumers, one at a time and many at once.

python -m bench.creations [--count 1000] [--nodes 1]
"""

import argparse
import json
from collections.abc import Sequence

from bench.wire import Connection, Sender, one_by_one, pump
from core.units import NANOS_PER_SECOND
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer

WINDOW = 64


def requests(kind: str, name: str, count: int, places: int = 1) -> list[list[bytes]]:
    """Return requests that create `count` streams or consumers, distributed over `places`
    connections.

    The result has a list of requests for each connection. Request number n belongs to connection
    n modulo `places`; connection i receives its answers at `_INBOX.<i>`.
    """
    return [
        [_request(kind, f"{name}{number}", place) for number in range(place, count, places)]
        for place in range(places)
    ]


def listen(connections: Sequence[Connection]) -> None:
    """Subscribe each connection to the inbox of its answers."""
    for place, connection in enumerate(connections):
        connection.send(b"SUB _INBOX.%d 1\r\n" % place)
        connection.flush()


def _request(kind: str, name: str, place: int) -> bytes:
    subject, body = {
        "stream": (f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]}),
        "consumer": (
            f"CONSUMER.CREATE.{name}.C",
            {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}},
        ),
    }[kind]
    payload = json.dumps(body).encode()
    head = b"PUB $JS.API.%b _INBOX.%d %d\r\n" % (subject.encode(), place, len(payload))
    return head + payload + b"\r\n"


def measure(connections: Sequence[Connection], count: int) -> None:
    """Print how many streams and consumers are created per second; each node gets an equal
    share.
    """
    listen(connections)
    for kind in ("stream", "consumer"):
        alone, places = 0.0, len(connections)
        for each in zip(connections, requests(kind, "A", count, places), strict=True):
            alone += sum(one_by_one(*each)) / NANOS_PER_SECOND
        shares = requests(kind, "B", count, places)
        senders = [Sender(*each) for each in zip(connections, shares, strict=True)]
        together = pump(senders, window=WINDOW // len(senders))
        print(f"{kind:10}{count / alone:8.0f}/s one by one  {count / together:8.0f}/s at once")


def main() -> None:
    """Measure one node, or several in rotation; each owns the streams that it creates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args()
    with (
        PostgresServer(settings={"fsync": "on"}) as postgres,
        Nodes(postgres.fresh_database(), options.nodes) as nodes,
    ):
        connections = [Connection(node.address) for node in nodes.all]
        measure(connections, options.count)
        for connection in connections:
            connection.close()


if __name__ == "__main__":
    main()
