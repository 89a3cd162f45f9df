"""The rows of the comparison with nats-server that use HTTP and WebSocket."""

from collections.abc import Callable

from bench.http_fetch import Fetch
from bench.http_idle import IdleHttp
from bench.load import Load
from bench.objects import Objects
from bench.rest import Each, Lines
from bench.row import Row
from bench.websocket import FanOut, Idle, Lateness, Resume

MIB = 1 << 20


def _row(
    name: str,
    load: Callable[[], Load],
    peer: str = "",
    unit: str = "rate",
    runs: int = 5,
    **floors: float,
) -> Row:
    peers = (peer, "jetgate") if peer else ("jetgate",)
    return Row(name, lambda _: load(), peers, unit, floors, runs, table="http")


HTTP_ROWS = (
    _row("rest publish", lambda: Each("publish", 20_000), "empty", empty=0.5),
    _row("rest publish, ndjson", lambda: Lines(200_000), rate=30_000),
    _row("rest fetch + ack, batches of 500", lambda: Fetch(100_000), rate=50_000),
    _row("rest fetch as lines", lambda: Fetch(200_000, lines=True), rate=100_000),
    _row("rest kv get", lambda: Each("get", 20_000), "empty", empty=0.5),
    _row("rest kv put", lambda: Each("put", 20_000), "empty", empty=0.4),
    _row(
        "objects of 64 MiB beside 1,000 publishes/s",
        lambda: Objects(64 * MIB),
        unit="up",
        runs=3,
        up=100.0,
        down=100.0,
        up_p99=50_000,
        down_p99=50_000,
    ),
    _row("websocket to 100 readers", lambda: FanOut(20_000, 1000), "nats", nats=0.3),
    _row(
        "websocket to 100 readers, a message a frame",
        lambda: FanOut(20_000, 1),
        "nats",
        nats=0.15,
    ),
    _row("websocket reader of 1,000 publishes/s", lambda: Lateness(1000), unit="p99", p99=25_000),
    _row(
        "5,000 idle websockets with a feed",
        lambda: Idle(5000),
        unit="grown",
        runs=1,
        grown=300 * MIB,
    ),
    _row(
        "5,000 websockets resume after kill -9",
        lambda: Resume(5000),
        unit="all",
        runs=3,
        all=15_000_000,
    ),
    _row("publish 128 B beside an idle HTTP side", lambda: IdleHttp(200_000), cost=1.1),
)
