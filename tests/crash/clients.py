"""Clients that survive crashes of their server: they reconnect and continue."""

import json
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.crash.ledger import Ledger, Stored
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Closed, Frame, Silence, Wire

STREAM = "CRASH"
WINDOW = 16
PACE = 0.004  # seconds between two windows, so that crashes meet a steady load
GONE = (Closed, Silence, ConnectionError, TimeoutError)

Address = Callable[[], tuple[str, int]]


class Client(threading.Thread, ABC):
    """A thread that connects, works, and connects again when the server is gone."""

    time_limit = 2.0
    """Seconds without an answer after which the client gives up its connection."""

    def __init__(self, name: str, address: Address, ledger: Ledger) -> None:
        super().__init__(name=name, daemon=True)
        self.address = address
        self.ledger = ledger
        self.stopping = threading.Event()
        self.failure = ""

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with Wire(self.address(), timeout=self.time_limit) as wire:
                    wire.hello()
                    self.work(wire)
            except GONE:
                self.stopping.wait(0.05)
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                raise

    @abstractmethod
    def work(self, wire: Wire) -> None:
        """Use the connection until `stopping` is set; raise one of GONE when it ends."""

    def told(self) -> str:
        """Return the stack of the thread, for the message of a failed test."""
        frame = sys._current_frames().get(self.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else "it is not running"

    def stop(self) -> None:
        """Stop the work and wait for its end. Raises AssertionError if it failed or goes on."""
        self.stopping.set()
        self.join(30)
        assert not self.is_alive(), f"{self.name} does not stop: {self.told()}"
        assert not self.failure, f"{self.name}: {self.failure}"


class Publisher(Client):
    """A client that publishes numbered values; with ids it repeats unanswered ones."""

    # Longer than a starting server holds a publish: the server may read an abandoned connection
    # after its successor, which would change the order.
    time_limit = 40.0

    def __init__(self, name: str, address: Address, ledger: Ledger, *, ids: bool) -> None:
        super().__init__(name, address, ledger)
        self.ids = ids
        self.next = 0
        self.again: deque[bytes] = deque()
        self.unanswered: dict[bytes, bytes] = {}

    def told(self) -> str:
        return f"{super().told()}without answer: {list(self.unanswered)}"

    def work(self, wire: Wire) -> None:
        wire.send(b"SUB r.%s.* 1\r\n" % self.name.encode())
        unanswered = self.unanswered = {}
        try:
            # Unanswered messages are awaited after `stopping` is set, so that nothing is stored
            # later.
            while not self.stopping.wait(PACE) or unanswered:
                while len(unanswered) < WINDOW and not self.stopping.is_set():
                    value = self._value()
                    self.ledger.attempt(value)
                    reply = b"r.%s" % value.replace(b"-", b".")
                    unanswered[reply] = value
                    head = b"NATS/1.0\r\nNats-Msg-Id: %s\r\n\r\n" % value if self.ids else b""
                    wire.publish(f"{STREAM}.{self.name}", value, reply=reply, headers=head)
                # Nothing was sent if `stopping` was set during the wait: no answer would arrive.
                while unanswered:
                    self._answered(wire.frame(), unanswered)
                    if not wire.buffer:
                        break
        finally:
            if self.ids:
                self.again = deque([*unanswered.values(), *self.again])

    def _value(self) -> bytes:
        if self.again:
            return self.again.popleft()
        self.next += 1
        return b"%s-%d" % (self.name.encode(), self.next)

    def _answered(self, frame: Frame, unanswered: dict[bytes, bytes]) -> None:
        value = unanswered.pop(frame.subject, None)
        if value is None:
            return  # an answer to an earlier connection; the value was sent again since
        answer: dict[str, Any] = {"error": "no responders"}
        if frame.payload:
            answer = json.loads(frame.payload)
        if "error" not in answer:
            self.ledger.ack(value, answer["seq"])
        elif self.ids:
            self.again.append(value)


class Consumer(Client):
    """A client that pulls from the durable consumer C with double acks, and awaits the answers."""

    def work(self, wire: Wire) -> None:
        wire.send(b"SUB d.> 1\r\nSUB a.> 2\r\n")
        ask = (
            b'PUB $JS.API.CONSUMER.MSG.NEXT.%s.C d.1 35\r\n{"batch":50,"expires":1000000000}  \r\n'
        )
        wire.send(ask % STREAM.encode())
        got = 0
        while not self.stopping.is_set():
            frame = wire.frame()
            if frame.subject.startswith(b"a."):
                if not frame.headers:  # otherwise a no-responders status
                    self.ledger.confirm(int(frame.subject[2:]))
                continue
            if frame.reply:
                got += 1
                seq = int(frame.reply.split(b".")[5])
                self.ledger.delivered(seq, frame.payload)
                wire.publish(frame.reply.decode(), b"+ACK", reply=b"a.%d" % seq)
            elif b" 503" in frame.headers:
                self.stopping.wait(0.05)
            if got == 50 or not frame.reply:
                got = 0
                wire.send(ask % STREAM.encode())


def create(address: tuple[str, int]) -> None:
    """Create the stream and its consumer."""
    with Wire(address) as wire:
        wire.hello()
        wire.api(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": [f"{STREAM}.>"]})
        config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 2_000_000_000}
        wire.api(f"CONSUMER.CREATE.{STREAM}.C", {"stream_name": STREAM, "config": config})


def read_all(address: tuple[str, int]) -> Stored:
    """Return every message, read through a separate consumer without acks."""
    stored: Stored = {}
    with Wire(address) as wire:
        wire.hello()
        last = wire.api(f"STREAM.INFO.{STREAM}")["state"]["last_seq"]
        request = {"stream_name": STREAM, "config": {"name": "ALL", "ack_policy": "none"}}
        wire.api(f"CONSUMER.CREATE.{STREAM}.ALL", request)
        wire.send(b"SUB all 1\r\n")
        while max(stored, default=0) < last:
            body = b'{"batch":1000,"no_wait":true}'
            wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.ALL", body, reply=b"all")
            for _ in range(1000):
                frame = wire.frame()
                if not frame.reply:
                    break
                parts = frame.reply.split(b".")
                stored[int(parts[5])] = (frame.payload, int(parts[7]))
    return stored


def wait_until_consumed(address: tuple[str, int], ledger: Ledger) -> None:
    """Wait until the consumer has got and acknowledged all stored messages.

    A last message marks the end: it is stored after messages that publishers left unanswered.
    """
    with Wire(address) as wire:
        wire.hello()
        value = b"last-1"
        ledger.attempt(value)

        def stored() -> int:
            answer = wire.request(f"{STREAM}.last", value, b"NATS/1.0\r\nNats-Msg-Id: last\r\n\r\n")
            return int(json.loads(answer.payload or b"{}").get("seq", 0))

        last = eventually(stored, within=120)
        ledger.ack(value, last)

        def consumed() -> bool:
            info = wire.api(f"CONSUMER.INFO.{STREAM}.C")
            return bool(info["ack_floor"]["stream_seq"] >= last and info["num_pending"] == 0)

        eventually(consumed, within=120)


def messages_left(server: JetgateServer, stream: str) -> int:
    """Return the number of messages of a stream, -1 while the server does not answer."""
    try:
        with Wire(server.address) as wire:
            wire.hello()
            return int(wire.api(f"STREAM.INFO.{stream}")["state"]["messages"])
    except (*GONE, KeyError):
        return -1
