"""Clients of a run that remove their messages by delete and purge, and read them afterwards."""

import json
import random
from collections import deque
from pathlib import Path
from typing import Any

from tests.histories.client import Addresses, Client
from tests.histories.publishers import direct_get, publish_one
from tests.support.wire import Wire

_RETAINED = 20  # messages of a client; if it has more, it purges the oldest


class Remover(Client):
    """A client that publishes to the stream TRASH and removes its own messages."""

    def __init__(self, name: str, addresses: Addresses, directory: Path, seed: int) -> None:
        super().__init__(name, addresses, directory)
        self.subject = f"trash.{name}"
        self._choose = random.Random(f"{name}{seed}")
        self._number = 0
        self._there: deque[int] = deque()

    def work(self, wire: Wire) -> None:
        while not self.stopping.wait(0.05):
            self._number += 1
            value = f"{self.name}-{self._number}"
            if seq := publish_one(self, wire, "TRASH", self.subject, value):
                self._there.append(seq)
            if self._number % 3 == 0 and self._there:
                seq = self._choose.choice(self._there)
                self._there.remove(seq)
                if self._remove(wire, "MSG.DELETE", "seq", seq):
                    direct_get(self, wire, "TRASH", self.subject, seq)
            if len(self._there) > _RETAINED:
                gone, first = self._there.popleft(), self._there[0]
                if self._remove(wire, "PURGE", "purge", first):
                    direct_get(self, wire, "TRASH", self.subject, gone)

    def _remove(self, wire: Wire, verb: str, how: str, seq: int) -> bool:
        """Delete a message, or purge those before it; return True if the server confirmed it."""
        known: dict[str, Any] = {"op": self.history.next_op(), "stream": "TRASH", "how": how}
        known |= {"subject": self.subject, "seq": seq}
        self.history.write("remove", "invoke", **known)
        body = {"seq": seq, "filter": self.subject} if how == "purge" else {"seq": seq}
        phase: Any = "unknown"
        try:
            frame = wire.request(f"$JS.API.STREAM.{verb}.TRASH", json.dumps(body).encode())
            if frame.payload:
                phase = "ok" if frame.json().get("success") else "fail"
        finally:
            self.history.write("remove", phase, **known)
        return bool(phase == "ok")
