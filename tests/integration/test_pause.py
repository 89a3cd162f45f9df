"""Pausing a consumer, where time or a restart matters."""

# Subject: pausing

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.support.consumer_bench import Bench
from tests.support.jetgate import JetgateServer
from tests.support.late import Watch, unless_late
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

Server = JetgateServer | NatsServer
EVENTS = "$JS.EVENT.ADVISORY.CONSUMER.PAUSE"


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip(
        "0"
    ) + "Z"


def _attempt(server: Server, test: Callable[[Bench, Watch], None]) -> None:
    def attempt(watch: Watch) -> None:
        with Wire(server.address) as wire:
            test(Bench(wire), watch)

    unless_late(attempt)


def test_resumes_by_itself_and_reports_it(server: Server) -> None:
    _attempt(server, _resume)


def _resume(bench: Bench, watch: Watch) -> None:
    bench.consumer()
    bench.wire.send(f"SUB {EVENTS}.> 2\r\n".encode())
    with watch.within(1.4):
        until = _in(2)
        answer = bench.wire.api(f"CONSUMER.PAUSE.{bench.name}.c", {"pause_until": until})
        assert answer.get("paused")
        assert 0 < answer["pause_remaining"] <= 2_000_000_000
        started = time.monotonic()
        # The reference may tell of the pause after it has answered.
        arrived = bench.pull(b"", within=0.2)
        assert [body for _, body in arrived if b'"paused":true' not in body] == []
    first, second = bench.wire.frame(), bench.wire.frame()
    event, message = (first, second) if first.subject.startswith(b"$JS") else (second, first)
    assert time.monotonic() - started > 0.5
    assert message.payload == b"m0"
    assert (event.json()["paused"], event.json()["pause_until"]) == (False, until)
    info = bench.wire.api(f"CONSUMER.INFO.{bench.name}.c")
    assert "paused" not in info
    assert info["config"]["pause_until"] == until


def test_ack_wait_passes_while_paused(server: Server) -> None:
    _attempt(server, _pass_the_ack_wait)


def _pass_the_ack_wait(bench: Bench, watch: Watch) -> None:
    bench.consumer(ack_wait=200_000_000, max_deliver=2)
    assert bench.pull(b"1", count=1) == [(b"1.1.1.4", b"m0")]
    with watch.within(1.2):
        bench.wire.api(f"CONSUMER.PAUSE.{bench.name}.c", {"pause_until": _in(1.2)})
        assert bench.pull(b"2", within=0.3) == []
    assert bench.arrived(count=2)[:2] == [(b"2.1.2.4", b"m0"), (b"1.2.3.3", b"m1")]


def test_a_restart_keeps_the_pause(jetgate_server: JetgateServer) -> None:
    with Wire(jetgate_server.address) as wire:
        bench = Bench(wire)
        bench.consumer()
        bench.wire.api(f"CONSUMER.PAUSE.{bench.name}.c", {"pause_until": "2099-01-01T00:00:00Z"})
        name = bench.name
    jetgate_server.restart()
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        info = wire.api(f"CONSUMER.INFO.{name}.c")
        assert info["paused"]
        wire.send(b"SUB in.> 1\r\n")
        wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.c", b"", reply=b"in.1")
        assert not [frame for frame in wire.flush() if frame.payload == b"m0"]
        wire.api(f"CONSUMER.PAUSE.{name}.c")
        assert wire.frame().payload == b"m0"


def test_a_restart_keeps_a_reset(jetgate_server: JetgateServer) -> None:
    with Wire(jetgate_server.address) as wire:
        bench = Bench(wire)
        bench.consumer()
        assert len(bench.pull(b"4", count=4)) == 4
        assert bench.wire.api(f"CONSUMER.RESET.{bench.name}.c", {"seq": 3})["reset_seq"] == 3
        name = bench.name
    jetgate_server.kill()
    jetgate_server.start()
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        info = wire.api(f"CONSUMER.INFO.{name}.c")
        assert (info["delivered"]["stream_seq"], info["num_pending"]) == (2, 3)
        assert info["num_ack_pending"] == 0
