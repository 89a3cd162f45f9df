"""Two nodes over one database, of which one ends at a point, and their answers to clients.

The answers are recorded (`Promises`) and compared with the state that a node reports and with
storage.
"""

import contextlib
import itertools
import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from core.storage.postgres.locks import LEASE_GROUPS
from tests.crash.pointed import POINTS_VARIABLE, Armed
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes, end_session, numbers
from tests.support.sql import on
from tests.support.wire import Closed, Frame, Wire

UNAVAILABLE = 10008
STREAMS = ("LOG", "OTHER")
_TAIL = 3000
_WITHIN = 60.0

_HALF = """
    select 'stream without head', name from jetgate_store.stream s
     where not dropped and not exists (select from jetgate_store.head h where h.stream = s.stream)
    union all
    select 'head without stream', h.stream::text from jetgate_store.head h
     where stream <> 0 and not exists
           (select from jetgate_store.stream s where s.stream = h.stream and not dropped)
    union all
    select 'consumer without stream', c.name from jetgate_store.consumer c
     where not exists (select from jetgate_store.stream s where s.stream = c.stream and not dropped)
    union all
    select 'row behind the head', m.stream || ' ' || m.seq from jetgate_store.message m
      join jetgate_store.head h using (stream) where m.seq > h.last_seq
"""


@dataclass(slots=True)
class Promises:
    """The answers that clients got, and the messages they sent."""

    attempts: Counter[bytes] = field(default_factory=Counter)
    acked: dict[tuple[str, int], bytes] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def answered(self, stream: str, value: bytes, answer: dict[str, Any]) -> None:
        """Record the answer to a publish."""
        if "error" in answer:
            self.refused.add(value)
            return
        before = self.acked.setdefault((stream, answer["seq"]), value)
        if before != value:
            self.wrong.append(f"{stream} {answer['seq']} was promised to {before!r} and {value!r}")

    def compare(self, stream: str, stored: dict[int, bytes]) -> list[str]:
        """Return the contradictions between a log and the recorded answers."""
        wrong = []
        for (name, seq), value in self.acked.items():
            if name == stream and stored.get(seq) != value:
                wrong.append(f"{value!r} is promised at {stream} {seq}: {stored.get(seq)!r}")
        for value, copies in Counter(stored.values()).items():
            if copies > self.attempts[value]:
                wrong.append(f"{value!r} is {copies} times in {stream}")
            if value in self.refused:
                wrong.append(f"{value!r} was refused, and is in {stream}")
        if sorted(stored) != list(range(1, len(stored) + 1)):
            wrong.append(f"{stream} has gaps")
        return wrong


class Asked:
    """A connection for requests, and the answers that have arrived so far."""

    def __init__(self, node: JetgateServer) -> None:
        self.wire = Wire(node.address, timeout=_WITHIN)
        self.wire.hello()
        self.wire.send(b"SUB in.* 1\r\n")
        self.wire.flush()
        self.answers: dict[str, list[Frame]] = {}
        self._is_open = True
        self._is_gathering = False
        self._requests = bytearray()

    def ask(self, name: str, subject: str, payload: bytes = b"") -> None:
        """Send a request; its answer is stored under `name`."""
        line = f"PUB {subject} in.{name} {len(payload)}\r\n".encode()
        self._requests += line + payload + b"\r\n"
        if not self._is_gathering:
            self._send()

    def _send(self) -> None:
        self.wire.send(bytes(self._requests))
        self._requests.clear()

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Send all requests of a block in one write."""
        self._is_gathering = True
        yield
        self._is_gathering = False
        self._send()

    def collect(self) -> None:
        """Collect every answer of the node, including those sent before it ended."""
        self.wire.send(b"PING\r\n")
        try:
            while self._is_open and (frame := self.wire.frame()).line != b"PONG":
                name = frame.subject.decode().removeprefix("in.")
                self.answers.setdefault(name, []).append(frame)
        except Closed:
            self._is_open = False

    def close(self) -> None:
        self.wire.close()


class World:
    """The nodes, and their answers since the beginning.

    Args:
        dsn: Connection string of a migrated database.
        env: Additional environment variables of the nodes.
    """

    def __init__(self, dsn: str, **env: str) -> None:
        self.dsn = dsn
        self.promises = Promises()
        self.names = itertools.count(1)
        self._nodes = Nodes(dsn, 2)
        for node in self._nodes.all:
            node.module = "tests.crash.pointed"
            node.env |= {**env, POINTS_VARIABLE: str(node.dir)}

    def __enter__(self) -> Self:
        self._nodes.__enter__()
        try:
            with self.talk(self._nodes.all[0]) as wire:
                for name in STREAMS:
                    config = {"name": name, "subjects": [f"{name.lower()}.>"], "allow_direct": True}
                    assert "error" not in wire.api(f"STREAM.CREATE.{name}", config)
                body = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 1_000_000_000}
                told = wire.api("CONSUMER.CREATE.LOG.C", {"stream_name": "LOG", "config": body})
                assert "error" not in told, told
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._nodes.__exit__()

    @contextlib.contextmanager
    def talk(self, node: JetgateServer) -> Iterator[Wire]:
        """Yield a connection to a node."""
        with Wire(node.address, timeout=_WITHIN) as wire:
            wire.hello()
            yield wire

    # -- the nodes ---------------------------------------------------------------------------

    def start_nodes(self) -> tuple[JetgateServer, JetgateServer]:
        """Start nodes that are not running; return the leader of LOG and the other node."""
        for node in self._nodes.all:
            if node.process is None:
                node.start()
        self._nodes.settled()
        eventually(self._is_level, within=_WITHIN)
        leader = self._nodes.leader_of("LOG")
        return leader, next(node for node in self._nodes.all if node is not leader)

    def _is_level(self) -> bool:
        """Return True if both lead about equally many streams, so that none is about to move."""
        with self.talk(self._nodes.all[0]) as wire:
            names = wire.api("STREAM.NAMES").get("streams") or []
            infos = [wire.api(f"STREAM.INFO.{name}") for name in names]
        if any("error" in info for info in infos):
            return False
        leads = Counter(info["cluster"]["leader"] for info in infos)
        return 2 * max(leads.values()) - len(infos) <= 1

    def clear(self) -> None:
        """Delete the streams of operations, which could make rebalancing move the others."""
        with self.talk(self._nodes.all[0]) as wire:
            for name in wire.api("STREAM.NAMES").get("streams") or []:
                if name not in STREAMS:
                    wire.api(f"STREAM.DELETE.{name}")

    def logs(self) -> list[str]:
        """Return the last log lines of each node."""
        return [f"{node.address} logged\n{node.log()[-_TAIL:]}" for node in self._nodes.all]

    def arm(self, node: JetgateServer, armed: Armed) -> None:
        """Make a node end at a point."""
        for name in ("reached", "passed"):
            (node.dir / name).unlink(missing_ok=True)
        (node.dir / "armed.new").write_bytes(msgspec.json.encode(armed))
        (node.dir / "armed.new").rename(node.dir / "armed")

    def end_at_point(self, node: JetgateServer) -> str:
        """Wait until the node ends; return the point, or "" if the operation has no such point."""

        def look() -> str | None:
            if (node.dir / "passed").exists():
                return "passed"
            return "ended" if _state(node) in ("Z", "T", "") else None

        if eventually(look, within=_WITHIN) == "passed":
            return ""
        if _state(node) != "T":
            assert node.process is not None
            assert node.process.wait(_WITHIN) == -signal.SIGKILL, node.log()
            node.process = None
        return (node.dir / "reached").read_text()

    def replace(self, node: JetgateServer) -> JetgateServer:
        """Wait until the other node owns all lease groups of a node that ended or stopped."""
        other = next(each for each in self._nodes.all if each is not node)
        if other.process is None:
            other.start()
        if _state(node) == "T":
            end_session(self.dsn, node)
        eventually(lambda: numbers(other)["jetgate_lease_groups"] == LEASE_GROUPS, within=_WITHIN)
        return other

    def go_on(self, node: JetgateServer) -> None:
        """Resume a stopped node."""
        if node.process is not None:
            node.process.send_signal(signal.SIGCONT)

    # -- checks ---------------------------------------------------------------------------------

    def publish(self, node: JetgateServer, stream: str) -> None:
        """Publish until the message is acknowledged."""
        value = b"%s-%d" % (stream.encode(), next(self.names))

        def is_stored() -> bool:
            self.promises.attempts[value] += 1
            with self.talk(node) as wire:
                answer = wire.request(f"{stream.lower()}.x", value).json()
            if "error" not in answer:
                self.promises.answered(stream, value, answer)
            return "error" not in answer

        eventually(is_stored, within=_WITHIN)

    def contradictions(self, node: JetgateServer) -> list[str]:
        """Return the contradictions between the state of a node and the recorded answers."""
        wrong = [*self.promises.wrong, *(f"{what}: {name}" for what, name in on(self.dsn, _HALF))]
        with self.talk(node) as wire:
            for stream in STREAMS:
                wrong += self.promises.compare(stream, _read(wire, stream))
            floor = wire.api("CONSUMER.INFO.LOG.C")["ack_floor"]["stream_seq"]
            if floor < max(self.promises.confirmed, default=0):
                wrong.append(f"the floor is {floor}: {max(self.promises.confirmed)} was confirmed")
        return wrong


def _state(node: JetgateServer) -> str:
    """Return the state letter of a process in /proc: T stopped, Z ended; empty if it is gone."""
    if node.process is None:
        return ""
    try:
        stat = Path(f"/proc/{node.process.pid}/stat").read_text()
    except FileNotFoundError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def _read(wire: Wire, stream: str) -> dict[int, bytes]:
    """Return every message of a stream."""
    state = wire.api(f"STREAM.INFO.{stream}")["state"]
    wire.send(b"SUB all.%s all\r\n" % stream.encode())
    found = {}
    asked = {"seq": 1, "batch": state["messages"]}
    if state["messages"]:
        body = json.dumps(asked).encode()
        wire.publish(f"$JS.API.DIRECT.GET.{stream}", body, reply=b"all.%s" % stream.encode())
        while b" 204 " not in (frame := wire.frame()).headers:
            lines = dict(
                line.split(b": ", 1) for line in frame.headers.split(b"\r\n") if b": " in line
            )
            found[int(lines[b"Nats-Sequence"])] = frame.payload
    wire.send(b"UNSUB all\r\n")
    return found
