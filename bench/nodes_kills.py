"""The effects on clients when nodes are killed, stopped, or cut off from PostgreSQL."""

import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import parse_qs, urlsplit

from bench.load import stream
from bench.nodes_load import TICK_S, Load, Publisher
from bench.wire import Connection
from core.storage.postgres.embedded.directory import SOCKET_NAME
from core.storage.postgres.locks import LEASE_GROUPS
from tests.histories.proxy import Proxy
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes, numbers
from tests.support.pg import PostgresServer

PAYLOAD = b"x" * 256
WINDOW, PROBES_A_SECOND = 500, 100
LOAD_A_SECOND = 500
CALM_S = 1.0


def publishers(nodes: Nodes, name: str, *, window: int = 0, rate: float = 0) -> list[Publisher]:
    """Return one publisher for each node; `window` and `rate` are those of `Publisher`."""
    places = [node.address for node in nodes.all]
    return [
        Publisher(number, places, name, PAYLOAD, window=window, rate=rate)
        for number in range(len(places))
    ]


def create(nodes: Nodes, name: str) -> None:
    """Create the stream that the publishers use."""
    connection = Connection(nodes.all[0].address)
    stream(connection, name)
    connection.close()


def kills(nodes: Nodes, count: int) -> None:
    """Kill the leader of the stream repeatedly; print the longest times without acknowledgement."""
    create(nodes, "KILL")
    probes = publishers(nodes, "KILL", rate=PROBES_A_SECOND)
    surviving: list[float] = []
    own: list[float] = []
    with Load([*probes, *publishers(nodes, "KILL", window=WINDOW)]) as load:
        _calm(load)
        for number in range(count):
            victim = nodes.all.index(nodes.leader_of("KILL"))
            load.mark()
            began = time.perf_counter()
            nodes.all[victim].kill()
            _flow(load)
            surviving.append(max(p.gap for p in probes if p.home != victim))
            own.append(probes[victim].gap)
            print(
                f"kill {number + 1:3}: survivors {surviving[-1]:.2f} s, its own {own[-1]:.2f} s,"
                f" all publish after {time.perf_counter() - began - CALM_S:.2f} s",
                flush=True,
            )
            _restart(nodes, load, nodes.all[victim])
    _print_gaps("kill -9 of the leader, at another node", surviving)
    _print_gaps("kill -9 of the leader, at that node", own)


def _calm(load: Load) -> None:
    """Let the publishers run for a second, then wait until each gets an acknowledgement."""
    time.sleep(CALM_S)
    since = time.perf_counter()
    eventually(lambda: load.flows(since), within=120)


def _flow(load: Load) -> None:
    """Wait until each publisher gets an acknowledgement again, then for another second."""
    since = time.perf_counter()
    eventually(lambda: load.flows(since), within=120)
    time.sleep(CALM_S)


def _restart(nodes: Nodes, load: Load, node: JetgateServer) -> None:
    node.start()
    nodes.settled()
    load.go_home()
    _calm(load)


def _print_gaps(what: str, gaps: Sequence[float]) -> None:
    if gaps:
        print(
            f"{what:44} {len(gaps):3} times: no acknowledgement for"
            f" {median(gaps):.2f} s (median), {max(gaps):.2f} s (worst)",
            flush=True,
        )


def stalls(postgres: PostgresServer, count: int) -> None:
    """Stop the leader of the stream, and cut it off from PostgreSQL; each fault `count` times."""
    url = urlsplit(postgres.fresh_database())
    database, [directory] = url.path[1:], parse_qs(url.query)["host"]
    proxies = [Proxy(str(Path(directory) / SOCKET_NAME)) for _ in range(3)]
    dsns = [
        f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}?sslmode=disable"
        for proxy in proxies
    ]
    nodes = Nodes(dsns[0], 3)
    for node, dsn in zip(nodes.all, dsns, strict=True):
        node.command = ["serve", "--dsn", dsn]
    try:
        with nodes:
            _stall(nodes, proxies, count)
    finally:
        for proxy in proxies:
            proxy.__exit__()


def _stall(nodes: Nodes, proxies: Sequence[Proxy], count: int) -> None:
    create(nodes, "STALL")
    probes = publishers(nodes, "STALL", rate=PROBES_A_SECOND)
    with Load([*probes, *publishers(nodes, "STALL", rate=LOAD_A_SECOND)]) as load:
        _calm(load)
        for what, begin, end in _STALLS:
            gaps = []
            for number in range(count):
                leader = nodes.leader_of("STALL")
                place = nodes.all.index(leader)
                others = [probe for probe in probes if probe.home != place]
                load.mark()
                begin(leader, proxies[place])
                _all_is_led([node for node in nodes.all if node is not leader])
                _flow_of(others)
                gaps.append(max(probe.gap for probe in others))
                end(leader, proxies[place])
                print(f"{what} {number + 1}: {gaps[-1]:.2f} s", flush=True)
                nodes.settled()
                load.go_home()
                _calm(load)
            _print_gaps(what + ", at another node", gaps)


def _send(number: signal.Signals, node: JetgateServer, _proxy: Proxy) -> None:
    assert node.process is not None
    node.process.send_signal(number)


def _disconnect(_node: JetgateServer, proxy: Proxy) -> None:
    proxy.disconnect()


def _hold(_node: JetgateServer, proxy: Proxy) -> None:
    proxy.hold(to_database=True, to_node=True)


def _heal(_node: JetgateServer, proxy: Proxy) -> None:
    proxy.heal()


Change = Callable[[JetgateServer, Proxy], None]
_STALLS: tuple[tuple[str, Change, Change], ...] = (
    ("SIGSTOP of the leader", partial(_send, signal.SIGSTOP), partial(_send, signal.SIGCONT)),
    ("connections to PostgreSQL ended", _disconnect, _heal),
    ("nothing passes to PostgreSQL", _hold, _heal),
)
"""Each fault of the leader: its name, the function that causes it, and the one that ends it."""


def _all_is_led(nodes: Sequence[JetgateServer]) -> None:
    """Wait until these nodes own all lease groups."""

    def groups() -> float:
        return sum(numbers(node)["jetgate_lease_groups"] for node in nodes)

    eventually(lambda: groups() == LEASE_GROUPS, within=60)


def _flow_of(probes: Sequence[Publisher]) -> None:
    since = time.perf_counter()
    eventually(lambda: all(probe.last > since for probe in probes), within=60)
    time.sleep(CALM_S)


def steady(nodes: Nodes, seconds: float, every: float) -> None:
    """Kill the nodes in rotation, one every `every` seconds; print rates and failover times."""
    create(nodes, "STEADY")
    some = publishers(nodes, "STEADY", window=WINDOW)
    failovers: list[tuple[float, float]] = []
    leaders = 0
    with Load(some) as load:
        _calm(load)
        began = time.perf_counter()
        for number in range(int(seconds / every)):
            victim = nodes.all[number % len(nodes.all)]
            leads = victim is nodes.leader_of("STEADY")
            leaders += leads
            load.mark()
            killed = time.perf_counter()
            victim.kill()
            eventually(lambda since=killed: load.flows(since + 0.05), within=60)  # type: ignore[misc]
            time.sleep(CALM_S)
            end = max(killed + 0.05, *(p.gap_end for p in some if p.gap > 0.1), killed + 0.05)
            failovers.append((killed, end))
            _restart(nodes, load, victim)
            print(f"{'leader' if leads else 'other'}: failover {end - killed:.2f} s", flush=True)
            time.sleep(max(0.0, began + (number + 1) * every - time.perf_counter()))
        ended = time.perf_counter()
    _print_steady(some, failovers, began, ended, leaders)
    connection = Connection(nodes.all[0].address)
    stored = connection.api("STREAM.INFO.STEADY")["state"]["messages"]
    connection.close()
    print(f"acknowledged {sum(sum(p.acks.values()) for p in some)}, stored {stored}", flush=True)


def _print_steady(
    some: Sequence[Publisher],
    failovers: Sequence[tuple[float, float]],
    began: float,
    ended: float,
    leaders: int,
) -> None:
    inside = outside = 0
    for publisher in some:
        for tick, count in publisher.acks.items():
            at = tick * TICK_S
            if any(start <= at <= end for start, end in failovers):
                inside += count
            elif began <= at <= ended:
                outside += count
    away = sum(end - start for start, end in failovers)
    whole = ended - began
    print(
        f"{len(failovers)} kills in {whole:.0f} s, {leaders} of the leader:"
        f" {outside / (whole - away):.0f} publishes/s outside failovers,"
        f" {(inside + outside) / whole:.0f}/s in all,"
        f" failover {away / whole:.1%} of the time",
        flush=True,
    )
