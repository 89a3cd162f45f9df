"""The type of a row of the comparison with nats-server: a load with its servers and floors."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.load import Load


@dataclass(slots=True)
class Row:
    """One row of the comparison with nats-server: the load, the servers that run it, and floors.

    `floors` are limits that jetgate's results must keep, by the name of a measure, or by the name
    of a server for the ratio to its result: minimums for rates, maximums for latencies. `unit` is
    the measure to compare. `runs` is the maximum number of runs. `table` is "" for the table of
    NATS, "http" for that of HTTP and WebSocket.
    """

    name: str
    load: Callable[[str], Load]
    peers: tuple[str, ...] = ("nats", "jetgate")
    unit: str = "rate"
    floors: dict[str, float] = field(default_factory=dict)
    runs: int = 5  # at most
    table: str = ""
