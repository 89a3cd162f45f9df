"""PostgreSQL goes away while jetgate serves: nothing false is acknowledged, all resumes."""

# Subject: storage faults, crashes

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer, _command, _descendants
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def node() -> Iterator[JetgateServer]:
    with JetgateServer(in_memory=True) as server:
        yield server


def create(wire: Wire, stream: str) -> None:
    config = {"name": stream, "subjects": [f"{stream}.>"], "allow_direct": True}
    answer = wire.request(f"$JS.API.STREAM.CREATE.{stream}", json.dumps(config).encode()).json()
    assert "error" not in answer, answer


def since(pid: int) -> str:
    """When a process began; empty if it is gone or merely waits to be reaped.

    A number alone does not tell: somebody else's process may have it next.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]


def postgres_of(node: JetgateServer) -> list[int]:
    return [pid for pid in _descendants(node.pid) if "postgres" in _command(pid)]


def send(number: signal.Signals, pids: list[int]) -> None:
    """Send a signal to processes; those that work now and then may have ended by themselves."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def postmaster_is_back(node: JetgateServer, wire: Wire, stream: str) -> bool:
    answer = wire.request(f"{stream}.probe", b"again").json()
    return "error" not in answer


def test_publishes_are_refused_while_postgresql_is_away_and_accepted_when_it_is_back(
    node: JetgateServer,
) -> None:
    with Wire(node.address) as wire:
        wire.hello()
        create(wire, "AWAY")
        first = wire.request("AWAY.a", b"before").json()
        node.kill_postgres()
        refused = wire.request("AWAY.a", b"lost?").json()
        eventually(lambda: postmaster_is_back(node, wire, "AWAY"), within=60)
        state = wire.request("$JS.API.STREAM.INFO.AWAY", b"").json()["state"]

    assert first["seq"] == 1
    # Either it was held until PostgreSQL was back, or it was refused in the reference's words.
    if "error" in refused:
        assert refused["error"]["err_code"] == 10008
    else:
        assert refused["seq"] == 2
    assert state["messages"] == state["last_seq"]


def test_a_stalled_postgresql_delays_publishes_and_loses_none(node: JetgateServer) -> None:
    acked: dict[int, bytes] = {}
    with Wire(node.address) as wire:
        wire.hello()
        create(wire, "STALL")
        for i in range(50):
            acked[wire.request("STALL.a", b"m%d" % i).json()["seq"]] = b"m%d" % i
        frozen = postgres_of(node)
        send(signal.SIGSTOP, frozen)
        try:
            # The first is in flight and gets no answer; what comes behind it is refused.
            wire.publish("STALL.a", b"held", reply=b"nobody")
            wire.flush()
            refused = wire.request("STALL.a", b"behind").json()
        finally:
            send(signal.SIGCONT, frozen)
        assert refused["error"]["err_code"] == 10008
        eventually(lambda: postmaster_is_back(node, wire, "STALL"), within=60)
        for seq, payload in acked.items():
            frame = wire.request("$JS.API.DIRECT.GET.STALL", json.dumps({"seq": seq}).encode())
            assert frame.payload == payload, seq


def test_pulls_wait_through_an_outage_and_get_what_comes_after(node: JetgateServer) -> None:
    with Wire(node.address) as wire:
        wire.hello()
        create(wire, "PULL")
        config = {"durable_name": "C", "ack_policy": "explicit"}
        body = json.dumps({"stream_name": "PULL", "config": config}).encode()
        assert "error" not in wire.request("$JS.API.CONSUMER.CREATE.PULL.C", body).json()
        wire.send(b"SUB in 77\r\n")
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.PULL.C", b'{"batch":1}', reply=b"in")
        node.kill_postgres()
        with Wire(node.address) as other:
            other.hello()
            eventually(lambda: postmaster_is_back(node, other, "PULL"), within=60)
        while (delivered := wire.frame()).line.split(b" ")[2:3] != [b"77"]:
            pass

    assert delivered.payload == b"again"


def test_a_killed_node_finds_everything_at_its_next_start(node: JetgateServer) -> None:
    with Wire(node.address) as wire:
        wire.hello()
        create(wire, "KILLED")
        for i in range(100):
            wire.request("KILLED.a", b"%d" % i)
    orphans = {pid: since(pid) for pid in postgres_of(node)}

    node.restart()

    with Wire(node.address) as wire:
        wire.hello()
        state = wire.request("$JS.API.STREAM.INFO.KILLED", b"").json()["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (100, 1, 100)
    assert orphans
    assert not any(began and since(pid) == began for pid, began in orphans.items())
