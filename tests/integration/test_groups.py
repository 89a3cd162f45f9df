"""Priority groups, where time matters."""

# Subject: pull consumers

import json

from tests.support.consumer_bench import Bench
from tests.support.jetgate import JetgateServer
from tests.support.late import Watch, unless_late
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

SECOND = 1_000_000_000


def _pinned(bench: Bench, timeout: float) -> None:
    bench.consumer(
        priority_policy="pinned_client",
        priority_groups=["g"],
        priority_timeout=int(timeout * SECOND),
        deliver_policy="new",
    )
    subject = "$JS.EVENT.ADVISORY.CONSUMER"
    bench.wire.send(f"SUB {subject}.PINNED.> 2\r\nSUB {subject}.UNPINNED.> 3\r\n".encode())


def _pull(bench: Bench, reply: bytes, **options: object) -> None:
    body = json.dumps({"group": "g", "batch": 5, **options}).encode()
    bench.wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{bench.name}.c", body, reply=reply)


def _seen(bench: Bench, count: int) -> list[str]:
    """So many that come: payloads of messages, statuses, reasons of events."""
    found = []
    for frame in (bench.wire.frame() for _ in range(count)):
        if frame.subject.startswith(b"$JS.EVENT"):
            event = frame.json()
            found.append(event.get("reason", "pinned"))
        elif frame.payload:
            found.append(frame.payload.decode())
        else:
            found.append(frame.headers.split(b"\r\n")[0].decode())
    return found


def test_a_silent_client_loses_its_pin(bench: Bench) -> None:
    _pinned(bench, 0.5)
    _pull(bench, b"in.1")
    bench.wire.publish("s.a", b"one")
    assert sorted(_seen(bench, 2)) == ["one", "pinned"]
    assert _seen(bench, 1) == ["timeout"]
    bench.wire.publish("s.a", b"two")
    assert _seen(bench, 1) == ["NATS/1.0 423 Nats-Wrong-Pin-Id"]
    _pull(bench, b"in.2")
    assert sorted(_seen(bench, 2)) == ["pinned", "two"]


def test_requests_with_the_pin_keep_it(server: JetgateServer | NatsServer) -> None:
    def attempt(watch: Watch) -> None:
        with Wire(server.address) as wire:
            _keep_the_pin(Bench(wire), watch)

    unless_late(attempt)


def _keep_the_pin(bench: Bench, watch: Watch) -> None:
    """Ask six times within a timeout of a second; from one request to the next is two steps."""
    _pinned(bench, 1)
    with watch.within(0.45):
        _pull(bench, b"in.1", batch=1)
        bench.wire.publish("s.a", b"one")
        pin = next(
            frame.headers.partition(b"Nats-Pin-Id: ")[2].split(b"\r\n")[0].decode()
            for frame in bench.frames(count=2)
            if frame.payload == b"one"
        )
    for number in range(6):
        with watch.within(0.45):
            _pull(bench, b"in.1", batch=1, id=pin)
            bench.wire.publish("s.a", b"%d" % number)
            assert _seen(bench, 1) == [str(number)]
            assert bench.frames(0.2) == []
    with watch.within(0.45):
        _pull(bench, b"in.2", id="another")
        assert _seen(bench, 1) == ["NATS/1.0 423 Nats-Pin-Id mismatch"]
