"""The latency of PING at a busy server: `python -m bench.ping HOST PORT`.

It sends a PING every 2 ms until standard input ends, then prints the latencies in microseconds as
JSON.
"""

import json
import select
import sys
import time

from bench.wire import Connection, percentile

EVERY = 0.002


def main(host: str, port: int) -> None:
    """Send PINGs until standard input ends, then print their latencies."""
    connection = Connection((host, port))
    taken: list[float] = []
    while not select.select([sys.stdin], [], [], EVERY)[0]:
        start = time.perf_counter()
        connection.flush()
        taken.append((time.perf_counter() - start) * 1e6)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    print(json.dumps({name: percentile(taken, share) for name, share in shares.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
