"""The faults of a run: a schedule, derived from the seed, and its execution on the cluster."""

import contextlib
import itertools
import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from tests.histories.cluster import Cluster, Node
from tests.histories.history import SharedWriter
from tests.histories.scenario import STREAMS
from tests.support.nodes import step_down
from tests.support.sql import on

KINDS = {
    "kill": "kill -9 of the leader of a stream",
    "kill-standby": "kill -9 of a node that does not lead LOG",
    "stop": "SIGSTOP of the leader of a stream",
    "stop-standby": "SIGSTOP of a node that does not lead LOG",
    "term": "SIGTERM of the leader of a stream",
    "move": "STREAM.LEADER.STEPDOWN: another node is to lead a stream",
    "skew": "kill -9 of the leader of a stream, whose clock is an hour wrong when it comes back",
    "sessions": "every session of PostgreSQL terminated",
    "lock": "every session with locks terminated",
    "postgres-quit": "immediate stop of PostgreSQL",
    "postgres-kill": "kill -9 of every process of PostgreSQL",
    "postgres-power": "power cut: of PostgreSQL's log only what was flushed is left",
    "cut": "connections of the leader of a stream to PostgreSQL ended, and new ones",
    "hold": "nothing passes between the leader of a stream and PostgreSQL",
    "hold-to-node": "PostgreSQL hears the leader of a stream, who hears nothing",
    "hold-to-database": "the leader of a stream hears PostgreSQL, which hears nothing",
    "slow": "what passes between the leader of a stream and PostgreSQL is late",
    "hold-standby": "nothing passes between a node that does not lead LOG and PostgreSQL",
    "link-cut": "connections between two nodes ended, and new ones",
    "link-hold": "nothing passes between two nodes",
    "link-hold-one": "of two nodes one hears the other, who hears nothing",
    "link-slow": "what passes between two nodes is late",
}
_STREAMS = tuple(STREAMS)
_STANDBY = {"kill-standby", "stop-standby", "hold-standby"}
_NEED_PEERS = {*_STANDBY, "move", "link-cut", "link-hold", "link-hold-one", "link-slow"}
_END = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
_TERMINATE = {
    "sessions": f"{_END} and datname = current_database()",
    "lock": f"{_END} and pid in (select pid from pg_locks where locktype = 'advisory')",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in the schedule of a run.

    Attributes:
        at: Start of the fault, in seconds after the start of the run.
        kind: A key of `KINDS`.
        seconds: Duration; 0 for an instantaneous fault.
        which: A number that selects the stream, node, link or direction; 0 selects the stream LOG.
    """

    at: float
    kind: str
    seconds: float
    which: int

    def __str__(self) -> str:
        lasts = "" if not self.seconds else f" for {self.seconds:.1f} s"
        return f"{self.at:7.1f} s  {self.kind}{lasts}: {KINDS[self.kind]}"


_LONGEST = {
    "stop": 20.0,
    "stop-standby": 20.0,
    "cut": 8.0,
    "hold": 15.0,
    "hold-to-node": 15.0,
    "hold-to-database": 15.0,
    "slow": 6.0,
    "hold-standby": 15.0,
    "link-cut": 15.0,
    "link-hold": 15.0,
    "link-hold-one": 15.0,
    "link-slow": 8.0,
}


_PAUSE_S = (2.0, 6.0)
"""Minimum and maximum of the seconds from the start of one fault to the start of the next.

Faults may overlap. In a short run these pauses are shortened, at most by half, so that one minute
has about every kind of fault.
"""


def schedule(seed: int, seconds: float, nodes: int, only: Sequence[str] = ()) -> list[Fault]:
    """Return the faults of a run.

    Args:
        seed: Seed of the random numbers; the same seed gives the same faults.
        seconds: Latest end of a fault, in seconds after the start of the run.
        nodes: Number of nodes; some kinds need several.
        only: Kinds of faults to use; empty for all.
    """
    choose = random.Random(seed)
    kinds = [kind for kind in only or KINDS if nodes > 1 or kind not in _NEED_PEERS]
    faults: list[Fault] = []
    haste = min(1.0, max(0.5, (seconds - _PAUSE_S[1]) / (len(kinds) * sum(_PAUSE_S) / 2)))
    at = choose.uniform(*_PAUSE_S) * haste
    deck: list[str] = []
    while at < seconds - 1:
        if not deck:  # each kind once before any repeats
            deck = choose.sample(kinds, len(kinds))
        kind = deck.pop()
        longest = min(_LONGEST.get(kind, 0.0), seconds - at)
        lasts = choose.uniform(0.2, longest) if longest else 0.0
        faults.append(Fault(at, kind, lasts, choose.randrange(1 << 16)))
        at += choose.uniform(*_PAUSE_S) * haste
    return faults


def _delay(fault: Fault) -> float:
    """Return the delay of a slow connection, in seconds."""
    return 0.05 + fault.which % 200 / 1000


class Chaos:
    """Causes the faults of a schedule.

    Args:
        cluster: The cluster in which it causes faults.
        history: The history in which it records them.
    """

    def __init__(self, cluster: Cluster, history: SharedWriter) -> None:
        self._cluster = cluster
        self._history = history
        self._continuous: list[threading.Thread] = []
        self._busy = threading.Lock()
        self._held: set[str] = set()
        self._never = threading.Event()
        self.failures: list[str] = []

    def play(self, faults: Sequence[Fault], seconds: float) -> None:
        """Cause all faults at their times; return after `seconds`, when all have ended."""
        began = time.monotonic()
        for fault in faults:
            self._never.wait(max(0.0, began + fault.at - time.monotonic()))
            self._begin(fault)
        self._never.wait(max(0.0, began + seconds - time.monotonic()))
        for thread in self._continuous:
            thread.join()

    def _begin(self, fault: Fault) -> None:
        if fault.kind in _TERMINATE or fault.kind.startswith("postgres"):
            self._history.write("fault", "invoke", text=str(fault))
            self._to_postgres(fault)
            return
        victims = self._victims(fault)
        name = " - ".join(node.name for node in victims)
        with self._busy:
            if not victims or name in self._held:
                self._history.write("fault", "fail", text=f"{fault}: nobody to do it to")
                return
            self._held.add(name)
        thread = threading.Thread(target=self._do, args=(fault, victims, name))
        self._continuous.append(thread)
        thread.start()

    def _victims(self, fault: Fault) -> tuple[Node, ...]:
        """Return the affected node, or both nodes of a link; empty if the stream has no leader."""
        if fault.kind.startswith("link"):
            pairs = list(itertools.combinations(self._cluster.nodes, 2))
            first, second = pairs[fault.which % len(pairs)]
            return (first, second) if fault.which // len(pairs) % 2 else (second, first)
        if fault.kind not in _STANDBY:
            stream = _STREAMS[fault.which % len(_STREAMS)]
            leader = self._cluster.leader(stream)
            return () if leader is None else (leader,)
        leader = self._cluster.leader(_STREAMS[0])
        others = [node for node in self._cluster.nodes if node is not leader]
        return (others[fault.which % len(others)],)

    def _do(self, fault: Fault, victims: tuple[Node, ...], name: str) -> None:
        try:
            self._history.write("fault", "invoke", text=f"{fault} ({name})")
            if fault.kind.startswith("link"):
                self._to_link(fault, *victims)
            else:
                self._to_node(fault, *victims)
            self._history.write("fault", "ok", text=f"{fault} ({name})")
        except Exception as error:
            self.failures.append(f"{fault} ({name}): {type(error).__name__}: {error}")
        finally:
            with self._busy:
                self._held.discard(name)

    def _to_link(self, fault: Fault, one: Node, other: Node) -> None:
        """Disturb the link of two nodes; held in one direction, only `other` receives nothing."""
        ends = ((one.routes, other.name, True), (other.routes, one.name, False))
        for routes, peer, is_one in ends:
            if fault.kind == "link-cut":
                routes.disconnect(peer)
            elif fault.kind == "link-slow":
                routes.slow(peer, _delay(fault))
            else:
                both = fault.kind == "link-hold"
                routes.hold(peer, to_peer=both or is_one, from_peer=both or not is_one)
        try:
            self._never.wait(fault.seconds)
        finally:
            for routes, peer, _ in ends:
                routes.heal(peer)

    def _to_node(self, fault: Fault, node: Node) -> None:
        kind = fault.kind
        if kind.startswith("kill") or kind in ("term", "skew"):
            if kind == "skew":
                node.skew = 3600 if fault.which % 2 else -3600
            try:
                node.end(signal.SIGTERM if kind == "term" else signal.SIGKILL)
            finally:
                node.start()
        elif kind == "move":
            # Refused during some other faults.
            step_down(node.nats, _STREAMS[fault.which % len(_STREAMS)])
        elif kind.startswith("stop"):
            node.send(signal.SIGSTOP)
            self._never.wait(fault.seconds)
            node.send(signal.SIGCONT)
        else:
            self._to_database(fault, node)

    def _to_database(self, fault: Fault, node: Node) -> None:
        if fault.kind == "cut":
            node.proxy.disconnect()
        elif fault.kind == "slow":
            node.proxy.slow(_delay(fault))
        else:
            node.proxy.hold(
                to_database=fault.kind != "hold-to-node", to_node=fault.kind != "hold-to-database"
            )
        try:
            self._never.wait(fault.seconds)
        finally:
            node.proxy.heal()

    def _to_postgres(self, fault: Fault) -> None:
        if fault.kind in _TERMINATE:
            with contextlib.suppress(OSError, asyncpg.PostgresError):  # PostgreSQL may be away
                on(self._cluster.dsn, _TERMINATE[fault.kind])
        elif fault.kind == "postgres-power":
            with contextlib.suppress(OSError, asyncpg.PostgresError):  # likewise
                self._cluster.switch_off()
        else:
            number = signal.SIGQUIT if fault.kind == "postgres-quit" else signal.SIGKILL
            self._cluster.kill_postgres(number)
