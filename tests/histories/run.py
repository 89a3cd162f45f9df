"""One run: clients and faults, the end of all work, a final read, and the check of the history."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.histories import scenario
from tests.histories.bounded import Fader, Filler, Hirer, Maker
from tests.histories.checker import Violation, check
from tests.histories.client import GONE, Client, header
from tests.histories.cluster import Cluster, Node
from tests.histories.consumers import Puller, Pushed, retry
from tests.histories.faults import Chaos, Fault
from tests.histories.history import (
    Event,
    SharedWriter,
    Writer,
    read_history,
    read_rules,
    write_rules,
)
from tests.histories.pinned import RestConsumer, SocketConsumer, TailReader
from tests.histories.publishers import Batcher, KeyWriter, Publisher, RestPublisher, Rival
from tests.histories.readers import (
    Getter,
    Observer,
    OrderedReader,
    SocketReader,
    observe_consumer,
    observe_stream,
)
from tests.histories.removers import Remover
from tests.support.eventually import eventually
from tests.support.sql import on
from tests.support.wire import Frame, Silence, Wire

_LEADER_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run.

    Attributes:
        seconds: Seconds during which clients work and faults happen.
        seed: Seed of the random numbers of clients.
        nodes: Number of nodes.
        faults: The faults, in order of time.
        control: Name of the guard to remove from the nodes; empty for none.
        drain: Seconds within which all work must end after the faults; usually it takes one.
    """

    seconds: float
    seed: int
    nodes: int
    faults: tuple[Fault, ...]
    control: str = ""
    drain: float = 180.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The events of a run and the violations in them."""

    events: list[Event]
    violations: list[Violation]


Follower = OrderedReader | SocketReader | TailReader


class Load:
    """All clients of a run: some use any node, some always the same one.

    Life cycle: `start`, then `end` for publishers and later for the other clients.
    """

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        at = (cluster.addresses, directory)
        self.publishers: list[Client] = [
            Publisher("many", *at, window=16, pace=0.2),
            Publisher("plain", *at, window=8, pace=0.25, ids=False),
            Publisher("one", *at),
            Publisher("work", *at, stream="WORK", window=4, pace=0.1),
            Publisher("interest", *at, stream="INTEREST", window=4, pace=0.15),
            # Without ids: the next leader does not know the ids of removed messages.
            Publisher("hopper", *at, stream="HOPPER", window=4, pace=0.15, ids=False),
            Batcher("batch", *at),
            Rival("rival1", *at),
            Rival("rival2", *at),
            KeyWriter("key1", *at, seed),
            KeyWriter("key2", *at, seed),
            RestPublisher("rest", *at),
            Remover("bin1", *at, seed),
            Remover("bin2", *at, seed),
            # Without ids, as for the work queue.
            Publisher("ring", *at, stream="RING", window=8, pace=0.2, ids=False),
            Filler("full1", *at),
            Filler("full2", *at),
            Fader("fader", *at),
            Maker("MAKER", *at),
        ]
        log: dict[str, Any] = {"stream": "LOG"}
        self.followers: list[Follower] = [
            OrderedReader("ordered", *at),
            SocketReader("socket", *at),
        ]
        self.readers: list[Client] = [
            Puller("explicit", *at, **log, consumer="EXPLICIT"),
            Puller("none", *at, **log, consumer="NONE", acks="none"),
            Puller("all", *at, **log, consumer="ALL", acks="all"),
            Pushed("push", *at, **log, consumer="PUSH", deliver="push.one"),
            Pushed("member1", *at, **log, consumer="QUEUE", deliver="push.all", queue="members"),
            Pushed(
                "member2",
                *at,
                **log,
                consumer="QUEUE",
                deliver="push.all",
                queue="members",
                confirmed=False,
            ),
            Puller("trash", *at, stream="TRASH", consumer="TRASHER", confirmed=False),
            Puller("retry", *at, **log, consumer="RETRY", verdict=retry),
            Puller("worker1", *at, stream="WORK", consumer="WORKER"),
            Puller("worker2", *at, stream="WORK", consumer="WORKER"),
            Puller("first", *at, stream="INTEREST", consumer="FIRST"),
            Puller("second", *at, stream="INTEREST", consumer="SECOND"),
            Getter("getter", *at, seed),
            Observer("observer", *at),
        ]
        for number, node in enumerate(cluster.nodes):
            self._stay(number, node, directory, seed)
        self.readers += self.followers

    def _stay(self, number: int, node: Node, directory: Path, seed: int) -> None:
        """Add the clients that always use one node."""
        at = (node.addresses, directory)
        self.publishers.append(Hirer(f"hirer{number}", *at))
        self.followers += [
            OrderedReader(f"ordered{number}", *at),
            SocketReader(f"socket{number}", *at),
            TailReader(f"tail{number}", *at),
        ]
        self.readers += [
            Puller(f"pull{number}", *at, stream="LOG", consumer=f"PULL{number}"),
            RestConsumer(f"fetch{number}", *at, consumer=f"REST{number}"),
            SocketConsumer(f"feed{number}", *at, consumer=f"SOCKET{number}"),
            Getter(f"getter{number}", *at, seed),
            Observer(f"observer{number}", *at, streams=("LOG",), consumers=("WORKER",)),
        ]

    def start(self) -> None:
        """Start all clients."""
        for client in (*self.publishers, *self.readers):
            client.start()

    def end(self, clients: list[Client], within: float) -> list[str]:
        """Stop clients; return a text about each that failed or did not end within `within` s."""
        for client in clients:
            client.stopping.set()
        until = time.monotonic() + within
        wrong = []
        for client in clients:
            client.join(max(0.1, until - time.monotonic()))
            if client.is_alive():
                wrong.append(f"{client.name} has no answer {within:g} s after the faults")
            if client.failure:
                wrong.append(client.failure)
        return wrong


def play(plan: Plan, directory: Path, report: Callable[[str], None]) -> Outcome:
    """Run a plan and check its history.

    Args:
        plan: The parameters of the run.
        directory: Directory for the history files, which remain there.
        report: Called with progress messages.
    """
    write_rules(directory, scenario.rules(plan.nodes))
    with Cluster(plan.nodes, plan.control) as cluster, SharedWriter(directory, "run") as history:
        with contextlib.ExitStack() as stack:
            scenario.create([stack.enter_context(_connected(node)) for node in cluster.nodes])
        load = Load(cluster, directory, plan.seed)
        chaos = Chaos(cluster, history)
        load.start()
        try:
            chaos.play(plan.faults, plan.seconds)
            report("the faults are over")
            wrong = [*chaos.failures, *_finish(cluster, load, directory, plan.drain)]
        finally:
            for client in (*load.publishers, *load.readers):
                client.stopping.set()
        for text in wrong:
            history.write("end", "fail", how="stuck", text=text)
        for text in (*cluster.failures(), *cluster.tracebacks()):
            history.write("end", "fail", how="died", text=text)
        for node in cluster.nodes:
            (directory / f"{node.name}.log").write_text(node.log())
    events = read_history(directory)
    return Outcome(events, check(events, read_rules(directory)))


def _finish(cluster: Cluster, load: Load, directory: Path, within: float) -> list[str]:
    """Wait up to `within` seconds until all work has ended, then read all streams.

    Returns texts about unfinished work and unreadable streams.
    """
    wrong = load.end(load.publishers, within)
    with Writer(directory, "drain") as history:
        finisher = _Finisher(cluster, history)
        wrong += finisher.drain(load, within)
        wrong += load.end(load.readers, within)
        if not wrong:
            wrong += finisher.read()
    return wrong


class _Finisher:
    """The client that queries the cluster after the faults until all work has ended."""

    def __init__(self, cluster: Cluster, history: Writer) -> None:
        self._cluster = cluster
        self.history = history

    def drain(self, load: Load, within: float) -> list[str]:
        """Wait up to `within` seconds until all work has ended; return texts about the rest."""
        until = time.monotonic() + within
        left = ["nobody answers"]
        while left and time.monotonic() < until:
            with contextlib.suppress(*GONE), _talk(self._cluster) as wire:
                while (left := self._left(wire, load)) and time.monotonic() < until:
                    threading.Event().wait(0.1)
        return left

    def _left(self, wire: Wire, load: Load) -> list[str]:
        states = {name: observe_stream(self, wire, name) for name in scenario.STREAMS}
        if None in states.values():
            return ["streams tell nothing"]
        last = {name: state["last_seq"] for name, state in states.items() if state}
        left = [
            f"{name} still has {state['messages']} messages: {_who_reads(wire, name)}"
            for name, state in states.items()
            if state and name in ("WORK", "INTEREST", "HOPPER") and state["messages"]
        ]
        if last["MIRROR"] < last["LOG"]:
            left.append(f"MIRROR is at {last['MIRROR']} of {last['LOG']}")
        if last["SUM"] < last["LOG"] + last["HOPPER"]:
            left.append(f"SUM has {last['SUM']} of {last['LOG'] + last['HOPPER']}")
        for reader in load.followers:
            if reader.last < last["LOG"]:
                left.append(f"{reader.name} is at {reader.last} of {last['LOG']}")
        for name, (stream, _) in scenario.consumers(len(self._cluster.nodes)).items():
            info = observe_consumer(self, wire, stream, name)
            if info is None or info["num_pending"] or info["num_ack_pending"]:
                left.append(f"{name} is not done: {info}")
        return left

    def read(self) -> list[str]:
        """Read every stream completely, over NATS from each node, and by SQL; record the messages.

        Returns a text about each stream that cannot be read.
        """
        try:
            with _talk(self._cluster) as wire:
                for name in scenario.STREAMS:
                    self._read_over_nats(wire, name, "NATS")
                for name in wire.api("STREAM.NAMES")["streams"]:
                    if name not in scenario.STREAMS:
                        self.history.write("object", stream=name, how="left")
                for name in wire.api(f"CONSUMER.NAMES.{Hirer.stream}")["consumers"]:
                    self.history.write("object", stream=Hirer.stream, consumer=name, how="left")
            for node in self._cluster.nodes:
                with _connected(node) as wire:
                    for name in scenario.STREAMS:
                        self._read_over_nats(wire, name, node.name)
        except GONE as error:
            return [f"what is left cannot be read: {type(error).__name__}: {error}"]
        statement = "select stream, seq, subject, data from jetgate.messages order by stream, seq"
        for stream, seq, subject, data in on(self._cluster.dsn, statement):
            self.history.write(
                "stored", stream=stream, seq=seq, subject=subject, value=data.decode(), how="SQL"
            )
        return []

    def _read_over_nats(self, wire: Wire, stream: str, how: str) -> None:
        state = observe_stream(self, wire, stream)
        if not state or not state["messages"]:
            return
        reader = f"READER-{how}"
        config = {"name": reader, "ack_policy": "none", "mem_storage": True}
        body = {"stream_name": stream, "config": config}
        answer = wire.api(f"CONSUMER.CREATE.{stream}.{reader}", body)
        assert "error" not in answer, answer
        inbox, left = b"all.%s" % stream.encode(), state["messages"]
        wire.send(b"SUB %s %s\r\n" % (inbox, inbox))
        while left:
            ask = {"batch": min(left, 500), "expires": 5 * scenario.SECOND}
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{reader}"
            wire.publish(subject, json.dumps(ask).encode(), reply=inbox)
            for _ in range(ask["batch"]):
                self._note(stream, wire.frame(), how)
            left -= ask["batch"]

    def _note(self, stream: str, frame: Frame, how: str) -> None:
        if not frame.reply:
            raise Silence(f"{stream} cannot be read to its end: {frame}")
        parts = frame.reply.split(b".")
        self.history.write(
            "stored",
            stream=stream,
            seq=int(parts[5]),
            subject=frame.subject.decode(),
            value=frame.payload.decode(),
            time=int(parts[7]),
            msg_id=header(frame, "Nats-Msg-Id"),
            size=_size(frame),
            origin=" ".join(header(frame, "Nats-Stream-Source").split(" ")[:2]),
            how=how,
        )


def _who_reads(wire: Wire, stream: str) -> str:
    """Return a text on the consumers of a stream and the sources of the stream SUM."""
    told = wire.api(f"CONSUMER.LIST.{stream}").get("consumers")
    copies = wire.api("STREAM.INFO.SUM").get("sources")
    return f"consumers {told}, sources of SUM {copies}"


def _size(frame: Frame) -> int:
    """Return the bytes that a message adds to its stream's size, as in nats-server's file store."""
    headers = len(frame.headers) + 4 if frame.headers else 0
    return 30 + len(frame.subject) + headers + len(frame.payload)


@contextlib.contextmanager
def _talk(cluster: Cluster) -> Iterator[Wire]:
    """Yield a connection to the leader of LOG.

    Raises ConnectionError if there is none for `_LEADER_S` seconds.
    """
    try:
        leader = eventually(lambda: cluster.leader("LOG"), within=_LEADER_S)
    except AssertionError:
        raise ConnectionError("nobody leads LOG") from None
    with _connected(leader) as wire:
        yield wire


@contextlib.contextmanager
def _connected(node: Node) -> Iterator[Wire]:
    with Wire(node.nats, timeout=10) as wire:
        wire.hello()
        yield wire
