"""Mirrors and sources of streams of another system, through outages of either side.

The other system is nats-server, killed without warning and started again on its store.
"""

# Subject: remotes

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remotes.sourcing import Pair, content, create, state
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.ports import free_port
from tests.support.wire import Wire


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


def test_a_killed_origin_is_caught_up_with(hub: NatsServer, node: JetgateServer) -> None:
    pair = Pair(origin=hub, sourcing=node, domain="hub")
    publisher = pair.begin()

    for _ in range(2):
        hub.kill()
        hub.start()
        pair.goes_on(publisher, 100)

    pair.check(publisher)


def test_a_work_queue_is_moved(hub: NatsServer, node: JetgateServer) -> None:
    create(hub, "JOBS", subjects=["jobs.>"], retention="workqueue")
    with Wire(hub.address) as wire:
        wire.hello()
        for number in range(500):
            assert wire.request("jobs.x", b"%d" % number).json()["seq"] == number + 1

    source = {"name": "JOBS", "external": {"api": "$JS.hub.API", "deliver": ""}}
    create(node, "MOVED", sources=[source], allow_direct=True)
    eventually(lambda: state(node, "MOVED")["messages"] == 500, within=120)
    eventually(lambda: state(hub, "JOBS")["messages"] == 0, within=120)

    assert content(node, "MOVED") == [(n + 1, "jobs.x", str(n)) for n in range(500)]


def test_a_killed_copier_catches_up(hub: NatsServer, node: JetgateServer) -> None:
    pair = Pair(origin=hub, sourcing=node, domain="hub")
    publisher = pair.begin()

    node.restart()
    pair.goes_on(publisher, 100)

    pair.check(publisher)
