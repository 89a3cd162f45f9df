"""Priority groups, where time matters."""

import json
from collections.abc import Iterator

import pytest

from tests.support.consumer_bench import Bench
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

TIMEOUT = 500_000_000


@pytest.fixture
def bench(server: JetgateServer | NatsServer) -> Iterator[Bench]:
    with Wire(server.address) as wire:
        yield Bench(wire)


def _pinned(bench: Bench) -> None:
    bench.consumer(
        priority_policy="pinned_client",
        priority_groups=["g"],
        priority_timeout=TIMEOUT,
        deliver_policy="new",
    )
    subject = "$JS.EVENT.ADVISORY.CONSUMER"
    bench.wire.send(f"SUB {subject}.PINNED.> 2\r\nSUB {subject}.UNPINNED.> 3\r\n".encode())


def _pull(bench: Bench, reply: bytes, **options: object) -> None:
    body = json.dumps({"group": "g", "batch": 5, **options}).encode()
    bench.wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{bench.name}.c", body, reply=reply)


def _seen(bench: Bench, within: float = 0.25) -> set[str]:
    """What arrived: payloads of messages, statuses, reasons of events."""
    found = set()
    for frame in bench.frames(within):
        if frame.subject.startswith(b"$JS.EVENT"):
            event = frame.json()
            found.add(event.get("reason", "pinned"))
        elif frame.payload:
            found.add(frame.payload.decode())
        else:
            found.add(frame.headers.split(b"\r\n")[0].decode())
    return found


def test_a_silent_client_loses_its_pin(bench: Bench) -> None:
    _pinned(bench)
    _pull(bench, b"in.1")
    bench.wire.publish("s.a", b"one")
    assert _seen(bench) == {"pinned", "one"}
    assert _seen(bench, 0.6) == {"timeout"}
    bench.wire.publish("s.a", b"two")
    assert _seen(bench) == {"NATS/1.0 423 Nats-Wrong-Pin-Id"}
    _pull(bench, b"in.2")
    assert _seen(bench) == {"pinned", "two"}


def test_requests_with_the_pin_keep_it(bench: Bench) -> None:
    _pinned(bench)
    _pull(bench, b"in.1", batch=1)
    bench.wire.publish("s.a", b"one")
    pin = next(
        frame.headers.partition(b"Nats-Pin-Id: ")[2].split(b"\r\n")[0].decode()
        for frame in bench.frames()
        if frame.payload == b"one"
    )
    for number in range(3):
        _pull(bench, b"in.1", batch=1, id=pin)
        bench.wire.publish("s.a", b"%d" % number)
        assert _seen(bench, 0.3) == {str(number)}
    _pull(bench, b"in.2", id="another")
    assert _seen(bench, 0.1) == {"NATS/1.0 423 Nats-Pin-Id mismatch"}
