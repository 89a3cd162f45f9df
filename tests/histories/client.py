"""The base class of the clients of a run: connect to a node that answers, work, reconnect."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.histories.history import Writer
from tests.support.wire import Closed, Frame, Silence, Wire

Address = tuple[str, int]
Addresses = Callable[[], Iterator[tuple[Address, Address]]]

GONE = (Closed, Silence, OSError)
_AGAIN_S = 0.05
_GREETING_S = 2.0


class Client(threading.Thread, ABC):
    """A client in a thread, which records its requests and the answers in a history file.

    Args:
        addresses: Returns the NATS and HTTP addresses of the nodes, in the order of attempts.
        directory: Directory of the history files.

    Attributes:
        failure: Text of an unexpected exception that ended the thread; empty without one.
    """

    time_limit = 5.0
    """Seconds without an answer after which the client connects to another node."""

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name=name, daemon=True)
        self.history = Writer(directory, name)
        self.stopping = threading.Event()
        self.failure = ""
        self._addresses = addresses

    def run(self) -> None:
        try:
            with self.history:
                while not self.is_done():
                    for nats, http in self._addresses():
                        if not self.is_done():
                            self._visit(nats, http)
                    self.stopping.wait(_AGAIN_S)
        except Exception as error:
            self.failure = f"{self.name}: {type(error).__name__}: {error}"
            raise

    def _visit(self, nats: Address, http: Address) -> None:
        try:
            self.connect(nats, http)
        except GONE:
            return

    def connect(self, nats: Address, http: Address) -> None:
        """Connect to a node and call `work`. Raises an exception in `GONE` if the node fails."""
        with Wire(nats, timeout=_GREETING_S) as wire:
            try:
                wire.hello()
            except AssertionError as error:  # the server sent an error
                raise Closed(str(error)) from None
            wire.timeout = self.time_limit
            self.history.conn += 1
            self.work(wire)

    @abstractmethod
    def work(self, wire: Wire) -> None:
        """Use a connection until `stopping` is set.

        Raises an exception in `GONE` if the server closes the connection or does not answer.
        """

    def frames(self, wire: Wire) -> Iterator[Frame]:
        """Yield frames until `stopping` is set. Raises Silence if the server answers no PING."""
        quiet = 0
        while not self.stopping.is_set():
            try:
                frame = wire.frame(self.time_limit / 5)
            except Silence:
                quiet += 1
                if quiet > 5:
                    raise
                wire.send(b"PING\r\n")
                continue
            quiet = 0
            yield frame

    def is_done(self) -> bool:
        """Return True if the client has no unfinished work."""
        return self.stopping.is_set()


def answer_flow_control(wire: Wire, frame: Frame) -> bool:
    """Reply to the frame if it is a flow control request; return True if it has status 100."""
    if not frame.headers.startswith(b"NATS/1.0 100"):
        return False
    stalled = header(frame, "Nats-Consumer-Stalled")
    if subject := frame.reply.decode() or stalled:
        wire.publish(subject)
    return True


def header(frame: Frame, name: str) -> str:
    """Return the first value of a header; empty without one."""
    for line in frame.headers.decode().split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""
