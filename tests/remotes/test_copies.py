"""Mirrors and sources of streams of another system, through outages of either side.

The other system is nats-server, killed without warning and started again on its store.
"""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Closed, Silence, Wire

EXTERNAL = {"api": "$JS.hub.API", "deliver": ""}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def hub() -> Iterator[NatsServer]:
    with NatsServer({"port": free_port()}) as server:
        yield server


@pytest.fixture
def node(hub: NatsServer, tmp_path: Path) -> Iterator[JetgateServer]:
    path = tmp_path / "jetgate.conf"
    url = f"nats://{hub.address[0]}:{hub.address[1]}"
    path.write_text(f'remotes {{ name: hub, url: "{url}" }}\n')
    with JetgateServer("--config", str(path), in_memory=True) as server:
        yield server


def api(server: JetgateServer | NatsServer, verb: str, body: Any = None) -> dict[str, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    with Wire(server.address) as wire:
        wire.hello()
        answer = wire.request(f"$JS.API.{verb}", payload, timeout=10).json()
    assert "error" not in answer, answer
    return dict(answer)


def create(server: JetgateServer | NatsServer, name: str, **config: Any) -> None:
    api(server, f"STREAM.CREATE.{name}", {"name": name, **config})


def state(server: JetgateServer | NatsServer, name: str) -> dict[str, Any]:
    return dict(api(server, f"STREAM.INFO.{name}")["state"])


def content(server: JetgateServer | NatsServer, name: str) -> list[tuple[int, str, str]]:
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
                frame = wire.frame(10.0)
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
    """Publishes to the other system, one by one, until told to stop; `acked` counts.

    What gets no answer is published again under its message id, so that the origin has it once.
    """

    def __init__(self, server: NatsServer) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.acked = 0
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.is_set():
            try:
                with Wire(self.server.address) as wire:
                    wire.hello()
                    while not self._enough.is_set():
                        self._publish(wire)
            except (OSError, Silence, Closed, AssertionError, ValueError):
                continue  # it was killed; the next connection may find it again

    def _publish(self, wire: Wire) -> None:
        number = self.acked + 1
        block = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
        answer = wire.request(f"orders.{number % 5}", b"%d" % number, headers=block, timeout=2)
        assert "seq" in answer.json()
        self.acked = number

    def stop(self) -> int:
        self._enough.set()
        self.join(20)
        return self.acked


def copied(node: JetgateServer, count: int) -> bool:
    states = [state(node, name) for name in ("MIRROR", "SOURCED")]
    return all(each["messages"] >= count and each["last_seq"] >= count for each in states)


def begin(hub: NatsServer, node: JetgateServer) -> Publisher:
    create(hub, "ORDERS", subjects=["orders.>"], allow_direct=True)
    create(node, "MIRROR", mirror={"name": "ORDERS", "external": EXTERNAL}, allow_direct=True)
    create(node, "SOURCED", sources=[{"name": "ORDERS", "external": EXTERNAL}], allow_direct=True)
    publisher = Publisher(hub)
    publisher.start()
    eventually(lambda: copied(node, 100), within=30)
    return publisher


def check(hub: NatsServer, node: JetgateServer, publisher: Publisher) -> None:
    count = publisher.stop()
    last = state(hub, "ORDERS")["last_seq"]
    eventually(lambda: copied(node, last), within=45)
    origin = content(hub, "ORDERS")

    assert len(origin) >= count, "the origin has what it acknowledged"
    assert content(node, "MIRROR") == origin, "a mirror has the sequences of its origin"
    assert content(node, "SOURCED") == origin, "everything once, in order"


def test_a_killed_origin_is_caught_up_with(hub: NatsServer, node: JetgateServer) -> None:
    publisher = begin(hub, node)

    for _ in range(2):
        hub.kill()
        before = publisher.acked
        hub.start()
        eventually(lambda before=before: publisher.acked > before + 100, within=30)

    check(hub, node, publisher)


def test_a_work_queue_is_moved(hub: NatsServer, node: JetgateServer) -> None:
    create(hub, "JOBS", subjects=["jobs.>"], retention="workqueue")
    with Wire(hub.address) as wire:
        wire.hello()
        for number in range(500):
            assert wire.request("jobs.x", b"%d" % number).json()["seq"] == number + 1

    create(node, "MOVED", sources=[{"name": "JOBS", "external": EXTERNAL}], allow_direct=True)
    eventually(lambda: state(node, "MOVED")["messages"] == 500, within=30)
    eventually(lambda: state(hub, "JOBS")["messages"] == 0, within=30)

    assert content(node, "MOVED") == [(n + 1, "jobs.x", str(n)) for n in range(500)]


def test_a_killed_copier_catches_up(hub: NatsServer, node: JetgateServer) -> None:
    publisher = begin(hub, node)

    node.restart()
    before = publisher.acked
    eventually(lambda: publisher.acked > before + 100, within=30)

    check(hub, node, publisher)
