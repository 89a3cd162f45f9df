"""Streams and consumers created a second, one at a time and many at once.

python -m bench.creations [--count 1000] [--nodes 1]
"""

import argparse
import json

from bench.wire import Connection, Lane, one_by_one, pump
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer

WINDOW = 64


def requests(kind: str, name: str, count: int) -> list[bytes]:
    """The requests that create so many streams, or a consumer of each of them."""
    return [_request(kind, f"{name}{number}") for number in range(count)]


def _request(kind: str, name: str) -> bytes:
    subject, body = {
        "stream": (f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]}),
        "consumer": (
            f"CONSUMER.CREATE.{name}.C",
            {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}},
        ),
    }[kind]
    payload = json.dumps(body).encode()
    return b"PUB $JS.API.%b _INBOX.c %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)


def measure(connection: Connection, count: int) -> None:
    """Print how many of each kind are created a second."""
    connection.send(b"SUB _INBOX.c 1\r\n")
    connection.flush()
    for kind in ("stream", "consumer"):
        alone = sum(one_by_one(connection, requests(kind, "A", count))) / 1e9
        lane = Lane(connection, requests(kind, "B", count))
        together = pump([lane], window=WINDOW)
        print(f"{kind:10}{count / alone:8.0f}/s one by one  {count / together:8.0f}/s at once")


def main() -> None:
    """Measure a node, or several, whose leader is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args()
    with (
        PostgresServer(settings={"fsync": "on"}) as postgres,
        Nodes(postgres.fresh_database(), options.nodes) as nodes,
    ):
        connection = Connection(nodes.leader.address)
        measure(connection, options.count)
        connection.close()


if __name__ == "__main__":
    main()
