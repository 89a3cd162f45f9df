"""A publisher that continues during failures of nodes and records acknowledged messages."""

import contextlib
import json
import threading

from tests.support.eventually import eventually
from tests.support.sql import on
from tests.support.wire import Closed, Silence, Wire


def _wire(port: int) -> Wire:
    return Wire(("127.0.0.1", port), timeout=5)


class Publisher:
    """A thread that publishes 1, 2, 3, ... to a node that answers, until `stop`.

    It creates the stream `LOAD` at the first node. Each number has a `Nats-Msg-Id` and is repeated
    until it is acknowledged.

    Args:
        ports: The NATS ports of the nodes on 127.0.0.1.

    Attributes:
        acknowledged: Stream sequence of each acknowledged number.
    """

    def __init__(self, ports: tuple[int, ...]) -> None:
        with _wire(ports[0]) as wire:
            wire.hello()
            created = wire.api("STREAM.CREATE.LOAD", {"name": "LOAD", "subjects": ["load.*"]})
            assert "error" not in created, created
        self.acknowledged: dict[int, int] = {}
        self._ports = ports
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop publishing; `acknowledged` stays available."""
        self._stopping.set()
        self._thread.join()

    def wait_for_more(self) -> None:
        """Wait until twenty more messages are acknowledged.

        Raises AssertionError after 60 seconds.
        """
        wanted = len(self.acknowledged) + 20
        eventually(lambda: len(self.acknowledged) >= wanted, within=60)

    def check(self, dsn: str) -> None:
        """Assert that a database has each acknowledged message once, at its acknowledged sequence.

        One more message may be stored: the last one, whose acknowledgement did not arrive.
        """
        stored = on(dsn, "select text::int, seq from jetgate.messages where stream = 'LOAD'")
        found, promised = dict(stored), self.acknowledged
        assert {number: found.get(number) for number in promised} == promised
        assert len(stored) == len(found)
        assert len(found) - len(promised) in (0, 1), "one may be stored that nobody was told of"

    def _run(self) -> None:
        number = 1
        while not self._stopping.is_set():
            for port in self._ports:
                with contextlib.suppress(OSError, Closed, Silence, ValueError), _wire(port) as wire:
                    wire.hello()
                    while not self._stopping.is_set():
                        self.acknowledged[number] = self._published(wire, number)
                        number += 1
                        self._stopping.wait(0.002)  # other processes need the processor too
                self._stopping.wait(0.02)  # a port without listener refuses at once

    def _published(self, wire: Wire, number: int) -> int:
        block = b"NATS/1.0\r\nNats-Msg-Id: day-%d\r\n\r\n" % number
        answer = json.loads(wire.request("load.n", b"%d" % number, block).payload)
        if "error" in answer:
            raise Closed(str(answer))
        return int(answer["seq"])
