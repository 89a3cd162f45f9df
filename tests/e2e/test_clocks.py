"""Nodes whose clocks are an hour wrong take over: nothing comes due too early or too late."""

# Subject: leadership

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from core.model.gotime import parse_time
from core.storage.postgres.locks import LEASE_GROUPS
from tests.e2e.test_commands import Process, request, run, serve
from tests.support.eventually import eventually
from tests.support.headers import block
from tests.support.pg import PostgresServer
from tests.support.wire import Wire

HOUR = 3600
SECOND = 10**9
LONG = 1800 * SECOND
NEAR_S = 300.0
"""What a slow machine may take between two looks, and much less than an hour."""


@contextmanager
def connected(process: Process) -> Iterator[Wire]:
    """A NATS connection to a node."""
    with Wire(address(process)) as wire:
        wire.hello()
        yield wire


def address(process: Process) -> tuple[str, int]:
    """Where a node listens for NATS clients."""
    host, _, port = process.ports["nats"].removeprefix("nats://").partition(":")
    return host, int(port)


def name_of(process: Process) -> str:
    """The name of a node."""
    with Wire(address(process)) as wire:
        return str(wire.hello()["server_name"])


def utc(seconds: float) -> str:
    """A time so many seconds from now."""
    return datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def store(wire: Wire, subject: str, **headers: str) -> dict[str, Any]:
    """Publish; the acknowledgement."""
    answer = wire.request(subject, b"x", block(**headers)).json()
    assert "error" not in answer, answer
    return dict(answer)


def messages(wire: Wire, stream: str) -> int:
    return int(wire.api(f"STREAM.INFO.{stream}")["state"]["messages"])


def told_time(wire: Wire, stream: str, seq: int) -> float:
    """When a message was stored, Unix seconds."""
    found = wire.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})["message"]["time"]
    return parse_time(found) / SECOND


def pull(wire: Wire, stream: str, consumer: str) -> bytes:
    """The reply subject of what is there for a consumer; empty: there is nothing."""
    body = json.dumps({"batch": 1, "no_wait": True}).encode()
    return wire.request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body).reply


def consumer(wire: Wire, stream: str, name: str, ack_wait: int, **more: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": ack_wait, **more}
    body = {"stream_name": stream, "config": config}
    answer = wire.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)
    assert "error" not in answer, answer


def begin_what_lasts(wire: Wire) -> None:
    """Half an hour of everything."""
    flags = {"allow_msg_ttl": True, "allow_msg_schedules": True, "allow_direct": True}
    ages = {"max_age": LONG, "duplicate_window": LONG}
    wire.api("STREAM.CREATE.L", {"name": "L", "subjects": ["l.>"], **ages, **flags})
    store(wire, "l.id", Nats_Msg_Id="once")
    store(wire, "l.ttl", Nats_TTL="29m")
    store(wire, "l.at", Nats_Schedule=f"@at {utc(1800)}", Nats_Schedule_Target="l.fired")
    consumer(wire, "L", "waits", LONG, filter_subject="l.id")
    consumer(wire, "L", "delays", 5 * LONG, filter_subject="l.id")
    consumer(wire, "L", "rests", LONG, pause_until=utc(1800))
    assert pull(wire, "L", "waits")
    wire.request(pull(wire, "L", "delays").decode(), b'-NAK {"delay": %d}' % LONG)


def check_what_lasts(wire: Wire, before: float) -> float:
    """All of it is as it was; a message that is stored now has the time after the last one."""
    assert messages(wire, "L") == store(wire, "l.ttl", Nats_TTL="29m")["seq"] - 1
    assert store(wire, "l.id", Nats_Msg_Id="once")["duplicate"]
    last = wire.api("STREAM.INFO.L")["state"]["last_seq"]
    now = told_time(wire, "L", last)
    assert before < now
    assert abs(now - time.time()) < NEAR_S
    for name in ("waits", "delays"):
        assert pull(wire, "L", name) == b""
        info = wire.api(f"CONSUMER.INFO.L.{name}")
        assert (info["num_ack_pending"], info["num_redelivered"]) == (1, 0)
    rests = wire.api("CONSUMER.INFO.L.rests")
    assert rests["paused"]
    assert 1800 - NEAR_S < rests["pause_remaining"] / SECOND <= 1800
    return now


def begin_what_ends(wire: Wire) -> None:
    """A second or two of everything."""
    brief = {"max_age": 2 * SECOND, "duplicate_window": SECOND}
    wire.api("STREAM.CREATE.B", {"name": "B", "subjects": ["b.>"], **brief})
    wire.api(
        "STREAM.CREATE.E",
        {
            "name": "E",
            "subjects": ["e.>"],
            "duplicate_window": SECOND,
            "allow_msg_ttl": True,
            "allow_msg_schedules": True,
            "allow_direct": True,
        },
    )
    store(wire, "e.tick", Nats_Schedule="@every 1s", Nats_Schedule_Target="e.ticks")
    store(wire, "e.ttl", Nats_TTL="2s")
    store(wire, "e.id", Nats_Msg_Id="again")
    store(wire, "e.job")
    for name in ("waits", "rests"):
        more = {"pause_until": utc(2)} if name == "rests" else {}
        consumer(wire, "E", name, SECOND, filter_subject="e.job", **more)
    assert pull(wire, "E", "waits")
    store(wire, "b.old")


def check_what_ends(wire: Wire) -> None:
    """All of it comes to its end."""
    eventually(lambda: messages(wire, "B") == 0)
    eventually(lambda: "error" in wire.api("STREAM.MSG.GET.E", {"last_by_subj": "e.ttl"}))
    eventually(lambda: "duplicate" not in store(wire, "e.id", Nats_Msg_Id="again"))
    eventually(lambda: pull(wire, "E", "waits"))
    eventually(lambda: not wire.api("CONSUMER.INFO.E.rests").get("paused"))

    def ticks() -> int:
        return int(wire.api("STREAM.MSG.GET.E", {"last_by_subj": "e.ticks"})["message"]["seq"])

    before = ticks()
    eventually(lambda: ticks() > before)


async def _stored_pending(dsn: str) -> int:
    session = await asyncpg.connect(dsn)
    try:
        return int(await session.fetchval("select sum(ack_pending) from jetgate_store.consumer"))
    finally:
        await session.close()


def take_over(former: Process, standby: Process) -> None:
    """Kill a node once the other serves, and wait until that one leads everything."""
    eventually(lambda: "all streams are led" in standby.stderr(), within=120)
    former.send(signal.SIGKILL)
    former.end()
    everything = f"\njetgate_lease_groups {LEASE_GROUPS}.0\n"
    eventually(lambda: everything in request(standby.ports, "GET", "/metrics")[1], within=60)


def check_what_is_shown(process: Process, dsn: str, ahead: float) -> None:
    """The log, the metric, and the lists of nodes say how wrong a node's clock is."""
    side = "ahead of" if ahead > 0 else "behind"
    line = rf"the clock of this machine is {abs(ahead):.0f}\.0 s {side} PostgreSQL's"
    assert len(re.findall(line, process.stderr())) == 1
    _, metrics = request(process.ports, "GET", "/metrics")
    [told] = re.findall(r"^jetgate_clock_offset_seconds (\S+)$", metrics, re.MULTILINE)
    assert abs(float(told) - ahead) < 1

    name = name_of(process)

    def listed(command: str, *options: str) -> Any:
        nodes = json.loads(run(command, "--json", "--dsn", dsn, *options).stdout)["nodes"]
        return next(node for node in nodes if node["node"] == name)

    eventually(lambda: listed("status", "--seconds", "0")["clock_ahead"] is not None)
    for own in (listed("status", "--seconds", "0"), listed("cluster")):
        assert own["state"] == "leads"
        assert abs(own["clock_ahead"] - ahead) < 1
    rows = [line.split() for line in run("cluster", "--dsn", dsn).stdout.splitlines()]
    words = [word for row in rows if row[:1] == [name] for word in row]
    [shown] = [float(word) for word in words if re.fullmatch(r"[+-]\d+\.\d{3}", word)]
    assert abs(shown - ahead) < 1


@pytest.mark.thorough
def test_clocks_an_hour_wrong_either_way_change_nothing(
    durable: PostgresServer, tmp_path: Path
) -> None:
    dsn = durable.fresh_database()
    with (
        serve(dsn, tmp_path / "right") as right,
        connected(right) as wire,
        serve(dsn, tmp_path / "ahead", clock=HOUR) as ahead,
    ):
        begin_what_lasts(wire)
        stored = told_time(wire, "L", 1)
        # States of consumers are written a little later.
        eventually(lambda: durable.run(_stored_pending(dsn)) == 2)
        take_over(right, ahead)
        with connected(ahead) as wire, serve(dsn, tmp_path / "behind", clock=-HOUR) as behind:
            stored = check_what_lasts(wire, stored)
            check_what_is_shown(ahead, dsn, HOUR)
            pause = "/v1/streams/L/consumers/rests:pause"
            assert request(ahead.ports, "POST", pause, '{"duration": "1800s"}')[0] == 200
            eventually(lambda: "all streams are led" in behind.stderr(), within=120)
            begin_what_ends(wire)
            eventually(lambda: durable.run(_stored_pending(dsn)) == 3)
            take_over(ahead, behind)
            with connected(behind) as wire:
                check_what_lasts(wire, stored)
                check_what_ends(wire)
                check_what_is_shown(behind, dsn, -HOUR)


def test_doctor_shows_the_offset_of_a_machines_clock(durable: PostgresServer) -> None:
    dsn = durable.fresh_database()

    right, wrong = (run("doctor", "--dsn", dsn, clock=clock) for clock in (0, HOUR))

    assert re.search(r"^ok    clock: 0\.\d+ s (behind|ahead of) PostgreSQL's", right.stdout, re.M)
    assert "warn  clock: 3600.0" in wrong.stdout
    assert right.returncode == wrong.returncode == 0
