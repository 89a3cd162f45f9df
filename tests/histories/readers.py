"""Clients of a run that read without acks: ordered consumer, WebSocket feed, Direct Get, infos."""

import itertools
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.histories.client import Address, Addresses, Client, answer_flow_control
from tests.histories.history import Writer
from tests.histories.pinned import frames_of
from tests.histories.publishers import direct_get
from tests.histories.scenario import CONSUMERS, SECOND, STREAMS
from tests.support.wire import Closed, Frame, Wire


class OrderedReader(Client):
    """A client with an ordered consumer, which it creates again after the last received message."""

    stream = "LOG"

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self.last = 0
        self._made = 0

    def work(self, wire: Wire) -> None:
        while not self.stopping.is_set():
            sid, early = self._create(wire)
            cseq = 0
            for frame in itertools.chain(early, self.frames(wire)):
                if not frame.verb.endswith(b"MSG") or answer_flow_control(wire, frame):
                    continue
                if frame.line.split(b" ")[2] != sid or not frame.reply:
                    continue  # of an earlier consumer
                parts = frame.reply.split(b".")
                if int(parts[6]) != cseq + 1:
                    break
                cseq += 1
                self.last = int(parts[5])
                self.history.write(
                    "read",
                    stream=self.stream,
                    subject=frame.subject.decode(),
                    value=frame.payload.decode(),
                    seq=self.last,
                    time=int(parts[7]),
                )
            wire.send(b"UNSUB %s\r\n" % sid)

    def _create(self, wire: Wire) -> tuple[bytes, list[Frame]]:
        """Create the consumer; return the sid of its subscription, and frames before the answer."""
        self._made += 1
        inbox, sid = f"o.{self.name}.{self._made}", b"%d" % self._made
        wire.send(b"SUB %s %s\r\n" % (inbox.encode(), sid))
        config: dict[str, Any] = {
            "deliver_subject": inbox,
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "flow_control": True,
            "idle_heartbeat": SECOND,
            "inactive_threshold": 30 * SECOND,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.last + 1,
        }
        body = json.dumps({"stream_name": self.stream, "config": config}).encode()
        answer = b"c.%s.%d" % (self.name.encode(), self._made)
        wire.send(b"SUB %s %s\r\n" % (answer, b"9%s" % sid))
        wire.publish(f"$JS.API.CONSUMER.CREATE.{self.stream}", body, reply=answer)
        early = []
        # If the leader ended before it answered, the consumer exists and delivers.
        until = time.monotonic() + self.time_limit
        while not (frame := wire.frame(until - time.monotonic())).verb.endswith(b"MSG") or (
            frame.subject != answer
        ):
            early.append(frame)
        if not frame.payload or "error" in frame.json():
            self.stopping.wait(0.1)
            raise Closed(frame.payload.decode())
        return sid, early


class SocketReader(Client):
    """A client that reads a stream over WebSocket and resumes after its last message."""

    stream = "LOG"

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self.last = 0
        self._incarnation = ""

    def work(self, wire: Wire) -> None:
        raise NotImplementedError("it has a connection of another kind")

    def connect(self, nats: Address, http: Address) -> None:
        url = f"ws://{http[0]}:{http[1]}/v1/ws"
        try:
            with connect(url, open_timeout=self.time_limit, close_timeout=1, proxy=None) as socket:
                self.history.conn += 1
                self._follow(socket)
        except WebSocketException as error:
            self.stopping.wait(0.05)
            raise Closed(str(error)) from error

    def _follow(self, socket: Any) -> None:
        sub: dict[str, Any] = {"type": "sub", "id": 1, "sid": 1, "stream": self.stream}
        sub["from"] = "all"
        if self._incarnation:
            del sub["from"]
            sub["after"] = {"incarnation": self._incarnation, "seq": self.last}
        socket.send(json.dumps(sub))
        for frame in frames_of(self, socket):
            self._receive(frame)

    def _receive(self, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        if kind == "subscribed":
            self._incarnation = frame["incarnation"]
            if not frame.get("recovered", True):
                self.history.write("read", "fail", stream=self.stream, text=json.dumps(frame))
        elif kind in ("error", "ended"):
            raise Closed(json.dumps(frame))
        elif kind == "gap":
            self.history.write("read", "fail", stream=self.stream, text=json.dumps(frame))
        elif kind == "msg":
            for message in frame["messages"]:
                self.last = message["seq"]
                self.history.write(
                    "read",
                    stream=self.stream,
                    subject=message["subject"],
                    value=message.get("text", ""),
                    seq=self.last,
                )


class Getter(Client):
    """A client that reads single messages by Direct Get, from the stream and from its mirror."""

    def __init__(self, name: str, addresses: Addresses, directory: Path, seed: int) -> None:
        super().__init__(name, addresses, directory)
        self._choose = random.Random(f"{name}{seed}")

    def work(self, wire: Wire) -> None:
        known = 1
        while not self.stopping.wait(0.05):
            stream = self._choose.choice(["LOG", "LOG", "MIRROR"])
            subject = self._choose.choice(["log.many", "log.one", "log.rivals"])
            known = max(known, direct_get(self, wire, stream, subject))
            direct_get(self, wire, stream, "", self._choose.randint(1, known))


class Historian(Protocol):
    """An object that records its requests in a history."""

    history: Writer


class Observer(Client):
    """A client that repeatedly requests STREAM.INFO and CONSUMER.INFO and records the answers.

    Args:
        streams, consumers: Names of the streams and consumers.
    """

    def __init__(
        self,
        name: str,
        addresses: Addresses,
        directory: Path,
        *,
        streams: Iterable[str] = STREAMS,
        consumers: Iterable[str] = CONSUMERS,
    ) -> None:
        super().__init__(name, addresses, directory)
        self._streams, self._consumers = tuple(streams), tuple(consumers)

    def work(self, wire: Wire) -> None:
        while not self.stopping.is_set():
            for stream in self._streams:
                observe_stream(self, wire, stream)
            for consumer in self._consumers:
                observe_consumer(self, wire, CONSUMERS[consumer][0], consumer)
            self.stopping.wait(0.2)


def observe_stream(client: Historian, wire: Wire, stream: str) -> dict[str, Any] | None:
    """Request a stream's info, record its state, and return it; None without an answer."""
    op = client.history.next_op()
    known: dict[str, Any] = {"op": op, "stream": stream}
    client.history.write("stream", "invoke", **known)
    state: dict[str, Any] | None = None
    fields: dict[str, Any] = {}
    try:
        answer = wire.request(f"$JS.API.STREAM.INFO.{stream}")
        state = answer.json().get("state") if answer.payload else None
        if state is not None:
            fields = {"first": state["first_seq"], "last": state["last_seq"]}
            fields["messages"] = state["messages"]
            fields["subjects"] = state.get("num_subjects", 0)
            fields["deleted"] = state.get("num_deleted", 0)
            fields["size"] = state["bytes"]
    finally:
        client.history.write("stream", "ok" if state is not None else "fail", **known, **fields)
    return state


def observe_consumer(
    client: Historian, wire: Wire, stream: str, consumer: str
) -> dict[str, Any] | None:
    """Request a consumer's info, record its state, and return it; None without an answer."""
    op = client.history.next_op()
    known: dict[str, Any] = {"op": op, "stream": stream, "consumer": consumer}
    client.history.write("consumer", "invoke", **known)
    info: dict[str, Any] | None = None
    fields: dict[str, Any] = {}
    try:
        answer = wire.request(f"$JS.API.CONSUMER.INFO.{stream}.{consumer}")
        told = answer.json() if answer.payload else {}
        if "ack_floor" in told:
            info = told
            fields = {"floor": told["ack_floor"]["stream_seq"], "pending": told["num_pending"]}
            fields["unacked"] = told["num_ack_pending"]
            fields["last"] = told["delivered"]["stream_seq"]
    finally:
        client.history.write("consumer", "ok" if info is not None else "fail", **known, **fields)
    return info
