"""Clients of a run that create short-lived objects: limited messages, streams, consumers."""

import json
from collections import deque
from pathlib import Path
from typing import Any

from tests.histories.client import Addresses, Client
from tests.histories.publishers import direct_get, read_answer
from tests.histories.scenario import TTL_S
from tests.support.wire import Wire

_HIRED = 3  # consumers that exist at a time


class Filler(Client):
    """A client that publishes to the stream FULL and purges its own messages if that is full."""

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
        """Purge all messages of this client except the last one with a known sequence."""
        known: dict[str, Any] = {"op": self.history.next_op(), "stream": "FULL", "how": "purge"}
        known |= {"subject": self.subject, "seq": self._last}
        body = {"filter": self.subject, "seq": self._last}
        asked = ask(self, wire, "remove", "$JS.API.STREAM.PURGE.FULL", known, body)
        assert asked != "fail", "a purge of what one has is refused to nobody"


class Fader(Client):
    """A client that publishes messages with a TTL to the stream FADING and reads them.

    Each message has a subject of its own.
    """

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
            # Read the oldest message until it has expired, and the newest while it exists.
            if self._there and direct_get(self, wire, "FADING", "", self._there[-1]) == 0:
                self._there.pop()
            if self._there and direct_get(self, wire, "FADING", "", self._there[0]) == 0:
                self._there.popleft()
            self.stopping.wait(0.05)
            if self.stopping.is_set():
                wire.flush()  # wait for PONG, so that the loop does not spin


class Maker(Client):
    """A client that creates streams, requests their info, and deletes them.

    It never reuses the name of a stream after an unknown outcome, because the request may still be
    in flight.
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
    """A client that creates consumers of the stream RING, updates, inspects and deletes them.

    It never reuses the name of a consumer after an unknown outcome, because the request may still
    be in flight.
    """

    time_limit = 10.0  # long enough for the answer of a node after an outage of PostgreSQL
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
        """Create or update a consumer, with the name of the action as its description."""
        config = {"durable_name": consumer, "description": action, "deliver_policy": "new"}
        config["ack_policy"] = "explicit"
        body = {"stream_name": self.stream, "action": action, "config": config}
        return self._ask(wire, consumer, "CREATE", body, action)

    def _ask(self, wire: Wire, consumer: str, verb: str, body: Any = None, how: str = "") -> str:
        known: dict[str, Any] = {"op": self.history.next_op(), "stream": self.stream}
        known |= {"consumer": consumer, "how": how or verb.lower()}
        subject = f"$JS.API.CONSUMER.{verb}.{self.stream}.{consumer}"
        return ask(self, wire, "object", subject, known, body)


_UNCERTAIN = {10008, 10074}  # no leader; unknown outcome


def ask(
    client: Client, wire: Wire, kind: Any, subject: str, known: dict[str, Any], body: Any
) -> str:
    """Send an API request and record it and its outcome; return "ok", "fail" or "unknown"."""
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
    """Publish without a message id; record the request and its outcome.

    Returns the sequence (0 without acknowledgement), and True if the stream refused the message
    because it is full.
    """
    known: dict[str, Any] = {"op": client.history.next_op(), "stream": stream, "value": value}
    client.history.write("publish", "invoke", subject=subject, **known)
    phase: Any = "unknown"
    fields: dict[str, Any] = {}
    error: dict[str, Any] = {}
    try:
        answer = read_answer(wire.request(subject, value.encode(), headers))
        error = answer.get("error", {})
        phase = "fail" if error else "ok"
        fields = {"text": json.dumps(error)} if error else {"seq": answer["seq"]}
    finally:
        client.history.write("publish", phase, **known, **fields)
    return int(fields.get("seq", 0)), error.get("err_code") == 10077
