"""Four hundred thousand subscriptions, subscriptions that come and go, and what is left of them."""

# Subject: slow consumers, costs

import gc
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.load.serving import WITH_REFERENCE, left, serving
from tests.support.best import best, timed
from tests.support.core_server import CoreServer
from tests.support.dropin import DropIn
from tests.support.eventually import eventually
from tests.support.memory import resident
from tests.support.wire import Wire

pytestmark = pytest.mark.quiet

CONNECTIONS = 10
EACH = 40_000
BYTES_EACH_MAX = 800
OURS = {"ClientSession", "Parser", "PlainPublisher", "Route", "Subscription", "Traffic", "_Node"}


class Probe(threading.Thread):
    """A client that asks for a PONG again and again; `longest` is its longest wait in seconds."""

    def __init__(self, server: DropIn) -> None:
        super().__init__(daemon=True)
        self.pid = server.process.pid
        self.wire = Wire(server.address, timeout=180)
        self.wire.hello()
        self.stopping = threading.Event()
        self.longest = 0.0
        self.failure = ""

    def run(self) -> None:
        try:
            with self.wire:
                while not self.stopping.wait(0.01):
                    with timed(self.pid) as taken:
                        self.wire.flush()
                    self.longest = max(self.longest, *taken)
        except Exception as error:
            self.failure = repr(error)
            raise

    def stop(self) -> float:
        """End, and return the longest wait."""
        self.stopping.set()
        self.join(180)
        assert not self.is_alive()
        assert not self.failure
        return self.longest


def filters(connection: int) -> bytes:
    """SUB lines: one in four literal, one in four in a group, all of them different."""
    forms = (b"m.%d.k%d.* %d", b"m.%d.k%d %d", b"m.%d.k%d.> %d", b"m.%d.k%d g %d")
    lines = (forms[n % 4] % (connection, n, n) for n in range(EACH))
    return b"".join(b"SUB " + line + b"\r\n" for line in lines)


@WITH_REFERENCE
def test_four_hundred_thousand_subscriptions(name: str, tmp_path: Path) -> None:
    lines = [filters(connection) for connection in range(CONNECTIONS)]

    assert best(3, 1, lambda: _longest_wait(name, tmp_path, lines)) < 1


def _longest_wait(name: str, place: Path, lines: list[bytes]) -> float:
    """Seconds for which a client waits while others subscribe, each with its lines, and leave."""
    with serving(name, place) as server:
        connections, subscriptions = left(server)
        empty = resident(server.process.pid)
        probe = Probe(server)
        probe.start()
        wires = [Wire(server.address, timeout=180) for _ in lines]
        for wire, block in zip(wires, lines, strict=True):
            wire.hello()
            wire.send(block)
        for wire in wires:
            wire.flush()
        full = resident(server.process.pid)
        assert left(server) == (
            connections + CONNECTIONS + 1,
            subscriptions + CONNECTIONS * EACH,
        )
        wires[3].send(b"PUB m.7.k2.x.y 2\r\nhi\r\n")
        assert wires[7].frame().line == b"MSG m.7.k2.x.y 2 2"

        for wire in wires:
            wire.close()
        eventually(lambda: left(server) == (connections + 1, subscriptions), within=120)
        longest = probe.stop()

        if name != "nats-server":
            assert (full - empty) / (CONNECTIONS * EACH) < BYTES_EACH_MAX
            eventually(lambda: resident(server.process.pid) - empty < (full - empty) / 3, within=60)
    return longest


def test_subscriptions_that_come_and_go_leave_no_object_behind() -> None:
    lines = b"".join(
        b"SUB churn.%d.* g%d s%d\r\nSUB churn.%d t%d\r\nPUB churn.%d r.%d 1\r\nx\r\n"
        b"UNSUB s%d\r\nUNSUB t%d 1\r\nPUB churn.%d 1\r\ny\r\n" % ((n, n % 7) + (n,) * 8)
        for n in range(2000)
    )
    with CoreServer() as server:

        def churn() -> None:
            for _ in range(10):
                with Wire(server.address, timeout=180) as wire:
                    wire.hello()
                    wire.send(lines)
                    wire.flush()
            account = server.hub.default_account()
            eventually(lambda: not server.call(lambda: len(server.hub.sessions)))
            assert server.call(lambda: account.client_subscriptions) == 0

        def nothing_is_left() -> bool:
            grown = objects() - before
            assert {kind: n for kind, n in grown.items() if n > (0 if kind in OURS else 200)} == {}
            return True

        churn()
        before = objects()
        churn()
        # What the server's loop has yet to do with the last connection may still hold it.
        eventually(nothing_is_left, every=0.2)


def objects() -> Counter[str]:
    """How many objects of each type there are."""
    gc.collect()
    return Counter(type(thing).__name__ for thing in gc.get_objects())
