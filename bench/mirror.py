"""The rate of a mirror while a publisher sends to its origin at full speed."""

import time
from dataclasses import dataclass

from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import Connection, LoadError, Sender, publishes, pump

_TIMEOUT_S = 120.0
_POLL_S = 0.01


@dataclass(slots=True)
class Mirror:
    """Asynchronous publish to an origin stream, measured until its mirror or sourcing stream is
    complete.

    `rate` is messages per second until the copy is complete, `publish` those of the origin, and
    `share` the first divided by the second.
    """

    count: int
    size: int = 128
    window: int = 2000
    sourced: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        """Publish, and wait until the copy is complete."""
        count, name = int(self.count * scale), f"ORIGIN{run}"
        connection, observer = Connection(peer.address), Connection(peer.address)
        stream(connection, name)
        copy = f"COPY{run}"
        config = {"sources": [{"name": name}]} if self.sourced else {"mirror": {"name": name}}
        observer.api(f"STREAM.CREATE.{copy}", {"name": copy, **config})
        inbox = b"_INBOX.pub0"
        connection.send(b"SUB %s.* 1\r\n" % inbox)
        # The first message proves that the copy is connected to its origin.
        pump([Sender(connection, publishes(name.encode() + b".a", 1, b"x", inbox))], window=1)
        self._wait(observer, copy, 1)
        messages = publishes(name.encode() + b".a", count, b"x" * self.size, inbox)
        began = time.perf_counter()
        published = pump([Sender(connection, messages)], window=self.window)
        self._wait(observer, copy, count + 1)
        took = time.perf_counter() - began
        connection.close()
        observer.close()
        return {"rate": count / took, "publish": count / published, "share": published / took}

    def _wait(self, observer: Connection, copy: str, count: int) -> None:
        until = time.perf_counter() + _TIMEOUT_S
        while observer.api(f"STREAM.INFO.{copy}")["state"]["messages"] < count:
            if time.perf_counter() > until:
                raise LoadError(f"{copy} did not follow within {_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
