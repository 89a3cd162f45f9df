"""Streams of one system that another copies, through outages of either side."""

import json
import threading
from dataclasses import dataclass
from typing import Any

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Silence, Wire

Server = JetgateServer | NatsServer


def api(server: Server, verb: str, body: Any = None) -> dict[str, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    with Wire(server.address) as wire:
        wire.hello()
        answer = wire.request(f"$JS.API.{verb}", payload).json()
    assert "error" not in answer, answer
    return dict(answer)


def create(server: Server, name: str, **config: Any) -> None:
    api(server, f"STREAM.CREATE.{name}", {"name": name, **config})


def state(server: Server, name: str) -> dict[str, Any]:
    return dict(api(server, f"STREAM.INFO.{name}")["state"])


def content(server: Server, name: str) -> list[tuple[int, str, str]]:
    """Sequence, subject and payload of every message, read by Direct Get."""
    found: list[tuple[int, str, str]] = []
    with Wire(server.address) as wire:
        wire.hello()
        wire.send(b"SUB got.* 7\r\n")
        last = state(server, name)["last_seq"]
        while not found or found[-1][0] < last:
            seq = found[-1][0] + 1 if found else 1
            body = json.dumps({"seq": seq, "batch": 1000}).encode()
            subject = f"$JS.API.DIRECT.GET.{name}".encode()
            wire.send(b"PUB %b got.x %d\r\n%b\r\n" % (subject, len(body), body))
            while True:
                frame = wire.frame()
                headers = frame.headers.decode()
                if not frame.payload and "204" in headers.partition("\r\n")[0]:
                    break
                fields = dict(
                    line.split(": ", 1) for line in headers.split("\r\n")[1:] if ": " in line
                )
                seq = int(fields["Nats-Sequence"])
                found.append((seq, fields["Nats-Subject"], frame.payload.decode()))
    return found


class Publisher(threading.Thread):
    """Publishes to the origin, one by one, until told to stop; `acked` counts.

    What gets no answer is published again under its message id, so that the origin has it once.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.acked = 0
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.is_set():
            try:
                with Wire(self.server.address, timeout=5) as wire:
                    wire.hello()
                    while not self._enough.is_set():
                        self._publish(wire)
            except (OSError, Silence, Closed, AssertionError, ValueError):
                self._enough.wait(0.02)  # it was killed; the next connection may find it again

    def _publish(self, wire: Wire) -> None:
        number = self.acked + 1
        block = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
        answer = wire.request(f"orders.{number % 5}", b"%d" % number, headers=block, timeout=5)
        assert "seq" in answer.json()
        self.acked = number

    def stop(self) -> int:
        self._enough.set()
        self.join(20)
        return self.acked


@dataclass(frozen=True)
class Pair:
    """A stream on one system and its two copies on the other.

    Args:
        origin: Where the stream is.
        sourcing: Where its mirror and a stream sourced from it are.
        domain: How the sourcing server names the origin's JetStream.
        patience: Seconds until the copies must have everything; nats-server waits 40 s before it
            asks a second time for what it asked while there was no link.
    """

    origin: Server
    sourcing: Server
    domain: str
    time_limit: float = 120.0

    def begin(self) -> Publisher:
        """Make the streams, publish, and wait until the copies have something."""
        eventually(self._linked, within=self.time_limit)
        source = {"name": "ORDERS", "external": {"api": f"$JS.{self.domain}.API", "deliver": ""}}
        create(self.origin, "ORDERS", subjects=["orders.>"], allow_direct=True)
        create(self.sourcing, "MIRROR", mirror=source, allow_direct=True)
        create(self.sourcing, "SOURCED", sources=[source], allow_direct=True)
        publisher = Publisher(self.origin)
        publisher.start()
        eventually(lambda: self._copied(100), within=self.time_limit)
        return publisher

    def goes_on(self, publisher: Publisher, count: int) -> None:
        """Wait until the origin has acknowledged as many more."""
        before = publisher.acked
        eventually(lambda: publisher.acked > before + count, within=self.time_limit)

    def check(self, publisher: Publisher) -> None:
        """Publish no more; the copies must come to be equal to what they copy."""
        count = publisher.stop()
        last = state(self.origin, "ORDERS")["last_seq"]
        eventually(lambda: self._copied(last), within=self.time_limit)
        origin = content(self.origin, "ORDERS")

        assert len(origin) >= count, "the origin has what it acknowledged"
        assert content(self.sourcing, "MIRROR") == origin, (
            "a mirror has the sequences of its origin"
        )
        assert content(self.sourcing, "SOURCED") == origin, "everything once, in order"
        assert "error" not in api(self.sourcing, "STREAM.INFO.MIRROR").get("mirror", {})

    def _linked(self) -> bool:
        """Whether the sourcing server reaches the origin's API."""
        with Wire(self.sourcing.address) as wire:
            wire.hello()
            return bool(wire.request(f"$JS.{self.domain}.API.INFO").payload)

    def _copied(self, count: int) -> bool:
        states = [state(self.sourcing, name) for name in ("MIRROR", "SOURCED")]
        return all(each["messages"] >= count and each["last_seq"] >= count for each in states)
