"""How fast consumers deliver: original replay and rate limit, on both servers."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.consumer_bench import Bench
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire


@pytest.fixture
def bench(server: JetgateServer | NatsServer) -> Iterator[Bench]:
    with Wire(server.address) as wire:
        yield Bench(wire)


def _arrivals(bench: Bench, count: int) -> list[float]:
    """Seconds between the first message and each of them."""
    times = []
    while len(times) < count:
        frame = bench.wire.frame(3.0)
        if frame.reply.startswith(b"$JS.ACK."):
            times.append(time.monotonic())
    return [when - times[0] for when in times]


def _spaced(bench: Bench) -> None:
    bench.wire.api(f"STREAM.PURGE.{bench.name}")
    started = time.monotonic()
    for due in (0.0, 0.4, 0.8):
        while time.monotonic() < started + due:
            bench.wire.flush()
        bench.wire.request("s.a", b"x")


def _best_replay(bench: Bench, begin: Callable[[], object]) -> None:
    """Replay up to three times: a busy machine may take one of the messages late."""
    found = []
    for _ in range(3):
        begin()
        _, second, third = _arrivals(bench, 3)
        if 0.3 < second < 0.7 and 0.7 < third < 1.2:
            return
        found.append((second, third))
        bench.wire.api(f"CONSUMER.DELETE.{bench.name}.c")
    raise AssertionError(found)


def test_original_replay_of_a_push_consumer(bench: Bench) -> None:
    _spaced(bench)
    bench.wire.send(b"SUB d.p 7\r\n")
    _best_replay(bench, lambda: bench.consumer(replay_policy="original", deliver_subject="d.p"))


def test_original_replay_of_a_pull_consumer(bench: Bench) -> None:
    def begin() -> None:
        bench.consumer(replay_policy="original")
        bench.wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{bench.name}.c", b"3", reply=b"in.1")

    _spaced(bench)
    _best_replay(bench, begin)


def test_rate_limit_lets_one_largest_message_through_at_once(bench: Bench) -> None:
    config = {"name": bench.name, "subjects": ["s.>"], "max_msg_size": 10_000}
    assert "error" not in bench.wire.api(f"STREAM.UPDATE.{bench.name}", config)
    bench.wire.api(f"STREAM.PURGE.{bench.name}")
    for _ in range(6):
        bench.wire.request("s.a", bytes(8_000))
    bench.consumer(rate_limit_bps=8 * 50_000, deliver_subject="d.p", ack_policy="none")
    bench.wire.send(b"SUB d.p 7\r\n")
    times = _arrivals(bench, 6)
    assert times[1] > 0.05
    assert 0.6 < times[-1] < 1.2
