"""kill -9 while batches are committed: each row of the effective manifest is stored once."""

# Subject: transactions, crashes

import json
import random
from functools import partial
from itertools import count
from typing import Any

from tests.crash.clients import GONE, Client
from tests.crash.ledger import Ledger
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.transactions import Attempt, encoded
from tests.support.wire import Wire

STREAM = "TX"
BATCHES = 8
ROWS = 9000
BLOCK = 1500
CYCLES = 6
SEED = 20261122


class Driver(Client):
    """A client that commits batch after batch, and may continue as another run.

    A new run stages its own rows for the current batch, as a restarted query does. Its manifest is
    effective only if the server has none for that batch.
    """

    def __init__(self, server: JetgateServer) -> None:
        super().__init__("driver", lambda: server.address, Ledger())
        self.choose = random.Random(SEED)
        self.runs = count(1)
        self.run_id = 0
        self.batch = 0
        self.finished = False

    def work(self, wire: Wire) -> None:
        if self.choose.random() < 0.7 or not self.run_id:
            self.run_id = next(self.runs)
        opened = _ask(wire, "OPEN", {"app": "app", "run": f"run {self.run_id}"})
        if opened is None:
            return
        while self.batch < BATCHES and not self.stopping.is_set():
            attempts = [self._stage(wire, n) for n in range(2)]
            self._stage(wire, 2)  # staged, but not in the manifest
            manifest = {
                "app": "app",
                "token": opened["token"],
                "batch": self.batch,
                "attempts": [attempt.manifest() for attempt in attempts],
                "expires": 200_000_000,
            }
            while (answer := _ask(wire, "COMMIT", manifest)) is None or answer["state"] != "done":
                if self.stopping.is_set():
                    return
            assert answer["rows"] == answer["promoted"] == 2 * ROWS, answer
            self.batch += 1
        self.finished = self.batch == BATCHES
        self.stopping.wait(0.05)

    def _stage(self, wire: Wire, number: int) -> Attempt:
        """Stage rows that contain batch, run and attempt, and their position in the attempt."""
        name = f"{self.batch}-{self.run_id}-{number}-{self.choose.getrandbits(32):x}"
        attempt = Attempt(name)
        for start in range(0, ROWS, BLOCK):
            rows = [(f"tx.{n % 7}", f"{name} {n}".encode()) for n in range(start, start + BLOCK)]
            block = b"".join(map(encoded, rows))
            ack = wire.request(f"$JG.STAGE.{STREAM}.{name}", block).json()
            if "error" in ack:
                raise ConnectionError(ack["error"])
            attempt.took(ack["seq"], block, BLOCK)
        return attempt


def _ask(wire: Wire, verb: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return an answer; None while storage is unavailable."""
    answer = wire.request(f"$JG.API.TXN.{verb}.{STREAM}", json.dumps(body).encode()).json()
    if "error" in answer:
        assert answer["error"]["err_code"] == 10008, answer
        return None
    return dict(answer)


def _stored(server: JetgateServer) -> int:
    try:
        with Wire(server.address, timeout=2) as wire:
            wire.hello()
            return int(wire.api(f"STREAM.INFO.{STREAM}")["state"]["messages"])
    except (*GONE, KeyError):
        return -1


def _payloads(server: JetgateServer) -> list[str]:
    """Return the payloads of all messages, oldest first, by Direct Get."""
    found: list[str] = []
    with Wire(server.address) as wire:
        wire.hello()
        wire.send(b"SUB d 1\r\n")
        seq = 1
        while True:
            ask = json.dumps({"seq": seq, "batch": 1000}).encode()
            wire.publish(f"$JS.API.DIRECT.GET.{STREAM}", ask, reply=b"d")
            before = len(found)
            while b"NATS/1.0 204" not in (frame := wire.frame()).headers:
                if b"NATS/1.0 404" in frame.headers:
                    return found
                found.append(frame.payload.decode())
            seq += len(found) - before


def test_each_row_of_a_batch_is_stored_once() -> None:
    choose = random.Random(SEED)
    with JetgateServer() as server:
        with Wire(server.address) as wire:
            wire.hello()
            config = {"name": STREAM, "subjects": ["tx.*"], "allow_direct": True}
            assert "error" not in wire.api(f"STREAM.CREATE.{STREAM}", config)
        driver = Driver(server)
        driver.start()
        total = BATCHES * 2 * ROWS
        for cycle, enough in enumerate(sorted(choose.sample(range(total - ROWS), CYCLES))):
            eventually(partial(lambda enough: _stored(server) > enough, enough), within=120)
            if cycle % 2:
                server.kill_postgres()
            server.restart()
        eventually(lambda: driver.finished or driver.failure, within=240)
        driver.stop()
        stored = _payloads(server)

    assert len(stored) == total
    for batch in range(BATCHES):
        part = stored[batch * 2 * ROWS : (batch + 1) * 2 * ROWS]
        names = [part[0].split(" ")[0], part[ROWS].split(" ")[0]]
        assert [name.split("-")[0] for name in names] == [str(batch)] * 2
        assert names[0].split("-")[1] == names[1].split("-")[1], "of two manifests"
        assert part == [f"{name} {n}" for name in names for n in range(ROWS)]
