"""kill -9 of the server and of PostgreSQL under readers over WebSocket and server-sent events.

They resume after their positions, and get every message once, in order, or a notice of a gap.
"""

# Subject: feeds, crashes

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

from websockets.exceptions import WebSocketException

from gateway.ws.close_codes import Remedy, remedy_of
from tests.crash.clients import STREAM, Publisher, create
from tests.crash.ledger import Ledger
from tests.gateway.sockets import Address, Socket, following
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

GONE = (OSError, EOFError, ValueError, HTTPException, WebSocketException)
CYCLES = 4


class Reader(threading.Thread, ABC):
    """A thread that reads, records messages, and reconnects after each disconnection."""

    def __init__(self, address: Callable[[], Address]) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.seen: list[int] = []
        self.told: list[Any] = []
        self.resumed = 0
        self.stopping = threading.Event()
        self.failure = ""
        self.incarnation = ""

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.read()
            except GONE:
                self.stopping.wait(0.05)
            except Exception as error:
                self.failure = repr(error)
                raise

    @abstractmethod
    def read(self) -> None:
        """Read from the last position on; raise one of GONE when disconnected."""

    def begin(self, position: dict[str, Any]) -> None:
        self.resumed += bool(self.seen)
        self.incarnation = position["incarnation"]
        if not position["recovered"]:
            self.told.append(position)

    def last(self) -> int:
        return self.seen[-1] if self.seen else 0


class SocketReader(Reader):
    def read(self) -> None:
        with Socket(self.address()) as ws:
            where: dict[str, Any] = {"from": "all"}
            if self.seen:
                where = {"after": {"incarnation": self.incarnation, "seq": self.last()}}
            begun = ws.ask("sub", sid=1, stream=STREAM, **where)
            if begun["type"] == "error":
                assert begun["problem"]["status"] in (503, 504), begun
                raise EOFError
            self.begin(begun)
            while not self.stopping.is_set():
                try:
                    frame = ws.earlier_frames.pop(0) if ws.earlier_frames else ws.frame(within=0.2)
                except TimeoutError:
                    continue
                except WebSocketException:
                    code = ws.ws.close_code or 1006
                    assert remedy_of(code) in (Remedy.RETRY, Remedy.BACK_OFF), code
                    raise
                if frame["type"] == "msg":
                    self.seen += [message["seq"] for message in frame["messages"]]
                else:
                    self.told.append(frame)


class EventReader(Reader):
    def read(self) -> None:
        resume = {"Last_Event_ID": f"{self.incarnation}:{self.last()}"} if self.seen else {}
        with following(self.address(), f"/v1/streams/{STREAM}/tail?from=all", **resume) as events:
            if events.status != 200:
                assert events.status in (503, 504)
                raise EOFError
            while not self.stopping.is_set():
                event = events.next()
                if event.get("event") == "position":
                    self.begin(event["data"])
                elif "event" in event:
                    self.told.append(event)
                else:
                    self.seen.append(event["data"]["seq"])


def test_readers_resume_over_crashes_without_a_hole() -> None:
    ledger = Ledger()
    with JetgateServer() as server:
        create(server.address)
        publishers = [
            Publisher(name, lambda: server.address, ledger, ids=True) for name in ("ids0", "ids1")
        ]
        readers: list[Reader] = [SocketReader(lambda: server.http) for _ in range(2)]
        readers += [EventReader(lambda: server.http) for _ in range(2)]
        for thread in (*publishers, *readers):
            thread.start()
        for cycle in range(CYCLES):
            enough = len(ledger.acked) + 300
            eventually(lambda enough=enough: len(ledger.acked) >= enough, within=120)  # type: ignore[misc]
            if cycle % 2:
                server.kill_postgres()
            server.restart()
        for publisher in publishers:
            publisher.stop()
        with Wire(server.address) as wire:
            wire.hello()
            last = wire.api(f"STREAM.INFO.{STREAM}")["state"]["last_seq"]
        for reader in readers:
            eventually(lambda reader=reader: reader.failure or reader.last() >= last, within=60)  # type: ignore[misc]
            reader.stopping.set()
        with Wire(server.address) as wire:  # an event, so that readers see `stopping`
            wire.hello()
            wire.request(f"{STREAM}.last", b"end", b"")
        for reader in readers:
            reader.join(30)
    everything = list(range(1, last + 1))
    assert last >= len(ledger.acked)
    for reader in readers:
        assert reader.failure == ""
        assert reader.told == []
        assert reader.seen[:last] == everything
        assert reader.resumed >= 1
