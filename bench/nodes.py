"""Three nodes over one PostgreSQL: rates, kill -9, stalls, a thousand streams, no load.

python -m bench.nodes [--only PART] [--scale 1.0] [--kills 10] [--stalls 3]
    [--seconds 240] [--every 30] [--streams 1000] [--settles 5]
"""

import argparse

from bench.nodes_kills import kills, stalls, steady
from bench.nodes_many import create, idle, measure_takeover
from bench.nodes_rates import NODES, compare, everywhere
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer

PARTS = {
    "rates": "publish and pull at the leader of a stream, at another node, at all nodes",
    "kills": "kill -9 of the leader of a stream, under load",
    "steady": "one of three killed every so many seconds",
    "stalls": "SIGSTOP of the leader of a stream, and that one cut off from PostgreSQL in two ways",
    "settle": "many streams, spread over all nodes, after kill -9 of one of them",
    "idle": "what PostgreSQL and the nodes use while nothing happens",
}


def options() -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.nodes",
        description="Three nodes over one PostgreSQL. Parts: "
        + "; ".join(f"{name}: {what}" for name, what in PARTS.items()),
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; repeatable")
    parser.add_argument("--scale", type=float, default=1.0, help="of the messages of the rates")
    parser.add_argument(
        "--kills", type=int, default=10, help="of the leader of the stream, under load"
    )
    parser.add_argument("--stalls", type=int, default=3, help="of each kind")
    parser.add_argument("--seconds", type=float, default=240, help="how long nodes are killed")
    parser.add_argument("--every", type=float, default=30, help="seconds between two such kills")
    parser.add_argument("--streams", type=int, default=1000, help="that settle, and idle")
    parser.add_argument("--settles", type=int, default=5, help="kills with that many streams")
    return parser.parse_args()


def main() -> None:
    """Run the chosen parts, each with new nodes, and print the results."""
    chosen = options()
    parts = chosen.only or list(PARTS)
    with PostgresServer(settings={"fsync": "on"}) as postgres:
        if {"rates", "kills", "steady"} & {*parts}:
            with Nodes(postgres.fresh_database(), NODES) as nodes:
                if "rates" in parts:
                    compare(nodes, chosen.scale)
                    everywhere(nodes, chosen.scale)
                if "kills" in parts:
                    kills(nodes, chosen.kills)
                if "steady" in parts:
                    steady(nodes, chosen.seconds, chosen.every)
        if "stalls" in parts:
            stalls(postgres, chosen.stalls)
        if {"settle", "idle"} & {*parts}:
            with Nodes(postgres.fresh_database(), NODES) as nodes:
                create(nodes, chosen.streams, chosen.streams)
                if "settle" in parts:
                    measure_takeover(nodes, chosen.streams, chosen.settles)
                if "idle" in parts:
                    idle(postgres, nodes)


if __name__ == "__main__":
    main()
