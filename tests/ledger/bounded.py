"""Who makes what does not stay: messages of a full stream, or for seconds, streams, consumers."""

import json
from collections import deque
from pathlib import Path
from typing import Any

from tests.ledger.client import Addresses, Client
from tests.ledger.publishers import direct_get, read_answer
from tests.ledger.scenario import TTL_S
from tests.support.wire import Wire

_HIRED = 3  # consumers that are there at a time


class Filler(Client):
    """Publishes into FULL, and purges what it has there when that takes no more."""

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self.subject = f"full.{name}"
        self._number = 0
        self._last = 0

    def work(self, wire: Wire) -> None:
        while not self.stopping.wait(0.05):
            self._number += 1
            seq, is_full = put(self, wire, "FULL", self.subject, f"{self.name}-{self._number}")
            self._last = seq or self._last
            if is_full:
                self._purge(wire)

    def _purge(self, wire: Wire) -> None:
        """Purge all but the last of what is known to be there."""
        known: dict[str, Any] = {"op": self.history.next_op(), "stream": "FULL", "how": "purge"}
        known |= {"subject": self.subject, "seq": self._last}
        body = {"filter": self.subject, "seq": self._last}
        asked = ask(self, wire, "remove", "$JS.API.STREAM.PURGE.FULL", known, body)
        assert asked != "fail", "a purge of what one has is refused to nobody"


class Fader(Client):
    """Publishes into FADING what lives for seconds, each under a subject of its own, and looks."""

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self._number = 0
        self._there: deque[int] = deque()

    def is_done(self) -> bool:
        return self.stopping.is_set() and not self._there

    def work(self, wire: Wire) -> None:
        head = f"NATS/1.0\r\nNats-TTL: {TTL_S}s\r\n\r\n".encode()
        while not self.is_done():
            if not self.stopping.is_set():
                self._number += 1
                value = f"{self.name}-{self._number}"
                seq, _ = put(self, wire, "FADING", f"fading.{value}", value, head)
                self._there += [seq] if seq else []
            # The oldest is looked at until it is gone, the latest while it is there.
            if self._there and direct_get(self, wire, "FADING", "", self._there[-1]) == 0:
                self._there.pop()
            if self._there and direct_get(self, wire, "FADING", "", self._there[0]) == 0:
                self._there.popleft()
            self.stopping.wait(0.05)
            if self.stopping.is_set():
                wire.flush()  # it is in no hurry


class Maker(Client):
    """Makes streams, looks whether they are there, and deletes them.

    The name of one whose making or end is unknown is not used again: the request may be on its way.
    """

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self._number = 0

    def work(self, wire: Wire) -> None:
        while not self.stopping.wait(0.1):
            self._number += 1
            stream = f"{self.name}-{self._number}"
            config = {"name": stream, "subjects": [f"{self.name}.{self._number}"]}
            if self._ask(wire, stream, "CREATE", config) != "ok":
                continue
            self._ask(wire, stream, "INFO")
            if self._number % 4 and self._ask(wire, stream, "DELETE") == "ok":
                self._ask(wire, stream, "INFO")

    def _ask(self, wire: Wire, stream: str, verb: str, body: Any = None) -> str:
        known = {"op": self.history.next_op(), "stream": stream, "how": verb.lower()}
        return ask(self, wire, "object", f"$JS.API.STREAM.{verb}.{stream}", known, body)


class Hirer(Client):
    """Makes consumers of RING, changes them, looks whether they are as told, and deletes them.

    As of a stream, the name of one of which something is unknown is not used again.
    """

    patience = 10.0  # what its node says when PostgreSQL is back is an answer
    stream = "RING"

    def __init__(self, name: str, addresses: Addresses, directory: Path) -> None:
        super().__init__(name, addresses, directory)
        self._number = 0
        self._there: deque[str] = deque()

    def work(self, wire: Wire) -> None:
        while not self.stopping.wait(0.1):
            self._number += 1
            consumer = f"{self.name}-{self._number}"
            if self._make(wire, consumer, "create") == "ok":
                self._there.append(consumer)
            for known in self._there:
                self._ask(wire, known, "INFO")
            if len(self._there) > _HIRED:
                known = self._there.popleft()
                if self._make(wire, known, "update") == "ok":
                    self._ask(wire, known, "INFO")
                    self._ask(wire, known, "DELETE")
                    self._ask(wire, known, "INFO")

    def _make(self, wire: Wire, consumer: str, action: str) -> str:
        """Make one or change it: its description is what was done last."""
        config = {"durable_name": consumer, "description": action, "deliver_policy": "new"}
        config["ack_policy"] = "explicit"
        body = {"stream_name": self.stream, "action": action, "config": config}
        return self._ask(wire, consumer, "CREATE", body, action)

    def _ask(self, wire: Wire, consumer: str, verb: str, body: Any = None, how: str = "") -> str:
        known: dict[str, Any] = {"op": self.history.next_op(), "stream": self.stream}
        known |= {"consumer": consumer, "how": how or verb.lower()}
        subject = f"$JS.API.CONSUMER.{verb}.{self.stream}.{consumer}"
        return ask(self, wire, "object", subject, known, body)


_UNCERTAIN = {10008, 10074}  # nobody leads; nobody tells what became of it


def ask(
    client: Client, wire: Wire, kind: Any, subject: str, known: dict[str, Any], body: Any
) -> str:
    """Ask the API and note it; ok, fail, or unknown where nobody can say what came of it."""
    client.history.write(kind, "invoke", **known)
    phase: Any = "unknown"
    text = value = ""
    try:
        payload = b"" if body is None else json.dumps(body).encode()
        frame = wire.request(subject, payload)
        if frame.payload:
            error = frame.json().get("error")
            text = json.dumps(error) if error else ""
            if error is None:
                phase = "ok"
                value = frame.json().get("config", {}).get("description", "")
            elif error["code"] != 503 and error["err_code"] not in _UNCERTAIN:
                phase = "fail"
    finally:
        client.history.write(kind, phase, **known, text=text, value=value)
    return str(phase)


def put(
    client: Client, wire: Wire, stream: str, subject: str, value: str, headers: bytes = b""
) -> tuple[int, bool]:
    """Publish without an id and note it; the sequence, or 0, and whether the stream was full."""
    known: dict[str, Any] = {"op": client.history.next_op(), "stream": stream, "value": value}
    client.history.write("publish", "invoke", subject=subject, **known)
    phase: Any = "unknown"
    said: dict[str, Any] = {}
    error: dict[str, Any] = {}
    try:
        answer = read_answer(wire.request(subject, value.encode(), headers))
        error = answer.get("error", {})
        phase = "fail" if error else "ok"
        said = {"text": json.dumps(error)} if error else {"seq": answer["seq"]}
    finally:
        client.history.write("publish", phase, **known, **said)
    return int(said.get("seq", 0)), error.get("err_code") == 10077
